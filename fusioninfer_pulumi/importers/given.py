"""A document of another system, and places in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.kube.outputs import is_output

Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Given:
    """One document as it was given.

    Attributes:
        label: Where it came from, as messages name it: `FILE`, `FILE#2`, `<stdin>`.
        raw: The parsed document.
    """

    label: str
    raw: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.raw["kind"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata, empty when it has none."""
        held = self.raw.get("metadata")
        return held if isinstance(held, Mapping) else {}

    @property
    def name(self) -> Any:
        """Its name, None when it has none that is one."""
        return _plain_name(self.metadata.get("name"))

    @property
    def namespace(self) -> Any:
        """Its namespace; may be an Output. What cannot be one counts as none."""
        return _plain_name(self.metadata.get("namespace")) or "default"

    def at(self, *path: str | int) -> At:
        """A place in it."""
        return At(self, path)

    def leaves(self) -> Iterator[At]:
        """Every value that holds no other: scalars, empty mappings and lists; not nulls."""
        yield from _leaves(self.at(), self.raw)


@dataclass(frozen=True)
class At:
    """A place in a document: `document.at("spec") / "roles" / 0`.

    Attributes:
        document: The document.
        path: Keys and list indexes from its root.
    """

    document: Given
    path: Path

    def __truediv__(self, part: str | int) -> At:
        return At(self.document, (*self.path, part))

    @property
    def value(self) -> Any:
        """What stands there, None when nothing does."""
        value: Any = self.document.raw
        for part in self.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value


def _plain_name(value: Any) -> Any:
    """A name by which documents find each other; lists and mappings are no keys."""
    return value if isinstance(value, str) or is_output(value) else None


def _leaves(at: At, value: Any) -> Iterator[At]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(at / key, item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(at / index, item)
    elif value is not None:
        yield at
