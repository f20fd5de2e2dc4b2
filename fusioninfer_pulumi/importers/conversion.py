"""What converting a set of documents brings about: services of ours, and what is to be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.origins import Origins

#: A finding and the label of the document that it is about.
Located = tuple[str, Finding]


@dataclass(frozen=True)
class Service:
    """One service of ours, made of documents of another system.

    Attributes:
        main: The document that stands for it.
        manifest: The service as a manifest of ours; it may break rules of ours.
        origins: Where its fields stand in the documents.
    """

    main: Given
    manifest: Mapping[str, Any]
    origins: Origins


@dataclass(frozen=True)
class Conversion:
    """The services of a set of documents.

    Attributes:
        services: In the order of their documents.
        findings: What is to be said about the documents, with paths of theirs.
    """

    services: tuple[Service, ...]
    findings: tuple[Located, ...]
