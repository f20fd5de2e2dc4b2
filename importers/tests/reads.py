"""Helpers that read source manifests and return findings or services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Origin, Severity
from fusioninfer_pulumi.loading.documents import load_documents

Manifest = dict[str, Any]


def read_source(*documents: Any, allow_lossy: bool = False) -> Source:
    """Read and plan documents of one file, as the command line does."""
    result = Source("f")
    value = [(Origin("f", number), document) for number, document in enumerate(documents, start=1)]
    plan_documents(result, load_documents(value, allow_lossy=allow_lossy))
    return result


def check(
    *documents: Any, lossy: bool = False, of: Sequence[Severity] = tuple(Severity)
) -> list[str]:
    """Return findings about documents, as `LABEL: FINDING`."""
    read = read_source(*documents, allow_lossy=lossy)
    return [f"{label}: {item}" for label, item in read.findings if item.severity in of]


def reject(*documents: Any, lossy: bool = False) -> list[str]:
    """Return the errors of documents."""
    return check(*documents, lossy=lossy, of=(Severity.ERROR,))


def warn(*documents: Any, lossy: bool = False) -> list[str]:
    """Return the warnings about documents."""
    return check(*documents, lossy=lossy, of=(Severity.WARNING,))


def convert(*documents: Any, lossy: bool = False) -> list[Manifest]:
    """Convert documents without errors to services."""
    read = read_source(*documents, allow_lossy=lossy)
    errors = [str(item) for _, item in read.findings if item.severity is Severity.ERROR]
    assert not errors, errors
    return [dict(document.manifest) for document in read.planned_documents]


def to_spec(*documents: Any, lossy: bool = False) -> Manifest:
    """Return the spec of the single service in documents."""
    (manifest,) = convert(*documents, lossy=lossy)
    result: Manifest = manifest["spec"]
    return result
