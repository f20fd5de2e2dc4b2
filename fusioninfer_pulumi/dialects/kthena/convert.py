"""From Kthena's documents to services of ours: the one entry to this dialect."""

from __future__ import annotations

from collections.abc import Sequence

from fusioninfer_pulumi.dialects.carrier import Book
from fusioninfer_pulumi.dialects.conversion import Conversion
from fusioninfer_pulumi.dialects.given import Given
from fusioninfer_pulumi.dialects.kthena.models import ModelServing
from fusioninfer_pulumi.dialects.kthena.serving import carry_serving
from fusioninfer_pulumi.dialects.model import read


def convert(documents: Sequence[Given], *, allow_lossy: bool) -> Conversion:
    """Converts the Kthena documents of one input.

    Args:
        documents: ModelServings, and the ModelServers and ModelRoutes beside them.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.

    Returns:
        One service for each ModelServing.
    """
    book = Book(documents, allow_lossy=allow_lossy)
    for document in documents:
        if document.kind == "ModelServing":
            serving = read(book, document, ModelServing)
            if serving is not None:
                carry_serving(book.service(document), serving)
    return book.conversion()
