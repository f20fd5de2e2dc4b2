"""Converts a ModelService to the route to the deployments that it selects.

Modelplane creates an endpoint for each replica, with labels that name the deployment and the
cluster, and the labels of the deployment's template. A ModelService selects endpoints by label and
creates one HTTPRoute, which removes `/NAMESPACE/NAME/` from the path. A second HTTPRoute, in the
replica's cluster, leads to its InferencePool (functions/compose-model-service,
compose-model-replica/function/routing.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.modelplane.clusters import find_conflicting_label, require_labels
from fusioninfer_importers.modelplane.models import ModelServiceSpec
from fusioninfer_importers.objects import consume_envelope, make_pool_ref
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Location, SourceDocument, SourceField

_DEPLOYMENT, _CLUSTER = "modelplane.ai/deployment", "modelplane.ai/cluster"
#: Gateway of Modelplane's routes in the clusters of the pods.
_GATEWAY = {"name": "inference-gateway", "namespace": "modelplane-system"}
#: Scorers of Modelplane's endpoint picker (functions/compose-model-replica/function/routing.py).
#: A prefill pod computes prompts of which at least 16 tokens, of 4 characters each, are not cached
#: (`prefix-based-pd-decider`). Like ours, Modelplane's picker uses the engine's block size.
_SCORERS = {"prefix-cache": 2, "queue": 1}
_THRESHOLD = 16 * 4
#: The largest weight of a backend.
_MAX_WEIGHT = 1_000_000


@dataclass(frozen=True)
class Deployment:
    """A ModelDeployment and the service that it becomes.

    Attributes:
        builder: The service.
        labels: Labels that all of its endpoints have.
        replicas: Number of its endpoints.
    """

    builder: ServiceBuilder
    labels: Mapping[str, Any]
    replicas: int


@dataclass
class _Share:
    """A deployment's share of the requests of a ModelService.

    Attributes:
        deployment: The deployment.
        field: The entry of the ModelService that selects it.
        weight: The entry's weight.
        replicas: Replicas of all deployments that the entry selects.
        cluster: The cluster that the entry selects, if any.
    """

    deployment: Deployment
    field: SourceField
    weight: int
    replicas: int = 0
    cluster: str | None = None

    @property
    def fraction(self) -> Fraction:
        """The deployment's part of the entry's weight, in proportion to its replicas."""
        return Fraction(self.weight * self.deployment.replicas, self.replicas)


#: A deployment that another service's route leads to, the name of that service, and the entry of
#: the ModelService that selects the deployment.
Routed = tuple[Deployment, str, SourceField]


def get_endpoint_labels(
    document: SourceDocument, template: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the labels of a deployment's endpoints."""
    return {**(template or {}), _DEPLOYMENT: document.name}


def convert_service(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
) -> list[Routed]:
    """Convert a ModelService to a route rule of the service that gets the most requests.

    Returns:
        The other deployments that the rule leads to.
    """
    consume_envelope(report, document, uses_name=True)
    shares = list(_find_shares(report, document, spec, deployments))
    if not shares:
        report.left_out(
            document.at("metadata", "name"), "selects no ModelDeployment of this input; ignored"
        )
        return []
    if len(shares) == 1 and (shares[0].field / "weight").value is not None:
        report.left_out(shares[0].field / "weight", "has no effect with a single service; ignored")
    main = max(shares, key=lambda share: share.fraction)
    field = document.at("spec", "endpoints")
    builder = main.deployment.builder
    router = _find_or_add_router(builder, field)
    rules = (*router, "httproute", "rules")
    target = (*rules, len(builder.get(rules) or ()))
    builder.derive(target, _build_rule(document, shares), document.at("metadata", "name"))
    builder.set_origin((*target, "backendRefs"), field)
    builder.default((*router, "httproute", "parentRefs"), [_GATEWAY], field)
    report.chosen(
        field, "the route attaches to modelplane-system/inference-gateway, like Modelplane's routes"
    )
    for share in shares:
        if share.cluster is not None:
            subfield = share.field / "selector" / "matchLabels"
            require_labels(share.deployment.builder, {_CLUSTER: share.cluster}, subfield)
    other_shares = [share for share in shares if share is not main]
    for share in other_shares:
        conflict = find_conflicting_label(builder, share.deployment.builder)
        if conflict is not None:
            report.unsupported(
                share.field,
                f"{share.deployment.builder.main.name} and {builder.main.name} are in different "
                f"clusters ({conflict}); create a ModelService for each",
            )
    return [(share.deployment, str(builder.main.name), share.field) for share in other_shares]


