"""Output formats of findings: text, JSON, and GitHub workflow commands."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.cli.printing import print_json
from fusioninfer_pulumi.findings import Finding, Location, Origin, Severity, one_line
from fusioninfer_pulumi.loading.yaml_text import parse_yaml_nodes

#: Workflow commands by severity.
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
#: A stack frame, such as `app.py:12 in build`.
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in .*)?")


def report(
    findings: Sequence[tuple[Origin, Finding]], texts: Mapping[str, str], output: str = "text"
) -> None:
    """Write findings: text to standard error, other formats to standard output.

    `texts` are the texts of the sources by file; `output` is `text`, `json` or `github`.
    """
    parse = functools.cache(parse_yaml_nodes)  # once for each text, and only if it is needed
    if output == "text":
        for origin, finding in findings:
            # A finding about a field shows its line, other findings show the document's number.
            place = add_line(origin, finding.location, texts, parse) if finding.location else origin
            sys.stderr.write(f"{format_finding_line(place, finding)}\n")
        return
    located = [
        (*_find_file_and_line(add_line(origin, item.location, texts, parse), item), item)
        for origin, item in findings
    ]
    if output == "github":
        sys.stdout.writelines(starmap(_format_workflow_command, located))
    else:
        print_json([finding_to_json(item, file=file, line=line) for file, line, item in located])


def format_finding_line(origin: Origin, finding: Finding) -> str:
    """Return `FILE:12: roles[0].port: message [rule-id]`, followed by lines with stack frames."""
    first, *frames = f"{one_line(str(origin))}: {finding}".split("\n")
    return "\n".join([f"{first}{format_rule_suffix(finding)}", *frames])


def format_finding(finding: Finding) -> str:
    """Return `roles[0].port: message`, or only the message if the finding is not about a field."""
    return f"{one_line(finding.path)}: {finding.text}" if finding.path else finding.text


def format_rule_suffix(finding: Finding) -> str:
    """Return ` [rule-id]`, or empty if the finding has no rule."""
    return f" [{finding.rule}]" if finding.rule else ""


def finding_to_json(finding: Finding, **position: Any) -> dict[str, Any]:
    """Return a finding as JSON; users' programs rely on the keys. `position`: file and line."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        **position,
        "path": finding.path,
        "message": finding.text,
    }


def _find_file_and_line(origin: Origin, finding: Finding) -> tuple[str, int | None]:
    """Return file and line of a finding.

    If a program failed, they are from the last stack frame in the files of the user's project.
    """
    path, directory = Path(origin.file), Path.cwd()
    file = str(path.relative_to(directory)) if path.is_relative_to(directory) else origin.file
    frame = _FRAME.fullmatch(finding.frames[-1]) if finding.frames else None
    if frame is not None:
        # The origin's file is the project's directory.
        return f"{file}/{frame['file']}", int(frame["line"])
    return file, origin.line


def _format_workflow_command(file: str, line: int | None, finding: Finding) -> str:
    """Return a command that makes GitHub show the finding at this line of a pull request."""
    values = {"file": file, "line": line, "title": finding.rule}
    properties = ",".join(
        f"{key}={_escape(str(value), ':,')}" for key, value in values.items() if value is not None
    )
    return f"::{_COMMANDS[finding.severity]} {properties}::{_escape(format_finding(finding))}\n"


def _escape(text: str, extra: str = "") -> str:
    """Percent-encode `%`, line breaks and `extra` characters: a line feed becomes `%0A`."""
    special = f"%\r\n{extra}"
    return "".join(f"%{ord(letter):02X}" if letter in special else letter for letter in text)


def add_line(
    origin: Origin,
    location: Location,
    texts: Mapping[str, str],
    parse: Callable[[str], Sequence[Any]] = parse_yaml_nodes,
) -> Origin:
    """Return the origin with the line of a field if it has no line and its file is in `texts`."""
    if origin.line is not None:
        return origin
    documents = parse(texts.get(origin.file, ""))
    if not 0 < origin.document <= len(documents):
        return origin
    line = _find_document_line(documents[origin.document - 1], origin.item, location)
    return origin._replace(line=line)


def _find_document_line(node: Any, item: int | None, location: Location) -> int:
    """Return the line of a field; `item` is the index of its manifest in a List."""
    for part in () if item is None else ("items", item):
        if entry := _find_entry(node, part):
            _, node = entry
    if location and _find_entry(node, location[0]) is None:
        location = ("spec", *location)  # findings about services omit `spec`
    return find_line(node, location)


def find_line(node: Any, location: Location) -> int:
    """Return the line of a field, or of its nearest parent that exists."""
    line = node.start_mark.line
    for part in location:
        entry = _find_entry(node, part)
        if entry is None:
            break
        key_node, node = entry
        line = key_node.start_mark.line
    return int(line) + 1


def _find_entry(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """Return the nodes of a mapping's key and value; for a list, the item's node twice."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None
