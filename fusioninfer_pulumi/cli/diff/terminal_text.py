"""A difference for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from fusioninfer_pulumi.cli.diff._formatting import (
    Group,
    build_replica_table,
    format_lines,
    group_changes,
    one_line,
    printable,
    summarize,
    total_rows,
)
from fusioninfer_pulumi.cli.diff._records import Action, Difference, FieldChange
from fusioninfer_pulumi.cli.terminal import table

_MOST_FIELDS = 100
#: Most characters of a value.
_LIMIT = 400

_SIGNS: dict[Action, tuple[str, str]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "replaced": ("!", "magenta"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(difference: Difference, console: Console) -> None:
    """Prints the result of `compare`."""
    for part in _parts(difference, console):
        # The terminal wraps long lines, so that they can be copied whole.
        console.print(part, soft_wrap=True)


def _parts(difference: Difference, console: Console) -> Iterator[RenderableType]:
    yield summarize(difference)
    for name, pods, devices in total_rows(difference):
        yield f"  {name}: pods {pods}, accelerators {devices}"
    if difference.notes:
        yield ""
        for note in difference.notes:
            yield Text.assemble("  * ", (printable(note), "bold"))
    if difference.effects:
        yield ""
        yield from _effects(difference, console)
    gap = True
    for group in group_changes(difference.objects):
        if gap or group.fields:
            yield ""
        yield Text("\n").join(_group(group, console.width))
        gap = bool(group.fields)


def _effects(difference: Difference, console: Console) -> Iterator[RenderableType]:
    """The table of replicas; where it is too wide, its rows as paragraphs."""
    head, rows = build_replica_table(difference)
    cells = [[printable(cell) for cell in row] for row in rows]
    replicas = table(map(str.upper, head), header="dim")
    above = ""
    for service, *others in cells:
        # The name of a service is in the first of its rows only.
        replicas.add_row("" if head[0] == "service" and service == above else service, *others)
        above = service
    if console.measure(replicas).maximum + 2 <= console.width:
        yield Padding.indent(replicas, 2)
        return
    for row in cells:
        yield f"  {row[0]}"
        for name, cell in zip(head[1:], row[1:], strict=True):
            yield f"    {name:<8}  {cell}"


def _group(group: Group, width: int) -> Iterator[Text]:
    action = group.objects[0].action
    sign, style = _SIGNS[action]
    title = printable(group.title)
    if action == "replaced":
        title += ", replaced: deleted and recreated"
    yield Text.assemble(f"{sign} ", (title, style))
    for change in group.fields[:_MOST_FIELDS]:
        yield from _field(change, width)
    more = len(group.fields) - _MOST_FIELDS
    if more > 0:
        yield Text(f"    … {more} more fields; use --output json to list all")


def _field(change: FieldChange, width: int) -> Iterator[Text]:
    """A field in one line where it fits, else with its values below."""
    path, values = f"    {printable(change.path)}:", one_line(change, _LIMIT)
    if values is not None and len(path) + 1 + len(values) <= width:
        yield Text(f"{path} {values}")
        return
    yield Text(path)
    for value_line in format_lines(change, _LIMIT):
        style = _LINE_STYLES.get(value_line[:1], "")
        yield Text.assemble(" " * 6, (value_line, style))
