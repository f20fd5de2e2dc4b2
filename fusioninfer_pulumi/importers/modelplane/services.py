"""A ModelService as the route to the deployments that it selects.

Modelplane labels an endpoint for each replica with its deployment, its cluster and the labels of
the deployment's template. A ModelService selects endpoints by label, and makes one HTTPRoute, which
takes `/NAMESPACE/NAME/` off the path; a second one, in the cluster of a replica, leads to its
InferencePool (functions/compose-model-service, compose-model-replica/function/routing.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_pulumi.importers.modelplane.clusters import conflicting_label, require_labels
from fusioninfer_pulumi.importers.modelplane.models import ModelServiceSpec
from fusioninfer_pulumi.importers.objects import (
    check_name,
    pool_backend,
    report_labels,
    report_other_metadata,
)
from fusioninfer_pulumi.importers.source import SourceDocument, SourceField

_DEPLOYMENT, _CLUSTER = "modelplane.ai/deployment", "modelplane.ai/cluster"
#: Where Modelplane attaches the routes in the clusters that pods are in.
_GATEWAY = {"name": "inference-gateway", "namespace": "modelplane-system"}
#: The weights of its picker where prefill and decode are not apart.
_SCORERS = {"prefix-cache": 2, "queue": 1}
#: The largest weight of a backend.
_MOST = 1_000_000


@dataclass(frozen=True)
class Deployment:
    """A ModelDeployment and the service that stands for it.

    Attributes:
        builder: The service.
        labels: Labels of its endpoints, without those of one endpoint alone.
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
        """Its part, as far as the entries' weights say it."""
        return Fraction(self.weight * self.deployment.replicas, self.among)


@dataclass
class Routes:
    """What the ModelServices of an input lead to.

    Attributes:
        shared: Services behind the route of another one, with that one's name.
    """

    shared: list[tuple[Deployment, str, SourceField]] = field(default_factory=list)


def labels_of(document: SourceDocument, template: Mapping[str, Any] | None) -> dict[str, Any]:
    """The labels of a deployment's endpoints."""
    return {**(template or {}), _DEPLOYMENT: document.name}


def convert_service(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
    routes: Routes,
) -> None:
    """Carries a ModelService over: a rule of the service that gets the most requests."""
    report.consume(document.at("apiVersion"), document.at("kind"))
    report.consume(document.at("metadata", "name"), document.at("metadata", "namespace"))
    check_name(report, document)
    report_labels(report, document)
    report_other_metadata(report, document)
    shares = list(_shares(report, document, spec, deployments))
    if not shares:
        report.info(
            "leads-to-no-service",
            document.at("metadata", "name"),
            "is left out: it leads to no service",
        )
        return
    if len(shares) == 1 and (shares[0].at / "weight").value is not None:
        report.info(
            "single-target-weight",
            shares[0].at / "weight",
            "there is one service, which gets every request",
        )
    main = max(shares, key=lambda each: each.part)
    at = document.at("spec", "endpoints")
    builder = main.deployment.builder
    router = _router(builder, at)
    rules = (*router, "httproute", "rules")
    target = (*rules, len(builder.get(rules) or ()))
    builder.derive(target, _rule(document, shares), document.at("metadata", "name"))
    builder.set_origin((*target, "backendRefs"), at)
    builder.default((*router, "httproute", "parentRefs"), [_GATEWAY], at)
    report.info(
        "gateway-defaulted",
        at,
        "the route attaches to the Gateway inference-gateway of namespace modelplane-system, as "
        "Modelplane's routes in the clusters of its pods; name another in httproute.parentRefs",
    )
    for share in shares:
        _place(share)
    for share in shares:
        if share is main:
            continue
        routes.shared.append((share.deployment, str(builder.main.name), share.at))
        other = conflicting_label(builder, share.deployment.builder)
        if other is not None:
            report.unsupported(
                "clusters-differ",
                share.at,
                f"{share.deployment.builder.main.name} and {builder.main.name} are not in one "
                f"cluster ({other}), and a route leads to pods of its own; give each a "
                "ModelService",
            )


def _place(share: _Share) -> None:
    if share.cluster is not None:
        place = share.at / "selector" / "matchLabels"
        require_labels(share.deployment.builder, {_CLUSTER: share.cluster}, place)


def convert_shared(routes: Routes) -> None:
    """Says of services that have no rule of their own whose route leads to them."""
    for deployment, by, at in routes.shared:
        router = _router(deployment.builder, at)
        if not deployment.builder.get((*router, "httproute", "rules")):
            deployment.builder.derive((*router, "httproute", "routedBy"), by, at)


def _router(builder: ServiceBuilder, at: SourceField) -> Location:
    for index, role in enumerate(builder.roles):
        if role.get("componentType") == "router":
            return ("spec", "roles", index)
    router = builder.add_role(at)
    builder.default((*router, "name"), "router", at)
    builder.default((*router, "componentType"), "router", at)
    builder.default((*router, "scorers"), dict(_SCORERS), at)
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
            for share, weight in zip(shares, _weights([each.part for each in shares]), strict=True)
        ]
    return rule


def _weights(parts: Sequence[Fraction]) -> list[int]:
    """The smallest whole numbers of the same ratio; as near as may be where they are too large."""
    scale = math.lcm(*(each.denominator for each in parts))
    whole = [int(each * scale) for each in parts]
    divisor = math.gcd(*whole)
    most = max(whole) // divisor
    if most <= _MOST:
        return [each // divisor for each in whole]
    return [max(1, round(Fraction(each, divisor) / most * _MOST)) for each in whole]


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
        found = [
            each
            for each in deployments
            if each.builder.main.namespace == document.namespace
            and wanted.items() <= each.labels.items()
        ]
        if not found:
            report.unsupported(
                "endpoints-not-found",
                at,
                "selects no ModelDeployment of this input; add its document, or lead to endpoints "
                "elsewhere by a route of your own",
            )
        fresh = [each for each in found if id(each) not in taken]
        for each in found:
            if each not in fresh:
                _again(report, taken[id(each)], each, cluster, at)
        weight = 1 if entry.weight is None else entry.weight
        among = sum(each.replicas for each in fresh)
        for each in fresh:
            taken[id(each)] = _Share(each, at, weight, among, cluster)
            yield taken[id(each)]


def _again(
    report: ConversionReport,
    first: _Share,
    deployment: Deployment,
    cluster: str | None,
    at: SourceField,
) -> None:
    name = deployment.builder.main.name
    if cluster == first.cluster:
        report.info(
            "target-repeated",
            at,
            f"leads to {name}, as an entry before it does, which counts; left out",
        )
        return
    report.unsupported(
        "deployment-in-two-clusters",
        at,
        f"leads to replicas of {name} in another cluster than an entry before it, and a service is "
        "in one cluster; apply it to both, and split requests in front of them",
    )
