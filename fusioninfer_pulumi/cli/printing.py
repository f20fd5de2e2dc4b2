"""Output of the command line: YAML and JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import yaml


def print_json(value: Any) -> None:
    """Writes JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_objects(objects: list[dict[str, Any]], form: str) -> None:
    """Writes Kubernetes objects: as `yaml` one document each, as `json` a List."""
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


# Text that YAML 1.2 or Go's YAML reads as a number or boolean. PyYAML does not quote it, so that
# `kubectl apply` would read another value.
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
