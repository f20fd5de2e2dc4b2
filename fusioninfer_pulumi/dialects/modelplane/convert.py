"""From Modelplane's documents to services of ours: the one entry to this dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.dialects.carrier import Book
from fusioninfer_pulumi.dialects.conversion import Conversion
from fusioninfer_pulumi.dialects.given import Given
from fusioninfer_pulumi.dialects.metadata import companion
from fusioninfer_pulumi.dialects.model import read
from fusioninfer_pulumi.dialects.modelplane.cache import read_caches, say_users
from fusioninfer_pulumi.dialects.modelplane.models import (
    EarlyDeployment,
    ProposedDeployment,
    ReleasedDeployment,
)
from fusioninfer_pulumi.dialects.modelplane.proposed import carry_proposed
from fusioninfer_pulumi.dialects.modelplane.released import carry_early, carry_released

_COMPANIONS = {
    "ModelService": "it routes between clusters; give the service a role of componentType router "
    "with gateway or httproute",
}


def convert(documents: Sequence[Given], *, allow_lossy: bool) -> Conversion:
    """Converts the Modelplane documents of one input.

    Args:
        documents: ModelDeployments, and what stands beside them.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.

    Returns:
        One service for each ModelDeployment.
    """
    book = Book(documents, allow_lossy=allow_lossy)
    caches = read_caches(book, documents)
    for document in documents:
        if document.kind == "ModelCache":
            continue
        if document.kind != "ModelDeployment":
            companion(book, document)
            book.lost(document.at("spec"), _COMPANIONS[document.kind])
            continue
        spec = document.raw.get("spec")
        keys = set(spec) if isinstance(spec, Mapping) else set()
        if keys & {"workers", "prefill", "routing"} and not keys & {"template", "engines"}:
            proposed = read(book, document, ProposedDeployment)
            if proposed is not None:
                carry_proposed(book.service(document), proposed.spec, caches)
        elif "engines" in keys and "template" not in keys:
            early = read(book, document, EarlyDeployment)
            if early is not None:
                carry_early(book.service(document), early.spec, caches)
        else:
            released = read(book, document, ReleasedDeployment)
            if released is not None:
                carry_released(book.service(document), released.spec, caches)
    say_users(book, caches)
    return book.conversion()
