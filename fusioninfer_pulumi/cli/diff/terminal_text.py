"""`diff --output text`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from fusioninfer_pulumi.cli.diff._formatting import (
    ChangeGroup,
    build_replica_table,
    build_total_rows,
    escape_unprintable,
    format_lines,
    format_one_line,
    group_changes,
    summarize,
)
from fusioninfer_pulumi.cli.diff._records import Action, Difference, FieldChange
from fusioninfer_pulumi.cli.terminal import make_table

_MAX_FIELDS = 100
#: Maximum number of characters of a value.
_MAX_VALUE = 400

_SIGNS: dict[Action, tuple[str, str]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "replaced": ("!", "magenta"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(difference: Difference, console: Console) -> None:
    """Print the result of `compare`."""
    for part in _list_parts(difference, console):
        # The terminal wraps long lines, so users can copy whole lines.
        console.print(part, soft_wrap=True)


def _list_parts(difference: Difference, console: Console) -> Iterator[RenderableType]:
    yield summarize(difference)
    for name, pods, accelerators in build_total_rows(difference):
        yield f"  {name}: pods {pods}, GPUs {accelerators}"
    if difference.notes:
        yield ""
        for note in difference.notes:
            yield Text.assemble("  * ", (escape_unprintable(note), "bold"))
    if difference.effects:
        yield ""
        yield from _format_effects(difference, console)
    follows_fields = True
    for group in group_changes(difference.objects):
        # Added and removed objects, which have no fields, follow each other without empty lines.
        if follows_fields or group.fields:
            yield ""
        yield Text("\n").join(_format_group(group, console.width))
        follows_fields = bool(group.fields)


def _format_effects(difference: Difference, console: Console) -> Iterator[RenderableType]:
    """Yield the table of replicas, or paragraphs if the table is too wide."""
    titles, rows = build_replica_table(difference)
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
    table = make_table(map(str.upper, titles), header="dim")
    for row in rows:
        table.add_row(*row)
    if console.measure(table).maximum + 2 <= console.width:
        yield Padding.indent(table, 2)
        return
    for row in rows:
        yield f"  {row[0]}"
        for name, cell in zip(titles[1:], row[1:], strict=True):
            yield f"    {name:<8}  {cell}"


def _format_group(group: ChangeGroup, width: int) -> Iterator[Text]:
    action = group.objects[0].action
    sign, style = _SIGNS[action]
    title = escape_unprintable(group.title)
    if action == "replaced":
        title += ", replaced: deleted and recreated"
    yield Text.assemble(f"{sign} ", (title, style))
    for change in group.fields[:_MAX_FIELDS]:
        yield from _format_field(change, width)
    more = len(group.fields) - _MAX_FIELDS
    if more > 0:
        yield Text(f"    … {more} more fields; use --output json to list all")


def _format_field(change: FieldChange, width: int) -> Iterator[Text]:
    """Yield a field in one line if it fits, otherwise with its values on lines below."""
    path = f"    {escape_unprintable(change.path + change.suffix)}:"
    values = format_one_line(change, _MAX_VALUE)
    if values is not None and len(path) + 1 + len(values) <= width:
        yield Text(f"{path} {values}")
        return
    yield Text(path)
    for value_line in format_lines(change, _MAX_VALUE):
        yield Text.assemble(" " * 6, (value_line, _LINE_STYLES.get(value_line[:1], "")))
