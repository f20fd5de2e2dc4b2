"""Writes Kubernetes objects as YAML that a person reads and `kubectl apply` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

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


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Writes a multi-document YAML text, one document per object."""
    return str(
        yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )
