"""A difference as a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fusioninfer_pulumi.cli.diff.groups import NO_OBJECT, Group, counts, grouped
from fusioninfer_pulumi.cli.diff.records import Action, Difference
from fusioninfer_pulumi.cli.diff.table import before_after, effect_rows, restarting, service_name
from fusioninfer_pulumi.cli.diff.values import lines, printable

# GitHub refuses comments of more than 65,536 characters; what is left is for the caller's own
# words, such as the mark by which a job finds its comment again.
LIMIT = 65_000
_LONGEST_LINE = 240
_LONGEST_NOTE = 1_000
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_SIGNS: dict[Action, str] = {"added": "+", "removed": "-", "changed": "@@", "replaced": "!"}


def to_markdown(difference: Difference, *, limit: int = LIMIT) -> str:
    """Writes a difference as markdown for GitHub and GitLab.

    Args:
        difference: What `compare` found.
        limit: Most characters; what does not fit is counted.

    Returns:
        A summary in one line, what the change does, and the changed fields folded away.
    """
    told = restarting(difference)
    what = counts(difference.objects) if difference.objects or not difference else NO_OBJECT
    summary = f"**{what}{f'; {told}' if told else ''}**"
    if not difference:
        return f"{summary}\n"
    head = [summary, "", *_notes(difference), *_effects(difference), *_totals(difference)]
    kept, more = _fitting(head, limit // 2)
    if more:
        kept.append(f"… {more} more lines")
    above = "\n".join(kept).rstrip("\n") + "\n\n"
    if not difference.objects:
        return above.rstrip("\n") + "\n"
    return above + _details(difference, limit - len(above))


def _notes(difference: Difference) -> Iterator[str]:
    for note in difference.notes:
        yield f"- {_escaped(note)}"
    yield ""


def _effects(difference: Difference) -> Iterator[str]:
    if difference.effects:
        head, rows = effect_rows(difference)
        yield from _table([name.capitalize() for name in head], rows)


def _totals(difference: Difference) -> Iterator[str]:
    if difference.totals:
        rows = [
            [
                service_name(each),
                before_after(each.pods_before, each.pods_after),
                before_after(each.accelerators_before, each.accelerators_after),
            ]
            for each in difference.totals
        ]
        yield from _table(["Service", "Pods", "Accelerators"], rows)


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_escaped, row))} |"
    yield ""


def _details(difference: Difference, limit: int) -> str:
    blocks: list[_Block] = []
    apart = False
    for group in grouped(difference.objects):
        first, *fields = _blocks(group)
        # An added object right below the fields of another one would look like their value.
        gap = "\n" if apart or (fields and blocks) else ""
        blocks += [replace(first, text=gap + first.text), *fields]
        apart = bool(fields)
    frame = f"<details>\n<summary>{counts(difference.objects)}</summary>\n\n"
    # Room for the fences and for the sentence on what is left out.
    texts, _ = _fitting([block.text for block in blocks], limit - len(frame) - 500)
    untold = blocks[len(texts) :]
    body = "\n".join(texts)
    # Longer than any fence of the values, so that none of them ends the block.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    more = ""
    if untold:
        objects = sum(block.objects for block in untold)
        changes = sum(block.fields for block in untold)
        more = (
            f"\nLeft out here, where it does not fit: {objects} more objects and {changes} more "
            "changes of fields. `fusioninfer-pulumi diff` prints them all.\n"
        )
    return f"{frame}{fence}diff\n{body}\n{fence}\n{more}\n</details>\n"


@dataclass(frozen=True)
class _Block:
    """Lines that stay together, and how much they tell."""

    text: str
    objects: int = 0
    fields: int = 0


def _blocks(group: Group) -> Iterator[_Block]:
    action = group.objects[0].action
    title = _cut(printable(group.title), _LONGEST_NOTE)
    line = f"{_SIGNS[action]} {title}"
    if action == "changed":
        line += " @@"
    elif action == "replaced":
        line += ", deleted and created anew"
    yield _Block(line, objects=len(group.objects))
    for change in group.fields:
        path = _cut(printable(change.path), _LONGEST_LINE)
        values = "\n".join(lines(change, _LONGEST_LINE))
        yield _Block(f"  {path}:\n{values}", fields=len(group.objects))


def _fitting(texts: Iterable[str], limit: int) -> tuple[list[str], int]:
    """Takes texts while they fit, and counts the others."""
    taken: list[str] = []
    left = 0
    for text in texts:
        limit -= len(text) + 1
        if limit < 0 or left:
            left += 1
        else:
            taken.append(text)
    return taken, left


def _escaped(text: str) -> str:
    """Writes text so that markdown and HTML show it as it is."""
    arrows = _cut(printable(text), _LONGEST_NOTE).replace(" -> ", " → ")
    html = arrows.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", html)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
