"""Findings for other programs: JSON, commands of GitHub's runners, and SARIF for code scanning."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusioninfer_pulumi.cli.lines import Lines
from fusioninfer_pulumi.cli.output import print_json
from fusioninfer_pulumi.findings import Finding, Severity, declared_rules
from fusioninfer_pulumi.rules.catalog import all_rules, area_of

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
#: How SARIF and GitHub's runners call severities.
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in .*)?")


@dataclass(frozen=True)
class Located:
    """A finding with its place.

    Attributes:
        file: The file, or the folder of a project.
        line: The line in it, None where it is not known.
        finding: The finding.
    """

    file: str
    line: int | None
    finding: Finding


def report(found: Sequence[tuple[str, Finding]], texts: Mapping[str, str], form: str) -> None:
    """Writes findings to standard output.

    Args:
        found: Findings with the labels of their documents.
        texts: The texts that were read, by their labels.
        form: `json`, `github` or `sarif`.
    """
    lines = Lines(texts)
    placed = [located(label, finding, lines) for label, finding in found]
    if form == "github":
        sys.stdout.write(to_github(placed))
    else:
        print_json(to_json(placed) if form == "json" else to_sarif(placed))


def located(label: str, finding: Finding, lines: Lines) -> Located:
    """A finding with its place: of a program that failed, the user's line that led there."""
    file, line = lines.place(label, finding.location)
    file = _relative(file)
    frame = _FRAME.fullmatch(finding.frames[-1]) if finding.frames else None
    if frame is not None:
        return Located(f"{file}/{frame['file']}", int(frame["line"]), finding)
    return Located(file, line, finding)


def _relative(file: str) -> str:
    """A path as those who show files of a repository know it, where the command runs in one."""
    path = Path(file)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def to_json(found: Sequence[Located]) -> list[dict[str, Any]]:
    """A list of findings, each with rule, severity, file, line, path and message."""
    return [
        {
            "rule": each.finding.rule,
            "severity": each.finding.severity.value,
            "file": each.file,
            "line": each.line,
            "path": each.finding.path,
            "message": each.finding.text,
        }
        for each in found
    ]


def to_github(found: Sequence[Located]) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    return "".join(f"{_github(each)}\n" for each in found)


def _github(each: Located) -> str:
    places = {"file": each.file, "line": each.line, "title": each.finding.rule}
    properties = ",".join(
        f"{key}={_property(str(value))}" for key, value in places.items() if value is not None
    )
    return f"::{_COMMANDS[each.finding.severity]} {properties}::{_data(_text(each.finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _text(finding: Finding) -> str:
    return f"{finding.path}: {finding.text}" if finding.path else finding.text


def to_sarif(found: Sequence[Located]) -> dict[str, Any]:
    """A SARIF 2.1.0 log with the rules that were violated."""
    ids = sorted({each.finding.rule for each in found})
    driver = {
        "name": "fusioninfer-pulumi",
        "version": version("fusioninfer-pulumi"),
        "rules": [_rule(each) for each in ids],
    }
    results = [_result(each, ids.index(each.finding.rule)) for each in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, Any]:
    # Rules of findings that another process made are declared in modules that it alone imported.
    rule = declared_rules().get(name) or all_rules()[name]
    return {
        "id": name,
        "shortDescription": {"text": rule.sentence},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": _LEVELS[rule.severities[0]]},
        "properties": {"tags": [area_of(rule)]},
    }


def _result(each: Located, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(each.file)}}
    if each.line is not None:
        place["region"] = {"startLine": each.line}
    location: dict[str, Any] = {"physicalLocation": place}
    if each.finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": each.finding.path}]
    return {
        "ruleId": each.finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[each.finding.severity],
        "message": {"text": _text(each.finding)},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
