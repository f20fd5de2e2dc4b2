"""What the command line writes: lines of findings, colour, YAML and JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import yaml

from fusioninfer_pulumi.findings import Finding, one_line

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colour to somebody who wants it."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not unwanted and stream.isatty()


def styled(text: str, style: str, *, color: bool) -> str:
    """A text in a style such as `bold`; as it is without one, or without colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if color and style and text else text


def finding_line(label: str, finding: Finding, *, color: bool = False) -> str:
    """`FILE: roles[0].port: message [rule-id]`, and its frames on lines below."""
    first, *frames = f"{one_line(label)}: {finding}".split("\n")
    if finding.rule:
        first += f" {styled(f'[{finding.rule}]', 'dim', color=color)}"
    return "\n".join([first, *frames])


def print_findings(findings: Iterable[tuple[str, Finding]]) -> None:
    """Writes findings to standard error, each with the label of its document."""
    color = has_colour(sys.stderr)
    for label, finding in findings:
        sys.stderr.write(f"{finding_line(label, finding, color=color)}\n")


def print_json(value: Any) -> None:
    """Writes JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_objects(objects: list[dict[str, Any]], form: str) -> None:
    """Writes Kubernetes objects to standard output.

    Args:
        objects: The objects.
        form: `yaml` for one document per object, `json` for a List.
    """
    if form == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        sys.stdout.write(to_yaml(objects))


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Writes a multi-document YAML text that a person reads and `kubectl apply` takes."""
    return str(
        yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )


_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]  # the base class is chosen at run time
    """Writes shared structure out, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        """Objects share pod specs; a reader should not have to follow anchors."""
        del data
        return True


# Text that some YAML reader takes for a number or a boolean (YAML 1.2, Go's YAML): PyYAML's own
# rules do not quote it, and `kubectl apply` would read another value.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?0o?[0-7_]+$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def _text(dumper: Any, value: str) -> Any:
    style = (
        "|"
        if "\n" in value and not any(line != line.rstrip() for line in value.split("\n"))
        else None
    )
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
