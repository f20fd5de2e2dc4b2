"""From Modelplane's documents to services of ours: the one entry to this dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.conversion import Conversion
from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.metadata import companion
from fusioninfer_pulumi.importers.model import read
from fusioninfer_pulumi.importers.modelplane.cache import Caches, read_caches, say_users
from fusioninfer_pulumi.importers.modelplane.companions import ModelService
from fusioninfer_pulumi.importers.modelplane.models import (
    EarlyDeployment,
    ProposedDeployment,
    ReleasedDeployment,
)
from fusioninfer_pulumi.importers.modelplane.proposed import carry_proposed
from fusioninfer_pulumi.importers.modelplane.released import carry_early, carry_released
from fusioninfer_pulumi.importers.modelplane.services import (
    Deployment,
    Routes,
    carry_service,
    carry_shared,
    labels_of,
)


def convert(documents: Sequence[Given], *, allow_lossy: bool) -> Conversion:
    """Converts the Modelplane documents of one input.

    Args:
        documents: ModelDeployments, and what stands beside them.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.

    Returns:
        One service for each ModelDeployment; one that a ModelService selects has a route.
    """
    book = Book(documents, allow_lossy=allow_lossy)
    caches = read_caches(book, documents)
    read_them = [_deployment(book, each, caches) for each in _of(documents, "ModelDeployment")]
    deployments = [each for each in read_them if each is not None]
    routes = Routes()
    for document in _of(documents, "ModelService"):
        service = read(book, document, ModelService)
        if service is not None:
            carry_service(book, document, service.spec, deployments, routes)
    carry_shared(routes)
    for document in _of(documents, "ModelEndpoint"):
        companion(book, document)
        book.lost(
            document.at("spec"),
            "is outside of the cluster; lead to it by a route of your own beside the service's",
        )
    say_users(book, caches)
    return book.conversion()


def _deployment(book: Book, document: Given, caches: Caches) -> Deployment | None:
    spec = document.raw.get("spec")
    keys = set(spec) if isinstance(spec, Mapping) else set()
    if keys & {"workers", "prefill", "routing"} and not keys & {"template", "engines"}:
        proposed = read(book, document, ProposedDeployment)
        if proposed is None:
            return None
        carrier = book.service(document)
        carry_proposed(carrier, proposed.spec, caches)
        return Deployment(carrier, labels_of(document, None), proposed.spec.replicas or 1)
    if "engines" in keys and "template" not in keys:
        early = read(book, document, EarlyDeployment)
        if early is None:
            return None
        carrier = book.service(document)
        carry_early(carrier, early.spec, caches)
        return Deployment(carrier, labels_of(document, None), early.spec.replicas)
    released = read(book, document, ReleasedDeployment)
    if released is None:
        return None
    carrier = book.service(document)
    carry_released(carrier, released.spec, caches)
    metadata = released.spec.template.metadata
    labels = labels_of(document, metadata.labels if metadata is not None else None)
    return Deployment(carrier, labels, released.spec.replicas)


def _of(documents: Sequence[Given], kind: str) -> list[Given]:
    return [document for document in documents if document.kind == kind]
