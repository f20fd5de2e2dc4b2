"""Rules for people: a table, and one rule in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusioninfer_pulumi.cli.printing import to_yaml
from fusioninfer_pulumi.cli.terminal import console
from fusioninfer_pulumi.rules.catalog import RuleEntry, documents

_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}


def rule_json(rule: RuleEntry) -> dict[str, Any]:
    """A rule for programs; its keys are a contract."""
    return {
        "id": rule.id,
        "severities": [severity.value for severity in rule.severities],
        "area": rule.area,
        "checks": rule.title,
        "remedy": rule.remedy,
        "source": rule.source or None,
    }


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
