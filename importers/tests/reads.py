"""What reading documents of other systems brings about, in short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Origin, Severity
from fusioninfer_pulumi.loading.documents import load_documents

Manifest = dict[str, Any]


def source(*documents: Any, allow_lossy: bool = False) -> Source:
    """Documents of one file, read and planned as the command line does."""
    result = Source("f")
    value = [(Origin("f", number), document) for number, document in enumerate(documents, start=1)]
    plan_documents(result, load_documents(value, allow_lossy=allow_lossy))
    return result


def said(
    *documents: Any, lossy: bool = False, of: Sequence[Severity] = tuple(Severity)
) -> list[str]:
    """What is said about documents, `LABEL: FINDING`, of these severities."""
    read = source(*documents, allow_lossy=lossy)
    return [f"{label}: {item}" for label, item in read.findings if item.severity in of]


def problems(*documents: Any, lossy: bool = False) -> list[str]:
    """Why documents are refused."""
    return said(*documents, lossy=lossy, of=(Severity.ERROR,))


def warned(*documents: Any, lossy: bool = False) -> list[str]:
    """What is probably wrong with documents."""
    return said(*documents, lossy=lossy, of=(Severity.WARNING,))


def converted(*documents: Any, lossy: bool = False) -> list[Manifest]:
    """The services that are made of documents, which must be accepted."""
    read = source(*documents, allow_lossy=lossy)
    refused = [str(item) for _, item in read.findings if item.severity is Severity.ERROR]
    assert not refused, refused
    return [dict(document.manifest) for document in read.planned]


def spec(*documents: Any, lossy: bool = False) -> Manifest:
    """The spec of the one service that is made of documents."""
    (manifest,) = converted(*documents, lossy=lossy)
    result: Manifest = manifest["spec"]
    return result
