"""Read large YAML files with PyYAML's C parser, if available, which is ten times as fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Dumper(yaml.SafeDumper):
    """Write equal values again instead of using an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def load_documents(path: Path) -> list[Any]:
    """Return all documents of a file."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_LOADER))


def read(path: Path) -> Any:
    """Return the only document of a file."""
    (document,) = load_documents(path)
    return document
