"""Consoles and tables made with the package rich, and the output of `rules`."""

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
from fusioninfer_pulumi.rules.catalog import RuleEntry, list_documents

# Lines to a pipe are not wrapped.
_PIPE_WIDTH = 1_000_000
#: Messages quote user input, which may look like rich's markup: `[x]`, `:warning:`.
VERBATIM: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


@contextlib.contextmanager
def open_console(file: TextIO) -> Iterator[Console]:
    """Open a console on a file; at a terminal it has colors and the terminal's width."""
    terminal = Console(file=file, **VERBATIM)
    if terminal.is_terminal:
        yield terminal
        return
    text = io.StringIO()
    yield Console(file=text, width=_PIPE_WIDTH, color_system=None, **VERBATIM)
    # Tables pad every line with spaces, which pipes do not need.
    file.write("\n".join(line.rstrip() for line in text.getvalue().split("\n")))


def make_table(
    titles: Iterable[str], *, numbers: Collection[str] = (), header: str = "bold"
) -> Table:
    """Return an empty table without borders; columns in `numbers` are right-aligned."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=header, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    return table


SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}


def print_rule_table(rules: Iterable[RuleEntry], file: TextIO) -> None:
    """Print one line for each rule: id, severities, title."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for rule in rules:
        severities = " or ".join(severity.value for severity in rule.severities)
        rows.add_row(
            rule.id, Text(severities, SEVERITY_STYLES[rule.severities[0].value]), rule.title
        )
    with open_console(file) as screen:
        screen.print(rows)


def print_rule(rule: RuleEntry, file: TextIO) -> None:
    """Print all details of a rule, and an example that violates it if the catalog has one."""
    severities = " or ".join(severity.value for severity in rule.severities)
    texts = {"Problem:": rule.title, "Fix:": rule.remedy, "Source:": rule.source}
    rows = Table.grid(padding=(0, 3, 0, 0))
    for title, text in texts.items():
        if text:
            rows.add_row(title, text)
    with open_console(file) as screen:
        screen.print(Text.assemble((rule.id, "bold"), f" ({severities}, {rule.area})"))
        screen.print(Padding.indent(rows, 2))
    if not isinstance(rule.example, str):  # a string is the reason why there is no example
        example = rule.example.get("text") or to_yaml(list_documents(rule.example))
        file.write(f"\n# Example input with this finding:\n{example}")
