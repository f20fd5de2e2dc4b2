"""Findings: lines for people, JSON, commands of GitHub's runners, and SARIF for code scanning."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from fusioninfer_pulumi.cli.printing import print_json
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Origin,
    Severity,
    one_line,
)
from fusioninfer_pulumi.loading.yaml_text import nodes

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
#: Severities in SARIF and in workflow commands.
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in .*)?")


def report(
    findings: Iterable[tuple[Origin, Finding]], texts: Mapping[str, str], form: str = "text"
) -> None:
    """Writes findings: text to standard error, other forms to standard output.

    Args:
        findings: Findings, each after the origin of its document.
        texts: The texts that were read, by their files.
        form: `text`, `json`, `github` or `sarif`.
    """
    lines = Lines(texts)
    placed = [(lines.place(origin, finding.location), finding) for origin, finding in findings]
    if form == "text":
        sys.stderr.writelines(
            # The document's number is shown without a field or a known line.
            f"{format_finding_line(place if finding.location else origin, finding)}\n"
            for (origin, finding), (place, _) in zip(findings, placed, strict=True)
        )
        return
    located = [_located(origin, finding) for origin, finding in placed]
    if form == "github":
        sys.stdout.write(to_github(located))
    else:
        print_json(to_json(located) if form == "json" else to_sarif(located))


def format_finding_line(origin: Origin, finding: Finding) -> str:
    """`FILE:12: roles[0].port: message [rule-id]`, and its frames on lines below."""
    first, *frames = f"{one_line(str(origin))}: {finding}".split("\n")
    return "\n".join([f"{first}{rule_suffix(finding)}", *frames])


def finding_text(finding: Finding) -> str:
    """The message after the field that it is about."""
    return f"{one_line(finding.path)}: {finding.text}" if finding.path else finding.text


def rule_suffix(finding: Finding) -> str:
    """The suffix of a message for people: ` [rule-id]`."""
    return f" [{finding.rule}]" if finding.rule else ""


def finding_json(finding: Finding, **place: Any) -> dict[str, Any]:
    """A finding in the keys of the command line's contract, and those of its place."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        **place,
        "path": finding.path,
        "message": finding.text,
    }


class Located(NamedTuple):
    """A finding with its place for other programs."""

    file: str
    line: int | None
    finding: Finding


def _located(origin: Origin, finding: Finding) -> Located:
    """A finding with its place: the user's line for the failure of a program."""
    # Consumers know files by their paths in the repository.
    path, here = Path(origin.file), Path.cwd()
    file = str(path.relative_to(here)) if path.is_relative_to(here) else origin.file
    frame = _FRAME.fullmatch(finding.frames[-1]) if finding.frames else None
    if frame is not None:
        return Located(f"{file}/{frame['file']}", int(frame["line"]), finding)
    return Located(file, origin.line, finding)


def to_json(located: Sequence[Located]) -> list[dict[str, Any]]:
    """A list of findings, each with rule, severity, file, line, path and message."""
    return [finding_json(place.finding, file=place.file, line=place.line) for place in located]


def to_github(located: Sequence[Located]) -> str:
    """Workflow commands, which GitHub shows at the lines of a pull request."""
    return "".join(f"{_github(place)}\n" for place in located)


def _github(place: Located) -> str:
    places = {"file": place.file, "line": place.line, "title": place.finding.rule}
    properties = ",".join(
        f"{key}={_property(str(value))}" for key, value in places.items() if value is not None
    )
    return (
        f"::{_COMMANDS[place.finding.severity]} {properties}::{_data(finding_text(place.finding))}"
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_sarif(located: Sequence[Located]) -> dict[str, Any]:
    """A SARIF 2.1.0 log with the rules that were violated."""
    from importlib.metadata import version

    ids = sorted({place.finding.rule for place in located})
    driver = {
        "name": "fusioninfer-pulumi",
        "version": version("fusioninfer-pulumi"),
        "rules": [_rule(name) for name in ids],
    }
    results = [_result(place, ids.index(place.finding.rule)) for place in located]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, Any]:
    from fusioninfer_pulumi.rules.catalog import all_rules

    rule = all_rules().get(name)
    if rule is None:  # a plug-in's, which has no entry
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": _LEVELS[rule.severities[0]]},
        "properties": {"tags": [rule.area]},
    }


def _result(located: Located, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(located.file)}}
    if located.line is not None:
        place["region"] = {"startLine": located.line}
    location: dict[str, Any] = {"physicalLocation": place}
    if located.finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": located.finding.path}]
    return {
        "ruleId": located.finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[located.finding.severity],
        "message": {"text": finding_text(located.finding)},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = Path(file)
    # File names need not be UTF-8, so their bytes are quoted.
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))


class Lines:
    """Lines of fields in the sources' texts, which are parsed on first use."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, list[Any]] = {}

    def place(self, origin: Origin, location: Location) -> Origin:
        """The origin with the line of a field, None where it is not known."""
        if origin.file not in self._texts or origin.line is not None:
            return origin
        if origin.file not in self._parsed:
            self._parsed[origin.file] = nodes(self._texts[origin.file])
        documents = self._parsed[origin.file]
        line = None
        if 0 < origin.document <= len(documents):
            line = _line(documents[origin.document - 1], origin.item, location)
        return replace(origin, line=line)


def _line(node: Any, item: int | None, location: Location) -> int:
    if item is not None:
        entry = _below(node, "items")
        node = node if entry is None else (_below(entry[1], item) or (None, node))[1]
    if location and _below(node, location[0]) is None:
        location = ("spec", *location)
    return find_line(node, location)


def find_line(node: Any, location: Location) -> int:
    """The line of a field of a YAML node, or of the nearest one around it."""
    line = node.start_mark.line
    for part in location:
        entry = _below(node, part)
        if entry is None:
            break
        line, node = entry[0].start_mark.line, entry[1]
    return int(line) + 1


def _below(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """The key and the value of a node by a key or an index."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None
