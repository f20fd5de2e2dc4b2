"""A ModelService as the route to the deployments that it selects.

Modelplane labels an endpoint for each replica with its deployment, its cluster and the labels of
the deployment's template. A ModelService selects endpoints by label and creates one HTTPRoute,
which takes `/NAMESPACE/NAME/` off the path; a second one, in the cluster of a replica, leads to its
InferencePool (functions/compose-model-service, compose-model-replica/function/routing.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.modelplane.clusters import conflicting_label, require_labels
from fusioninfer_importers.modelplane.models import ModelServiceSpec
from fusioninfer_importers.objects import consume_envelope, pool_backend
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Location, SourceDocument, SourceField

_DEPLOYMENT, _CLUSTER = "modelplane.ai/deployment", "modelplane.ai/cluster"
#: Gateway of Modelplane's routes in the clusters of the pods.
_GATEWAY = {"name": "inference-gateway", "namespace": "modelplane-system"}
#: Modelplane's picker (functions/compose-model-replica/function/routing.py): its weights, and the
#: 16 tokens (of 4 characters each) without a cached prefix from which on a prompt is computed by a
#: prefill pod (`prefix-based-pd-decider`). The size of blocks is that of the engine, as ours is.
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
        replicas: How many endpoints it has.
    """

    builder: ServiceBuilder
    labels: Mapping[str, Any]
    replicas: int


@dataclass
class _Share:
    """A deployment's part in the requests of a ModelService."""

    deployment: Deployment
    at: SourceField
    weight: int
    among: int = 0
    cluster: str | None = None

    @property
    def part(self) -> Fraction:
        """Its part by the weights of the entries."""
        return Fraction(self.weight * self.deployment.replicas, self.among)


#: A deployment whose requests come by another service's route, that service's name, and the field
#: that says so.
Shared = tuple[Deployment, str, SourceField]


def labels_of(document: SourceDocument, template: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the labels of a deployment's endpoints."""
    return {**(template or {}), _DEPLOYMENT: document.name}


def convert_service(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
) -> list[Shared]:
    """Convert a ModelService to a rule of the service that gets the most requests.

    Returns the other deployments that the rule leads to.
    """
    consume_envelope(report, document, named=True)
    shares = list(_shares(report, document, spec, deployments))
    if not shares:
        report.left_out(
            document.at("metadata", "name"),
            "refers to no service of this input; ignored",
        )
        return []
    if len(shares) == 1 and (shares[0].at / "weight").value is not None:
        report.left_out(
            shares[0].at / "weight",
            "has no effect with a single service; ignored",
        )
    main = max(shares, key=lambda share: share.part)
    at = document.at("spec", "endpoints")
    builder = main.deployment.builder
    router = _router(builder, at)
    rules = (*router, "httproute", "rules")
    target = (*rules, len(builder.get(rules) or ()))
    builder.derive(target, _rule(document, shares), document.at("metadata", "name"))
    builder.set_origin((*target, "backendRefs"), at)
    builder.default((*router, "httproute", "parentRefs"), [_GATEWAY], at)
    report.chosen(
        at,
        "not set; the route attaches to modelplane-system/inference-gateway, as Modelplane's "
        "routes do",
    )
    for share in shares:
        if share.cluster is not None:
            place = share.at / "selector" / "matchLabels"
            require_labels(share.deployment.builder, {_CLUSTER: share.cluster}, place)
    others = [share for share in shares if share is not main]
    for share in others:
        other = conflicting_label(builder, share.deployment.builder)
        if other is not None:
            report.unsupported(
                share.at,
                f"{share.deployment.builder.main.name} and {builder.main.name} are in different "
                f"clusters ({other}); create a ModelService for each",
            )
    return [(share.deployment, str(builder.main.name), share.at) for share in others]


def convert_shared(shared: Sequence[Shared]) -> None:
    """Set `routedBy` in services without a rule of their own."""
    for deployment, by, at in shared:
        router = _router(deployment.builder, at)
        if not deployment.builder.get((*router, "httproute", "rules")):
            deployment.builder.derive((*router, "httproute", "routedBy"), by, at)


def _router(builder: ServiceBuilder, at: SourceField) -> Location:
    for index, role in enumerate(builder.roles):
        if role.get("componentType") == "router":
            return ("spec", "roles", index)
    return add_router(builder, at, pairs=False)


def add_router(builder: ServiceBuilder, at: SourceField, *, pairs: bool) -> Location:
    """Add a router with Modelplane's picker; `pairs` is whether prefill and decode are separate."""
    router = builder.add_role(at, "router", "router")
    builder.default((*router, "scorers"), dict(_SCORERS), at)
    if pairs:
        builder.default((*router, "endpointPicker", "threshold"), _THRESHOLD, at)
    return router


def _rule(document: SourceDocument, shares: Sequence[_Share]) -> dict[str, Any]:
    prefix = f"/{document.namespace}/{document.name}"
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
        "timeouts": {"request": "0s"},
    }
    if len(shares) > 1:
        rule["backendRefs"] = [
            {**pool_backend(share.deployment.builder.main.name), "weight": weight}
            for share, weight in zip(shares, _weights([item.part for item in shares]), strict=True)
        ]
    return rule


def _weights(parts: Sequence[Fraction]) -> list[int]:
    """Return the smallest integers of the same ratio, rounded if they exceed the maximum."""
    scale = math.lcm(*(part.denominator for part in parts))
    whole = [int(part * scale) for part in parts]
    divisor = math.gcd(*whole)
    most = max(whole) // divisor
    if most <= _MAX_WEIGHT:
        return [weight // divisor for weight in whole]
    return [max(1, round(Fraction(weight, divisor) / most * _MAX_WEIGHT)) for weight in whole]


def _shares(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
) -> Iterator[_Share]:
    taken: dict[int, _Share] = {}
    for index, entry in enumerate(spec.endpoints):
        at = document.at("spec", "endpoints", index)
        wanted = dict(entry.selector.match_labels)
        cluster = wanted.pop(_CLUSTER, None)
        report.consume(at / "weight", at / "selector")
        selected = [
            deployment
            for deployment in deployments
            if deployment.builder.main.namespace == document.namespace
            and wanted.items() <= deployment.labels.items()
        ]
        if not selected:
            report.unsupported(
                at,
                "selects no ModelDeployment of this input; add it as a document, or route to "
                "external endpoints with an HTTPRoute of your own",
                REFERENCE_MISSING,
            )
        fresh = [deployment for deployment in selected if id(deployment) not in taken]
        for deployment in selected:
            if deployment not in fresh:
                _report_repeated(report, taken[id(deployment)], deployment, cluster, at)
        weight = 1 if entry.weight is None else entry.weight
        among = sum(deployment.replicas for deployment in fresh)
        for deployment in fresh:
            taken[id(deployment)] = _Share(deployment, at, weight, among, cluster)
            yield taken[id(deployment)]


def _report_repeated(
    report: ConversionReport,
    first: _Share,
    deployment: Deployment,
    cluster: str | None,
    at: SourceField,
) -> None:
    name = deployment.builder.main.name
    if cluster == first.cluster:
        report.left_out(
            at,
            f"repeats the entry for {name}; ignored",
        )
        return
    report.unsupported(
        at,
        f"refers to replicas of {name} in another cluster; a service is in one cluster; deploy it "
        "to both, and split requests in front of them",
    )
