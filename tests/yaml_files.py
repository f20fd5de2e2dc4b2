"""Reads large YAML files of tests by the parser in C where PyYAML has it: a tenth of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Dumper(yaml.SafeDumper):
    """Writes equal values again instead of an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def load_documents(path: Path) -> list[Any]:
    """All documents of a file."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_LOADER))


def read(path: Path) -> Any:
    """The only document of a file."""
    (document,) = load_documents(path)
    return document
