"""Maps fields of a converted service back to the documents that the user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusioninfer_pulumi.findings import Finding, Location, Origin
from fusioninfer_pulumi.loading.source import SourceField


@dataclass(frozen=True)
class FieldOrigin:
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
        main: The document that became the service.
        fields: Origin by location, as findings have it.
        sources: Further documents that the service depends on.
    """

    main: Origin
    fields: Mapping[Location, FieldOrigin]
    sources: frozenset[Origin] = frozenset()

    @property
    def documents(self) -> frozenset[Origin]:
        """All documents that the service was made from."""
        fields = (origin.field.document.origin for origin in self.fields.values())
        return frozenset({self.main, *self.sources, *fields})

    def locate(self, finding: Finding) -> tuple[Origin, Finding]:
        """Moves a finding about the service to the user's document.

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
