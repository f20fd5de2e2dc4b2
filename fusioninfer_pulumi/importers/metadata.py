"""Metadata of a document: what every Kubernetes object has, whatever its kind."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from fusioninfer_pulumi.findings import shown
from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.model import DialectModel
from fusioninfer_pulumi.kube.outputs import is_output

#: Fields of an object's metadata that the API server writes.
_SERVERS = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
#: Fields that controllers write: who made the object, and who clears up before it goes.
_CONTROLLERS = ("finalizers", "ownerReferences")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ObjectMetadata(DialectModel):
    """ObjectMeta; what we cannot carry over is refused by field, not by type."""

    model_config = ConfigDict(extra="allow")

    name: Any = None
    namespace: Any = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


def carry_metadata(carrier: Carrier, document: Given) -> None:
    """Carries name, namespace, labels and annotations over, and says what else there is.

    Args:
        carrier: The service.
        document: The document that stands for it.
    """
    at = document.at("metadata")
    carrier.origin(("metadata",), at)
    for field in ("name", "namespace"):
        carrier.origin(("metadata", field), at / field, whole=True)
        if document.metadata.get(field) is not None:
            carrier.put(("metadata", field), document.metadata[field], at / field)
    for field in ("labels", "annotations"):
        if not document.metadata.get(field):
            carrier.book.read(at / field)
        for key, value in (document.metadata.get(field) or {}).items():
            if key != _APPLIED:
                carrier.put(("metadata", field, key), value, at / field / key)
    carry_rest(carrier.book, document)


def carry_rest(book: Book, document: Given) -> None:
    """Says what is to be said of metadata that no service of ours has, and of the status."""
    at = document.at("metadata")
    for field, value in document.metadata.items():
        if field in _SERVERS:
            book.note(at / field, "is written by the API server; left out")
        elif field in _CONTROLLERS:
            book.note(at / field, "is written by controllers; left out")
        elif field not in ("name", "namespace", "labels", "annotations") and value is not None:
            book.lost(at / field, "a service of ours has name, namespace, labels and annotations")
    if _APPLIED in (document.metadata.get("annotations") or {}):
        book.note(at / "annotations" / _APPLIED, "is written by kubectl; left out")
    if document.raw.get("status") is not None:
        book.note(document.at("status"), "is what was observed in a cluster; left out")


def companion(book: Book, document: Given, controllers: str | None = None) -> None:
    """Reads the envelope of a document that adds to another one's service.

    Its name serves to be referred to; labels and annotations have no object to stand on.

    Args:
        book: The book of the documents.
        document: The document.
        controllers: What the keys of labels that the system's own controllers write begin with.
    """
    book.read(document.at("apiVersion"), document.at("kind"))
    at = document.at("metadata")
    book.read(at / "name", at / "namespace")
    own_name(book, document)
    if document.name is not None:
        book.note(at / "name", "serves to be referred to: objects are named by their service")
    left_labels(book, document, controllers)
    carry_rest(book, document)


def own_name(book: Book, document: Given) -> None:
    """Refuses a name or namespace of a document that is no string."""
    for field in ("name", "namespace"):
        value = document.metadata.get(field)
        if value is not None and not isinstance(value, str) and not is_output(value):
            book.refuse(document.at("metadata", field), f"must be a string, got {shown(value)}")


def left_labels(book: Book, document: Given, controllers: str | None = None) -> None:
    """Says that labels and annotations of a document have no object to stand on."""
    for field in ("labels", "annotations"):
        if not document.metadata.get(field):
            book.read(document.at("metadata", field))
        for key in document.metadata.get(field) or {}:
            if controllers is not None and str(key).startswith(controllers):
                place = document.at("metadata", field, key)
                book.note(place, "is written by controllers; left out")
            elif key != _APPLIED:
                book.lost(
                    document.at("metadata", field, key),
                    "there is no object of its own to put it on; put it on the service",
                )
