"""A document of another system, and the fields in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.findings import Location, Origin
from fusioninfer_pulumi.kube.outputs import is_output


@dataclass(frozen=True, eq=False)
class SourceDocument:
    """One document of the input.

    Attributes:
        origin: Where it stands.
        raw: The parsed document.
    """

    origin: Origin
    raw: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.raw["kind"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata, empty when it has none."""
        metadata = self.raw.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def name(self) -> Any:
        """Its name, None when it is missing or no string."""
        return _reference(self.metadata.get("name"))

    @property
    def namespace(self) -> Any:
        """Its namespace, `default` when it is missing or no string; may be an Output."""
        return _reference(self.metadata.get("namespace")) or "default"

    def at(self, *path: str | int) -> SourceField:
        """The field at a path from the document's root."""
        return SourceField(self, path)

    def leaves(self) -> Iterator[SourceField]:
        """Every field without fields of its own: scalars, empty mappings and lists; not nulls."""
        yield from _leaves(self.at(), self.raw)


@dataclass(frozen=True)
class SourceField:
    """A field of a document: `document.at("spec") / "roles" / 0`.

    Attributes:
        document: The document.
        path: Keys and list indexes from its root.
    """

    document: SourceDocument
    path: Location

    def __truediv__(self, part: str | int) -> SourceField:
        return SourceField(self.document, (*self.path, part))

    @property
    def location(self) -> Location:
        """Its location in findings: relative to `spec`."""
        path = self.path[1:] or self.path if self.path[:1] == ("spec",) else self.path
        # Keys of YAML mappings may be null, dates or fractions.
        return tuple(part if isinstance(part, (str, int)) else str(part) for part in path)

    @property
    def value(self) -> Any:
        """Its value, None when it is not set."""
        value: Any = self.document.raw
        for part in self.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value


def _reference(value: Any) -> Any:
    """A name by which documents refer to each other; lists and mappings cannot be looked up."""
    return value if isinstance(value, str) or is_output(value) else None


def _leaves(at: SourceField, value: Any) -> Iterator[SourceField]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(at / key, item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(at / index, item)
    elif value is not None:
        yield at