def set_routed_by(routed: Sequence[Routed]) -> None:
    """Set `routedBy` in services that have no route rule of their own."""
    for deployment, main_service, field in routed:
        router = _find_or_add_router(deployment.builder, field)
        if not deployment.builder.get((*router, "httproute", "rules")):
            deployment.builder.derive((*router, "httproute", "routedBy"), main_service, field)


def _find_or_add_router(builder: ServiceBuilder, field: SourceField) -> Location:
    for index, role in enumerate(builder.roles):
        if role.get("componentType") == "router":
            return ("spec", "roles", index)
    return add_router(builder, field, is_pd=False)


def add_router(builder: ServiceBuilder, field: SourceField, *, is_pd: bool) -> Location:
    """Add a router with Modelplane's picker; `is_pd` is whether prefill and decode are separate."""
    router = builder.add_role(field, "router", "router")
    builder.default((*router, "scorers"), dict(_SCORERS), field)
    if is_pd:
        builder.default((*router, "endpointPicker", "threshold"), _THRESHOLD, field)
    return router


def _build_rule(document: SourceDocument, shares: Sequence[_Share]) -> dict[str, Any]:
    prefix = f"/{document.namespace}/{document.name}"
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
        "timeouts": {"request": "0s"},
    }
    if len(shares) > 1:
        rule["backendRefs"] = [
            {**make_pool_ref(share.deployment.builder.main.name), "weight": weight}
            for share, weight in zip(
                shares, _scale([item.fraction for item in shares]), strict=True
            )
        ]
    return rule


def _scale(fractions: Sequence[Fraction]) -> list[int]:
    """Return the smallest integers of the same ratio, rounded if they exceed the maximum."""
    scale = math.lcm(*(fraction.denominator for fraction in fractions))
    weights = [int(fraction * scale) for fraction in fractions]
    divisor = math.gcd(*weights)
    largest = max(weights) // divisor
    if largest <= _MAX_WEIGHT:
        return [weight // divisor for weight in weights]
    return [max(1, round(Fraction(weight, divisor) / largest * _MAX_WEIGHT)) for weight in weights]


def _find_shares(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
) -> Iterator[_Share]:
    """Yield the share of each deployment that the entries select, and report the entries."""
    by_id: dict[int, _Share] = {}
    for index, entry in enumerate(spec.endpoints):
        field = document.at("spec", "endpoints", index)
        match_labels = dict(entry.selector.match_labels)
        cluster = match_labels.pop(_CLUSTER, None)
        report.consume(field / "weight", field / "selector")
        selected = [
            deployment
            for deployment in deployments
            if deployment.builder.main.namespace == document.namespace
            and match_labels.items() <= deployment.labels.items()
        ]
        if not selected:
            report.unsupported(
                field,
                "selects no ModelDeployment of this input; add it as a document, or route to "
                "external endpoints with an HTTPRoute of your own",
                REFERENCE_MISSING,
            )
        added = [deployment for deployment in selected if id(deployment) not in by_id]
        for deployment in selected:
            if deployment not in added:
                _report_repeated(report, by_id[id(deployment)], deployment, cluster, field)
        weight = 1 if entry.weight is None else entry.weight
        replicas = sum(deployment.replicas for deployment in added)
        for deployment in added:
            by_id[id(deployment)] = _Share(deployment, field, weight, replicas, cluster)
            yield by_id[id(deployment)]


def _report_repeated(
    report: ConversionReport,
    first: _Share,
    deployment: Deployment,
    cluster: str | None,
    field: SourceField,
) -> None:
    name = deployment.builder.main.name
    if cluster == first.cluster:
        report.left_out(field, f"repeats the entry for {name}; ignored")
        return
    report.unsupported(
        field,
        f"refers to replicas of {name} in another cluster; a service is in one cluster; deploy it "
        "to both, and split requests in front of them",
    )
