"""Consoles of rich: a terminal's colours and width, or plain lines; and the texts of rules."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusioninfer_pulumi.cli.printing import to_yaml
from fusioninfer_pulumi.rules.catalog import RuleEntry, documents

# The width of a pipe, whose lines are not wrapped.
_PIPE_WIDTH = 1_000_000
#: Messages quote users, whose words may look like markup of rich: `[x]`, `:warning:`.
VERBATIM: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


@contextlib.contextmanager
def console(file: TextIO) -> Iterator[Console]:
    """A console that prints to a file; in colour and as wide as it is, where it is a terminal."""
    terminal = Console(file=file, **VERBATIM)
    if terminal.is_terminal:
        yield terminal
        return
    plain = Console(file=(text := io.StringIO()), width=_PIPE_WIDTH, color_system=None, **VERBATIM)
    yield plain
    # Tables pad every line to their width, which pipes do not need.
    file.write("\n".join(line.rstrip() for line in text.getvalue().split("\n")))


def table(titles: Iterable[str], *, numbers: Collection[str] = (), header: str = "bold") -> Table:
    """A table without lines; columns in `numbers` are aligned to the right."""
    empty = Table(box=None, padding=(0, 2, 0, 0), header_style=header, pad_edge=False)
    for title in titles:
        empty.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    return empty


_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}


def print_rule_table(rules: Iterable[RuleEntry], file: TextIO) -> None:
    """Prints one line for each rule: id, severity, what it checks."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for rule in rules:
        usual = rule.severities[0].value
        rows.add_row(rule.id, Text(usual, _STYLES[usual]), rule.title)
    if rows.row_count:
        with console(file) as screen:
            screen.print(rows)


def print_rule(rule: RuleEntry, file: TextIO) -> None:
    """Prints everything about one rule, with an example that can be checked as it is."""
    severities = " or ".join(severity.value for severity in rule.severities)
    texts = {"Checks:": rule.title, "To do:": rule.remedy, "Source:": rule.source}
    rows = Table.grid(padding=(0, 3, 0, 0))
    for title, text in texts.items():
        if text:
            rows.add_row(title, text)
    with console(file) as screen:
        screen.print(Text.assemble((rule.id, "bold"), f" ({severities}, {rule.area})"))
        screen.print(Padding.indent(rows, 2))
    if not isinstance(rule.example, str):
        violating = rule.example.get("text") or to_yaml(documents(rule.example))
        file.write(f"\n# An input with this finding:\n{violating}")
