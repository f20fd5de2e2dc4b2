"""A document of another system, and where the fields of a converted service come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.findings import Finding, Location, Origin
from fusioninfer_pulumi.kube.pulumi_outputs import is_output


@dataclass(frozen=True, eq=False)
class SourceDocument:
    """One document of the input.

    Attributes:
        origin: Its file, and the position in it.
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
        """Its name, None if it is missing or not a string."""
        return _reference(self.metadata.get("name"))

    @property
    def namespace(self) -> Any:
        """Its namespace, `default` if it is missing or not a string; may be an Output."""
        return _reference(self.metadata.get("namespace")) or "default"

    def at(self, *path: str | int) -> SourceField:
        """The field at a path from the document's root."""
        return SourceField(self, path)

    def leaves(self) -> Iterator[SourceField]:
        """Yield every leaf: scalars, empty mappings and lists; not nulls."""
        yield from _leaves(self.at(), self.raw)


class SourceField(NamedTuple):
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


class FieldOrigin(NamedTuple):
    """Where a field of the service comes from.

    Attributes:
        field: The user's field.
        copied: Whether the field and everything below it is the same in the document.
    """

    field: SourceField
    copied: bool


class Origins(NamedTuple):
    """Where the fields of one service come from.

    Attributes:
        main: The document that became the service.
        fields: Origin by location, as findings have it.
        sources: Further documents that the service depends on.
    """

    main: Origin
    fields: Mapping[Location, FieldOrigin]
    sources: frozenset[Origin] = frozenset()

    @property
    def documents(self) -> frozenset[Origin]:
        """All documents from which the service was converted."""
        fields = (origin.field.document.origin for origin in self.fields.values())
        return frozenset({self.main, *self.sources, *fields})

    def locate(self, finding: Finding) -> tuple[Origin, Finding]:
        """Move a finding about the service to the user's document.

        Returns:
            The document, and the finding at the user's field. Where a field of the service
            has no counterpart in the document, the finding is at the field that it follows from,
            and `converted` names the service's field.
        """
        ours = finding.location
        for end in range(len(ours), 0, -1):
            origin = self.fields.get(ours[:end])
            if origin is None:
                continue
            rest, field = ours[end:], origin.field
            if origin.copied:
                field = SourceField(field.document, (*field.path, *rest))
                rest = ()
            converted = ours if rest else ()
            moved = replace(finding, location=field.location, converted=converted)
            return field.document.origin, moved
        return self.main, replace(finding, location=(), converted=ours)
