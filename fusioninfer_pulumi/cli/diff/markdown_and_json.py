"""A difference as markdown for a pull request, and as JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from fusioninfer_pulumi.cli.diff._formatting import (
    Group,
    build_replica_table,
    count_objects,
    format_lines,
    group_changes,
    printable,
    summarize,
    total_rows,
)
from fusioninfer_pulumi.cli.diff._records import Action, Difference

# GitHub rejects comments of more than 65,536 characters; the rest is for text of the caller, such
# as the mark by which a job finds its comment again.
LIMIT = 65_000
_LONGEST_LINE = 240
_LONGEST_NOTE = 1_000
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
#: Parts of `reason`.
_ONLY_FOR_TEXT = frozenset({"restart_reason", "role_change"})
_SIGNS: dict[Action, str] = {"added": "+", "removed": "-", "changed": "@@", "replaced": "!"}


def to_markdown(difference: Difference, *, limit: int = LIMIT) -> str:
    """Writes a difference as markdown for GitHub and GitLab.

    Args:
        difference: The result of `compare`.
        limit: Most characters; lines that do not fit are counted.

    Returns:
        A summary in one line, what the change does, and the changed fields folded away.
    """
    first = f"**{summarize(difference)}**"
    if not difference:
        return f"{first}\n"
    head = [first, "", *(f"- {_escaped(note)}" for note in difference.notes), ""]
    if difference.effects:
        titles, rows = build_replica_table(difference)
        head += _table([name.capitalize() for name in titles], rows)
    if difference.totals:
        head += _table(["Service", "Pods", "Accelerators"], total_rows(difference))
    above = "\n".join(_fitting(head, limit // 2)).rstrip("\n") + "\n"
    if not difference.objects:
        return above
    frame = f"<details>\n<summary>{count_objects(difference.objects)}</summary>\n\n"
    lines: list[str] = []
    above_fields = False
    for group in group_changes(difference.objects):
        # An added object right below the fields of another one would look like their value.
        gap = [""] if lines and (group.fields or above_fields) else []
        lines += [*gap, *_lines(group)]
        above_fields = bool(group.fields)
    # 200 characters for the fences and the end.
    body = "\n".join(_fitting(lines, limit - len(above) - len(frame) - 200))
    # Longer than any fence of the values, so that none of them ends the block.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{above}\n{frame}{fence}diff\n{body}\n{fence}\n\n</details>\n"


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_escaped, row))} |"
    yield ""


def _lines(group: Group) -> Iterator[str]:
    """The title, then the fields with their values."""
    action = group.objects[0].action
    line = f"{_SIGNS[action]} {_cut(printable(group.title), _LONGEST_NOTE)}"
    if action == "changed":
        line += " @@"
    elif action == "replaced":
        line += ", replaced: deleted and recreated"
    yield line
    for change in group.fields:
        yield f"  {_cut(printable(change.path), _LONGEST_LINE)}:"
        yield from format_lines(change, _LONGEST_LINE)


def _fitting(lines: list[str], limit: int) -> Iterator[str]:
    """Yields lines while they fit, then the number of the others."""
    for number, line in enumerate(lines):
        limit -= len(line) + 1
        if limit < 0:
            yield f"… {len(lines) - number} more lines; use --output json to list all"
            return
        yield line


def _escaped(text: str) -> str:
    """Writes text so that markdown and HTML show it as it is."""
    arrows = _cut(printable(text), _LONGEST_NOTE).replace(" -> ", " → ")
    html = arrows.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", html)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def to_json(difference: Difference) -> dict[str, Any]:
    """Builds the JSON form; its keys are a contract.

    Args:
        difference: The result of `compare`.

    Returns:
        `different` (whether anything is), then the fields of the records in camelCase.
    """
    return {"different": bool(difference), **_json(difference)}


def _json(value: Any) -> Any:
    if hasattr(value, "_asdict"):  # a named tuple of another package
        return value._asdict()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if not is_dataclass(value):
        return value
    return {
        re.sub("_(.)", lambda match: match[1].upper(), item.name): _json(getattr(value, item.name))
        for item in fields(value)
        if item.name not in _ONLY_FOR_TEXT
    }
