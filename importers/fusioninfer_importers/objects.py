"""Metadata of Kubernetes objects, and references to pools."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.model import ImportedModel
from fusioninfer_pulumi.plugins.importers import (
    SourceDocument,
    SourceField,
    is_output,
    object_names,
    quote_value,
)

#: Fields of an object's metadata that users do not set, and what sets them.
_WRITERS_BY_FIELD = {
    **dict.fromkeys(
        (
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "selfLink",
            "uid",
        ),
        "the API server",
    ),
    **dict.fromkeys(("finalizers", "ownerReferences"), "controllers"),
}
#: Header with the model's name: gateways set it from the request body, and routes match it
#: (body-based routing of the inference extension; DefaultModelBasedRoutingHeaderName of KServe).
MODEL_HEADER = "X-Gateway-Model-Name"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ObjectMetadata(ImportedModel):
    """ObjectMeta; further fields are reported one by one."""

    model_config = ConfigDict(extra="allow")

    name: Any = None
    namespace: Any = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class ImportedObject(ImportedModel):
    """A Kubernetes object; subclasses add `spec`."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    status: dict[str, Any] | None = None


def copy_metadata(builder: ServiceBuilder, document: SourceDocument) -> None:
    """Copy name, namespace, labels and annotations, and report other metadata."""
    source_field = document.at("metadata")
    builder.set_origin(("metadata",), source_field)
    for field in ("name", "namespace"):
        builder.set_origin(("metadata", field), source_field / field, copied=True)
    builder.copy_fields(("metadata",), source_field, "name", "namespace")
    for field in ("labels", "annotations"):
        if not document.metadata.get(field):
            builder.report.consume(source_field / field)
        for key, value in (document.metadata.get(field) or {}).items():
            if key != _APPLIED:
                builder.copy(("metadata", field, key), value, source_field / field / key)
    report_other_metadata(builder.report, document)


def report_other_metadata(report: ConversionReport, document: SourceDocument) -> None:
    """Report metadata that our services do not have, and the status."""
    source_field = document.at("metadata")
    for field, value in document.metadata.items():
        if field in _WRITERS_BY_FIELD:
            _report_generated(report, source_field / field, _WRITERS_BY_FIELD[field])
        elif field not in ObjectMetadata.model_fields and value is not None:
            report.unsupported(
                source_field / field,
                "is not supported; metadata has name, namespace, labels and annotations",
            )
    if _APPLIED in (document.metadata.get("annotations") or {}):
        _report_generated(report, source_field / "annotations" / _APPLIED, "kubectl")
    if document.raw.get("status") is not None:
        report.left_out(document.at("status"), "is the status of a running object; ignored")


def _report_generated(report: ConversionReport, field: SourceField, writer: str) -> None:
    report.left_out(field, f"set by {writer}; ignored")


def consume_envelope(
    report: ConversionReport,
    document: SourceDocument,
    controller_prefix: str | None = None,
    *,
    uses_name: bool = False,
) -> None:
    """Consume kind and metadata of a document that belongs to another document's service.

    The document does not become an object, so its labels and annotations are unsupported, except
    for those that the system's controllers set, whose keys start with `controller_prefix`.
    `uses_name` is whether the conversion uses the document's name.
    """
    report.consume(document.at("apiVersion"), document.at("kind"))
    field = document.at("metadata")
    report.consume(field / "name", field / "namespace")
    check_name(report, document)
    if document.name is not None and not uses_name:
        report.left_out(field / "name", "is not used; objects are named after their service")
    _report_labels(report, document, controller_prefix)
    report_other_metadata(report, document)


def check_name(report: ConversionReport, document: SourceDocument) -> None:
    """Report a name or namespace that is neither a string nor an Output."""
    for field in ("name", "namespace"):
        value = document.metadata.get(field)
        if value is not None and not isinstance(value, str) and not is_output(value):
            report.invalid(
                document.at("metadata", field), f"must be a string, got {quote_value(value)}"
            )


def _report_labels(
    report: ConversionReport, document: SourceDocument, controller_prefix: str | None
) -> None:
    """Report labels and annotations of a document that does not become an object."""
    for field in ("labels", "annotations"):
        source_field = document.at("metadata", field)
        if not source_field.value:
            report.consume(source_field)
        for key in source_field.value or {}:
            if controller_prefix is not None and str(key).startswith(controller_prefix):
                _report_generated(report, source_field / key, "controllers")
            elif key != _APPLIED:
                report.unsupported(
                    source_field / key, "is not supported here; set it on the service"
                )


def make_pool_ref(service: Any) -> dict[str, Any]:
    """Return the backendRef to a service's InferencePool, without a weight."""
    return {
        "group": object_names.POOL_GROUP,
        "kind": object_names.POOL_KIND,
        "name": object_names.inference_pool(str(service)),
    }
