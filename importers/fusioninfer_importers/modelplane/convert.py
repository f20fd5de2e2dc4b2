"""The entry point of the importer of Modelplane's documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusioninfer_importers.conversion import ConversionReport, filter_kind
from fusioninfer_importers.model import validate, validate_kind
from fusioninfer_importers.modelplane.cache import Caches, check_cache_users, read_caches
from fusioninfer_importers.modelplane.deployments import (
    convert_early,
    convert_proposed,
    convert_released,
)
from fusioninfer_importers.modelplane.models import (
    EarlyDeployment,
    ModelService,
    ProposedDeployment,
    ReleasedDeployment,
)
from fusioninfer_importers.modelplane.services import (
    Deployment,
    Routed,
    convert_service,
    get_endpoint_labels,
    set_routed_by,
)
from fusioninfer_importers.objects import consume_envelope
from fusioninfer_pulumi.plugins.importers import Conversion, SourceDocument


def convert(documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
    """Convert Modelplane's documents: one service for each ModelDeployment."""
    report = ConversionReport(documents, allow_lossy=allow_lossy)
    caches = read_caches(report, documents)
    converted = [
        _convert_deployment(report, document, caches)
        for document in filter_kind(documents, "ModelDeployment")
    ]
    deployments = [deployment for deployment in converted if deployment is not None]
    routed: list[Routed] = []
    for document, service in validate_kind(report, documents, "ModelService", ModelService):
        routed += convert_service(report, document, service.spec, deployments)
    set_routed_by(routed)
    for document in filter_kind(documents, "ModelEndpoint"):
        consume_envelope(report, document)
        report.unsupported(
            document.at("spec"),
            "describes an inference API outside of the cluster, to which ModelServices can route; "
            "this is not supported: register it as a backend of an AI gateway, or route to it with "
            "an HTTPRoute and a Service of type ExternalName",
        )
    check_cache_users(report, caches)
    return report.finish()


def _convert_deployment(
    report: ConversionReport, document: SourceDocument, caches: Caches
) -> Deployment | None:
    """Convert a ModelDeployment, or None if it is invalid.

    Its three forms (proposed, 0.1, released) have one API version, so the fields tell them apart.
    """
    spec = document.raw.get("spec")
    keys = set(spec) if isinstance(spec, Mapping) else set()
    if keys & {"workers", "prefill", "routing"} and not keys & {"template", "engines"}:
        proposed = validate(report, document, ProposedDeployment)
        if proposed is None:
            return None
        builder = report.add_service(document)
        convert_proposed(builder, proposed.spec, caches)
        return Deployment(builder, get_endpoint_labels(document, None), proposed.spec.replicas or 1)
    if "engines" in keys and "template" not in keys:
        early = validate(report, document, EarlyDeployment)
        if early is None:
            return None
        builder = report.add_service(document)
        convert_early(builder, early.spec, caches)
        return Deployment(builder, get_endpoint_labels(document, None), early.spec.replicas)
    released = validate(report, document, ReleasedDeployment)
    if released is None:
        return None
    builder = report.add_service(document)
    convert_released(builder, released.spec, caches)
    metadata = released.spec.template.metadata
    labels = get_endpoint_labels(document, metadata.labels if metadata is not None else None)
    return Deployment(builder, labels, released.spec.replicas)
