"""What the importers share about Kubernetes objects: their metadata, and references to pools."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from fusioninfer_pulumi.findings import shown
from fusioninfer_pulumi.importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_pulumi.importers.model import ImportedModel
from fusioninfer_pulumi.importers.source import SourceDocument
from fusioninfer_pulumi.kube import names
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


class ObjectMetadata(ImportedModel):
    """ObjectMeta; what we cannot carry over is refused by field, not by type."""

    model_config = ConfigDict(extra="allow")

    name: Any = None
    namespace: Any = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


def copy_metadata(builder: ServiceBuilder, document: SourceDocument) -> None:
    """Carries name, namespace, labels and annotations over, and says what else there is."""
    at = document.at("metadata")
    builder.set_origin(("metadata",), at)
    for field in ("name", "namespace"):
        builder.set_origin(("metadata", field), at / field, copied=True)
        if document.metadata.get(field) is not None:
            builder.copy(("metadata", field), document.metadata[field], at / field)
    for field in ("labels", "annotations"):
        if not document.metadata.get(field):
            builder.report.consume(at / field)
        for key, value in (document.metadata.get(field) or {}).items():
            if key != _APPLIED:
                builder.copy(("metadata", field, key), value, at / field / key)
    report_other_metadata(builder.report, document)


def report_other_metadata(report: ConversionReport, document: SourceDocument) -> None:
    """Says what is to be said of metadata that no service of ours has, and of the status."""
    at = document.at("metadata")
    for field, value in document.metadata.items():
        if field in _SERVERS:
            report.info(
                "cluster-metadata-dropped", at / field, "is written by the API server; left out"
            )
        elif field in _CONTROLLERS:
            report.info(
                "cluster-metadata-dropped", at / field, "is written by controllers; left out"
            )
        elif field not in ("name", "namespace", "labels", "annotations") and value is not None:
            report.unsupported(
                "metadata-field-unsupported",
                at / field,
                "a service of ours has name, namespace, labels and annotations",
            )
    if _APPLIED in (document.metadata.get("annotations") or {}):
        report.info(
            "cluster-metadata-dropped",
            at / "annotations" / _APPLIED,
            "is written by kubectl; left out",
        )
    if document.raw.get("status") is not None:
        report.info(
            "status-dropped", document.at("status"), "is what was observed in a cluster; left out"
        )


def consume_envelope(
    report: ConversionReport, document: SourceDocument, controllers: str | None = None
) -> None:
    """Reads the envelope of a document that adds to another one's service.

    Its name serves to be referred to; labels and annotations have no object to stand on.
    """
    report.consume(document.at("apiVersion"), document.at("kind"))
    at = document.at("metadata")
    report.consume(at / "name", at / "namespace")
    check_name(report, document)
    if document.name is not None:
        report.info(
            "name-only-referenced",
            at / "name",
            "serves to be referred to: objects are named by their service",
        )
    report_labels(report, document, controllers)
    report_other_metadata(report, document)


def check_name(report: ConversionReport, document: SourceDocument) -> None:
    """Refuses a name or namespace of a document that is no string."""
    for field in ("name", "namespace"):
        value = document.metadata.get(field)
        if value is not None and not isinstance(value, str) and not is_output(value):
            report.error(
                "name-not-a-string",
                document.at("metadata", field),
                f"must be a string, got {shown(value)}",
            )


def report_labels(
    report: ConversionReport, document: SourceDocument, controllers: str | None = None
) -> None:
    """Says that labels and annotations of a document have no object to stand on."""
    for field in ("labels", "annotations"):
        if not document.metadata.get(field):
            report.consume(document.at("metadata", field))
        for key in document.metadata.get(field) or {}:
            if controllers is not None and str(key).startswith(controllers):
                place = document.at("metadata", field, key)
                report.info(
                    "cluster-metadata-dropped", place, "is written by controllers; left out"
                )
            elif key != _APPLIED:
                report.unsupported(
                    "label-without-object",
                    document.at("metadata", field, key),
                    "there is no object of its own to put it on; put it on the service",
                )


def pool_backend(service: Any) -> dict[str, Any]:
    """The backendRef to a service's InferencePool, without a weight."""
    return {
        "group": names.POOL_GROUP,
        "kind": names.POOL_KIND,
        "name": names.inference_pool(str(service)),
    }
