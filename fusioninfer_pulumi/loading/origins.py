"""Maps fields of a converted service back to the documents that the user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.loading.source import SourceField


@dataclass(frozen=True)
class Origin:
    """Where a field of the service comes from.

    Attributes:
        field: The user's field.
        copied: Whether the field and everything below it is the same in the document.
    """

    field: SourceField
    copied: bool


@dataclass(frozen=True)
class Origins:
    """Where the fields of one service come from.

    Attributes:
        label: Label of the document that became the service.
        fields: Origin by location, as findings have it.
        sources: Labels of further documents that the service depends on.
    """

    label: str
    fields: Mapping[Location, Origin]
    sources: frozenset[str] = frozenset()

    @property
    def labels(self) -> frozenset[str]:
        """Labels of all documents that the service was made from."""
        fields = (origin.field.document.label for origin in self.fields.values())
        return frozenset({self.label, *self.sources, *fields})

    def locate(self, finding: Finding) -> tuple[str, Finding]:
        """Moves a finding about the service to the user's document.

        Returns:
            The document's label, and the finding at the user's field. Where a field of the service
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
            return field.document.label, moved
        return self.label, replace(finding, location=(), converted=ours)
