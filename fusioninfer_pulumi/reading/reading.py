"""One service of an input, in our terms and in those of the document that it stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.spec.document import Document

#: A finding and the label of the document that it is about.
Located = tuple[str, Finding]


@dataclass(frozen=True)
class Reading:
    """One document of an input, or the documents that together make a service.

    Attributes:
        label: Where it came from, as messages name it: `FILE`, `FILE#2`, `<stdin>`.
        document: What our spec says about it, in paths of ours; None where it is no service.
        manifest: The service as a manifest of ours, None where it is none.
        remarks: What the conversion from another system's manifest has to say.
        translate: Moves a finding of ours to the document that the user wrote.
    """

    label: str
    document: Document | None = None
    manifest: Mapping[str, Any] | None = None
    remarks: tuple[Located, ...] = ()
    translate: Callable[[Finding], Located] | None = None

    def locate(self, finding: Finding) -> Located:
        """The document that a finding about the service is about, and the finding in its paths."""
        return (self.label, finding) if self.translate is None else self.translate(finding)

    @property
    def findings(self) -> tuple[Located, ...]:
        """All findings of reading, without those of a plan."""
        own = self.document.findings if self.document is not None else ()
        return (*self.remarks, *map(self.locate, own))
