"""Output of the command line: YAML, JSON and counts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 object`, `2 objects`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """Write JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_objects(objects: list[dict[str, Any]], output: str) -> None:
    """Write Kubernetes objects: with `yaml` one document each, with `json` a List."""
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        sys.stdout.write(to_yaml(objects))


def write_files(directory: Path, files: Mapping[str, str]) -> int:
    """Write text files to a directory, print their paths, and return the exit status."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as exc:
        reason = exc.strerror or exc
        sys.stderr.write(f"fusioninfer-pulumi: {directory}: cannot be written: {reason}\n")
        return 2
    sys.stdout.write("".join(f"{directory / name}\n" for name in files))
    return 0


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return readable YAML with one document for each object, for `kubectl apply`."""
    return str(
        yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )


_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]  # the base class is chosen at run time
    """Writes no anchors, and text of several lines as a block."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Repeat values that several objects share, because anchors are hard to read."""
        return True


# YAML 1.2 and Go's YAML, which `kubectl apply` uses, read texts such as `1e3`, `0o17` and `y` as
# numbers or booleans. With these resolvers PyYAML quotes them.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?0o?[0-7_]+$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def _represent_text(dumper: Any, value: str) -> Any:
    # In a block, trailing spaces would be invisible.
    has_trailing_spaces = any(line != line.rstrip() for line in value.split("\n"))
    style = "|" if "\n" in value and not has_trailing_spaces else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)
