"""Converts a Deployment whose pods a ModelServer selects to a service with one role.

Kthena's router finds pods by their labels, whatever creates them. Our InferencePools have the pods
of one service, so the Deployment becomes a service, and each of its pods a replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusioninfer_importers.conversion import ConversionReport, filter_kind
from fusioninfer_importers.gang import convert_queue
from fusioninfer_importers.kthena.models import Deployment, ModelServing
from fusioninfer_importers.kthena.serving import WORKER, Serving
from fusioninfer_importers.objects import copy_metadata
from fusioninfer_pulumi.plugins.importers import SourceDocument

KIND, API_VERSION = "Deployment", "apps/v1"
_ROLE = "server"
_SERVER = "ModelServer"


def is_selected(document: SourceDocument, documents: Sequence[SourceDocument]) -> bool:
    """Return whether an object is a Deployment with pods that a ModelServer selects."""
    if (document.raw["apiVersion"], document.kind) != (API_VERSION, KIND):
        return False
    labels = document.at("spec", "template", "metadata", "labels").value
    if not isinstance(labels, Mapping):
        return False
    for server in filter_kind(documents, _SERVER):
        selector = server.at("spec", "workloadSelector", "matchLabels").value
        if not isinstance(selector, Mapping) or server.namespace != document.namespace:
            continue
        if selector and all(labels.get(key) == value for key, value in selector.items()):
            return True
    return False


def convert_deployment(
    report: ConversionReport, document: SourceDocument, deployment: Deployment
) -> Serving:
    """Convert a Deployment to a service with one role, whose replicas are its pods."""
    builder = report.add_service(document)
    copy_metadata(builder, document)
    field, spec = document.at("spec"), deployment.spec
    role = builder.add_role(field, _ROLE, WORKER)
    builder.set_origin(("spec", "roles"), field)
    builder.copy_fields(role, field, "replicas")
    template = spec.template
    parts = {"metadata": template.metadata, "spec": template.spec}
    entry = {key: value for key, value in parts.items() if value is not None}
    builder.copy((*role, "template"), entry, field / "template")
    convert_queue(builder)
    report.consume(field / "selector")
    if spec.strategy is not None:
        report.unsupported(
            field / "strategy",
            "is not supported; replicas are LeaderWorkerSets, which are updated one after another",
        )
    report.translated(
        document.at("metadata", "name"),
        "becomes a service of LeaderWorkerSets, because a ModelServer selects its pods; delete "
        "the Deployment once the service is ready",
    )
    roles = [{"name": _ROLE, "replicas": spec.replicas, "entryTemplate": entry}]
    model = ModelServing.model_validate(
        {
            "apiVersion": deployment.api_version,
            "kind": deployment.kind,
            "metadata": {},
            "spec": {"template": {"roles": roles}},
        }
    )
    return Serving(model, builder)
