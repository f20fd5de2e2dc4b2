"""Findings: lines for people, JSON, and commands of GitHub's runners."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any

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

#: Severities in workflow commands.
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in .*)?")


def report(
    findings: Iterable[tuple[Origin, Finding]], texts: Mapping[str, str], form: str = "text"
) -> None:
    """Writes findings: text to standard error, other forms to standard output.

    `texts` are those that were read, by their files; `form` is `text`, `json` or `github`.
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
    located = [(*_user_place(origin, finding), finding) for origin, finding in placed]
    if form == "github":
        sys.stdout.writelines(starmap(_workflow_command, located))
    else:
        print_json([finding_json(item, file=file, line=line) for file, line, item in located])


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


def _user_place(origin: Origin, finding: Finding) -> tuple[str, int | None]:
    """Return the file as the repository names it, and the user's line for a failed program."""
    path, here = Path(origin.file), Path.cwd()
    file = str(path.relative_to(here)) if path.is_relative_to(here) else origin.file
    frame = _FRAME.fullmatch(finding.frames[-1]) if finding.frames else None
    if frame is not None:
        return f"{file}/{frame['file']}", int(frame["line"])
    return file, origin.line


def _workflow_command(file: str, line: int | None, finding: Finding) -> str:
    """Return a command that GitHub shows at the line of a pull request."""
    places = {"file": file, "line": line, "title": finding.rule}
    properties = ",".join(
        f"{key}={_escape(str(value), ':,')}" for key, value in places.items() if value is not None
    )
    return f"::{_COMMANDS[finding.severity]} {properties}::{_escape(finding_text(finding))}\n"


def _escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in text)


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
