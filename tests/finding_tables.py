"""Tables in `findings`: changes of a base manifest, and the resulting findings.

A test in a table has a `base` of `_bases.yaml`, fields that all its cases set (`with`), and
`cases`. A case has more fields by their paths in findings (`change`; null removes a field), and
the expected `errors`, `warnings`, `infos` or, for all severities, `findings`. Rules that every
short pod violates (`samples.SHORT`) are ignored unless the test sets `every_rule`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from samples import SHORT, Manifest, plan_manifest, set_fields
from yaml_files import Dumper, read

from fusioninfer_pulumi.findings import Severity, format_with_rule

FOLDER = Path(__file__).parent / "findings"
SEVERITIES = {
    "errors": {Severity.ERROR},
    "warnings": {Severity.WARNING},
    "infos": {Severity.INFO},
    "findings": set(Severity),
}
#: Paths that YAML would quote for their brackets, which matter only in flow style.
_PLAIN_PATH = re.compile(r"[a-z]+\[[A-Za-z0-9_.\[\]/-]*")
_BASES: Mapping[str, Manifest] = read(FOLDER / "_bases.yaml")


@dataclass(frozen=True)
class Case:
    """A manifest of a table, and its findings by severity, as text with their rules."""

    name: str
    manifest: Manifest
    expected: Mapping[str, list[str]]
    every_rule: bool

    def findings(self) -> dict[str, list[str]]:
        """Return the findings of the severities that the table lists."""
        _, findings = plan_manifest(self.manifest)
        return {
            key: [
                format_with_rule(finding)
                for finding in findings
                if finding.severity in SEVERITIES[key]
                and (self.every_rule or finding.rule not in SHORT)
            ]
            for key in self.expected
        }


def tables() -> list[Path]:
    """Return the files of all tables."""
    return sorted(FOLDER.glob("[a-z]*/*.yaml"))


def topic(table: Path) -> str:
    """Return the id of a table's test."""
    return table.relative_to(FOLDER).with_suffix("").as_posix()


def cases(test: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the cases of a test in order."""
    for number, row in enumerate(test["cases"]):
        manifest = copy.deepcopy(_BASES[test["base"]])
        for fields in (test.get("with", {}), row.get("change", {})):
            set_fields(manifest, copy.deepcopy(fields))
        yield Case(
            str(row.get("name", number)),
            manifest,
            {key: row[key] for key in SEVERITIES if key in row},
            test.get("every_rule", False),
        )


def rewrite(table: Path) -> None:
    """Update a table with the current findings."""
    rewritten = read(table)
    for test in rewritten:
        for row, case in zip(test["cases"], cases(test), strict=True):
            row.update(case.findings())
    table.write_text(dump(rewritten), encoding="utf-8")


def dump(table: Any) -> str:
    """Return a table as text, with one line for each field and finding."""
    return "".join(_entry(test, "") for test in table)


def _entry(fields: Mapping[str, Any], indent: str) -> str:
    lines = []
    for key, value in fields.items():
        if key == "cases":
            text = f"{key}:\n" + "".join(_entry(row, f"{indent}  ") for row in value)
        elif key in SEVERITIES and value:
            text = f"{key}:\n" + "".join(f"{indent}  - {_line(line)}" for line in value)
        elif key in ("with", "change"):
            text = f"{key}:\n" + "".join(
                f"{indent}    {_line(path).rstrip()}: {_line(field)}"
                for path, field in value.items()
            )
        else:
            text = f"{key}: {_line(value)}"
        lines.append(f"{indent}  {text}")
    return f"{indent}- " + "".join(lines).removeprefix(f"{indent}  ")


def _line(value: Any) -> str:
    if isinstance(value, str) and _PLAIN_PATH.fullmatch(value):
        return f"{value}\n"
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=10_000
    )
    return text.removesuffix("...\n")


class _Dumper(Dumper):
    """Write multiline strings in one line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
