"""`diff --output markdown`, for pull requests, and `diff --output json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fusioninfer_pulumi.cli.diff._formatting import (
    ChangeGroup,
    build_replica_table,
    build_total_rows,
    count_objects,
    cut,
    escape_unprintable,
    format_lines,
    group_changes,
    summarize,
)
from fusioninfer_pulumi.cli.diff._records import Action, Difference

# GitHub rejects comments of more than 65,536 characters. The difference of 536 is for text that a
# CI job adds, such as the mark by which it finds its comment again.
MAX_CHARACTERS = 65_000
_MAX_LINE = 240
_MAX_TEXT = 1_000
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
#: Fields that JSON omits: the first two are parts of `reason`, and `suffix` only explains a path.
_OMITTED = frozenset({"restart_reason", "role_change", "suffix"})
_SIGNS: dict[Action, str] = {"added": "+", "removed": "-", "changed": "@@", "replaced": "!"}


def to_markdown(difference: Difference, *, limit: int = MAX_CHARACTERS) -> str:
    """Return a difference as markdown for GitHub and GitLab.

    Args:
        difference: The result of `compare`.
        limit: Maximum number of characters. A section that is cut ends with the number of omitted
            lines.

    Returns:
        A summary in one line, the effects of the change, and the changed fields in a collapsed
        section.
    """
    summary = f"**{summarize(difference)}**"
    if not difference:
        return f"{summary}\n"
    lines = [summary, "", *(f"- {_escape(note)}" for note in difference.notes), ""]
    if difference.effects:
        titles, rows = build_replica_table(difference)
        lines += _format_table([name.capitalize() for name in titles], rows)
    if difference.totals:
        lines += _format_table(["Service", "Pods", "GPUs"], build_total_rows(difference))
    overview = "\n".join(_truncate(lines, limit // 2)).rstrip("\n") + "\n"
    if not difference.objects:
        return overview
    opening = f"<details>\n<summary>{count_objects(difference.objects)}</summary>\n\n"
    lines = []
    follows_fields = False
    for group in group_changes(difference.objects):
        # Without an empty line, an added object would look like a field of the object above it.
        gap = [""] if lines and (group.fields or follows_fields) else []
        lines += [*gap, *_format_group(group)]
        follows_fields = bool(group.fields)
    # 200 characters are for the fences and the closing tag.
    body = "\n".join(_truncate(lines, limit - len(overview) - len(opening) - 200))
    longest_run = max((len(run) for run in re.findall("`+", body)), default=0)
    # The fence is longer than all backticks in the values, so that no value closes the block.
    fence = "`" * max(3, longest_run + 1)
    return f"{overview}\n{opening}{fence}diff\n{body}\n{fence}\n\n</details>\n"


def _format_table(titles: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(map(_escape, row))} |"
    yield ""


def _format_group(group: ChangeGroup) -> Iterator[str]:
    action = group.objects[0].action
    line = f"{_SIGNS[action]} {cut(escape_unprintable(group.title), _MAX_TEXT)}"
    if action == "changed":
        line += " @@"
    elif action == "replaced":
        line += ", replaced: deleted and recreated"
    yield line
    for change in group.fields:
        yield f"  {cut(escape_unprintable(change.path + change.suffix), _MAX_LINE)}:"
        yield from format_lines(change, _MAX_LINE)


def _truncate(lines: list[str], limit: int) -> Iterator[str]:
    """Yield the lines that fit into `limit` characters, then the number of omitted lines."""
    remaining = limit
    for number, line in enumerate(lines):
        remaining -= len(line) + 1
        if remaining < 0:
            yield f"… {len(lines) - number} more lines; use --output json to list all"
            return
        yield line


def _escape(text: str) -> str:
    """Escape text for markdown and HTML; long text is cut, and ` -> ` becomes an arrow."""
    with_arrows = cut(escape_unprintable(text), _MAX_TEXT).replace(" -> ", " → ")
    html = with_arrows.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", html)


def to_json(difference: Difference) -> dict[str, Any]:
    """Return a difference as JSON; users' programs rely on the keys.

    The keys are `different`, and the fields of the records in camelCase except for `_OMITTED`.
    """
    return {"different": bool(difference), **_to_plain(difference)}


def _to_plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {
            re.sub("_(.)", lambda match: match[1].upper(), name): _to_plain(item)
            for name, item in value._asdict().items()
            if name not in _OMITTED
        }
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value
