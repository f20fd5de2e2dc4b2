"""A difference for people at a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fusioninfer_pulumi.cli.diff.groups import NO_OBJECT, Group, counts, grouped
from fusioninfer_pulumi.cli.diff.records import Action, Difference, FieldChange
from fusioninfer_pulumi.cli.diff.table import effect_rows, restarting, totals_line
from fusioninfer_pulumi.cli.diff.values import is_block, lines, printable, shown, shown_pair

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FIRM = ("service", "role", "replicas")
_FIRM_WIDTH = 30
_MOST_FIELDS = 100
_UNLIMITED = 10_000
# Long values are cut even where lines may be long.
_LONGEST_VALUE = 400
_LEAST_VALUE = 24

_SIGNS: dict[Action, tuple[str, str]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "replaced": ("!", "magenta"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def to_text(difference: Difference, *, color: bool, width: int | None) -> str:
    """Writes a difference as text.

    Args:
        difference: What `compare` found.
        color: Whether to write terminal colours.
        width: Most characters of a line, None for no limit.

    Returns:
        The text, ending with a newline.
    """
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=width or _UNLIMITED,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        # The caller decides: what the environment says of colours was asked already.
        _environ={},
    )
    with console.capture() as captured:
        for part in _parts(difference, console):
            console.print(part)
    # Cells of tables are padded to the right.
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _parts(difference: Difference, console: Console) -> Iterator[RenderableType]:
    from rich.text import Text

    told = restarting(difference)
    what = counts(difference.objects) if difference.objects or not difference else NO_OBJECT
    yield Text(f"{what}; {told}" if told else what)
    for totals in difference.totals:
        yield from _hanging("  ", totals_line(totals), "", console)
    if difference.notes:
        yield Text("")
        for note in difference.notes:
            yield from _hanging("  * ", printable(note), "bold", console)
    if difference.effects:
        yield Text("")
        yield _table(difference)
    apart = True
    for group in grouped(difference.objects):
        if apart or group.fields:
            yield Text("")
        yield from _group(group, console)
        apart = bool(group.fields)


def _table(difference: Difference) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table

    head, rows = effect_rows(difference)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(head):
        # What wraps is the long lists of replicas, not the names that begin a row.
        least = max((len(row[place]) for row in rows), default=0) if name in _FIRM else 0
        table.add_column(name.upper(), overflow="fold", min_width=min(least, _FIRM_WIDTH))
    above = ""
    for row in rows:
        # The name of a service stands where its rows begin.
        first = row[0] if head[0] != "service" or row[0] != above else ""
        above = row[0]
        table.add_row(*(printable(cell) for cell in (first, *row[1:])))
    return Padding(table, (0, 0, 0, 2))


def _group(group: Group, console: Console) -> Iterator[RenderableType]:
    action = group.objects[0].action
    sign, style = _SIGNS[action]
    title = printable(group.title)
    if action == "replaced":
        title += ", deleted and created anew"
    yield from _hanging(f"{sign} ", title, style, console)
    for change in group.fields[:_MOST_FIELDS]:
        yield from _field(change, console)
    if len(group.fields) > _MOST_FIELDS:
        left = len(group.fields) - _MOST_FIELDS
        yield from _hanging("    ", f"… {left} more fields; the JSON form has all", "", console)


def _field(change: FieldChange, console: Console) -> Iterator[RenderableType]:
    path = printable(change.path)
    limit = min(max(console.width - 10, _LEAST_VALUE), _LONGEST_VALUE)
    if change.kind == "changed" and not is_block(change):
        old, new = shown_pair(change, limit)
        one_line = f"{path}: {old} -> {new}"
    else:
        sign, value = ("+", change.new) if change.kind == "added" else ("-", change.old)
        one_line = f"{path}: {sign} {shown(value, limit)}"
    if len(one_line) + 4 <= console.width and not is_block(change):
        yield from _hanging("    ", one_line, "", console)
        return
    yield from _hanging("    ", f"{path}:", "", console)
    for line in lines(change, limit):
        yield from _hanging("      ", line, _LINE_STYLES.get(line[:1], ""), console)


def _hanging(indent: str, words: str, style: str, console: Console) -> Iterator[RenderableType]:
    """Wraps a line so that what follows is indented like its beginning."""
    from rich.text import Text

    room = max(console.width - len(indent), _LEAST_VALUE)
    wrapped = Text(words, style=style).wrap(console, room, overflow="fold") or [Text("")]
    for number, line in enumerate(wrapped):
        start = indent if number == 0 else " " * len(indent)
        line.rstrip()
        yield Text.assemble(start, line, no_wrap=True, overflow="ignore", end="\n")
