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

from fusioninfer_pulumi.importers.backends import pool_backend
from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import At, Given, Path
from fusioninfer_pulumi.importers.metadata import carry_rest, left_labels, own_name
from fusioninfer_pulumi.importers.modelplane.clusters import choose, contradiction
from fusioninfer_pulumi.importers.modelplane.companions import ModelServiceSpec

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
        carrier: The service.
        labels: Labels of its endpoints, without those of one endpoint alone.
        replicas: How many endpoints it has.
    """

    carrier: Carrier
    labels: Mapping[str, Any]
    replicas: int


@dataclass
class _Share:
    """A deployment's part in the requests of a ModelService."""

    deployment: Deployment
    at: At
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

    shared: list[tuple[Deployment, str, At]] = field(default_factory=list)


def labels_of(document: Given, template: Mapping[str, Any] | None) -> dict[str, Any]:
    """The labels of a deployment's endpoints."""
    return {**(template or {}), _DEPLOYMENT: document.name}


def carry_service(
    book: Book,
    document: Given,
    spec: ModelServiceSpec,
    deployments: Sequence[Deployment],
    routes: Routes,
) -> None:
    """Carries a ModelService over: a rule of the service that gets the most requests.

    Args:
        book: The book of the documents.
        document: The ModelService.
        spec: Its spec.
        deployments: The deployments of the input.
        routes: Where services behind another one's route are noted.
    """
    book.read(document.at("apiVersion"), document.at("kind"))
    book.read(document.at("metadata", "name"), document.at("metadata", "namespace"))
    own_name(book, document)
    left_labels(book, document)
    carry_rest(book, document)
    shares = list(_shares(book, document, spec, deployments))
    if not shares:
        book.note(document.at("metadata", "name"), "is left out: it leads to no service")
        return
    if len(shares) == 1 and (shares[0].at / "weight").value is not None:
        book.note(shares[0].at / "weight", "there is one service, which gets every request")
    main = max(shares, key=lambda each: each.part)
    at = document.at("spec", "endpoints")
    carrier = main.deployment.carrier
    router = _router(carrier, at)
    rules = (*router, "httproute", "rules")
    target = (*rules, len(carrier.held(rules) or ()))
    carrier.derive(target, _rule(document, shares), document.at("metadata", "name"))
    carrier.origin((*target, "backendRefs"), at)
    carrier.imply((*router, "httproute", "parentRefs"), [_GATEWAY], at)
    book.note(
        at,
        "the route attaches to the Gateway inference-gateway of namespace modelplane-system, as "
        "Modelplane's routes in the clusters of its pods; name another in httproute.parentRefs",
    )
    for share in shares:
        _place(share)
    for share in shares:
        if share is main:
            continue
        routes.shared.append((share.deployment, str(carrier.main.name), share.at))
        other = contradiction(carrier, share.deployment.carrier)
        if other is not None:
            book.lost(
                share.at,
                f"{share.deployment.carrier.main.name} and {carrier.main.name} are not in one "
                f"cluster ({other}), and a route leads to pods of its own; give each a "
                "ModelService",
            )


def _place(share: _Share) -> None:
    if share.cluster is not None:
        place = share.at / "selector" / "matchLabels"
        choose(share.deployment.carrier, {_CLUSTER: share.cluster}, place)


def carry_shared(routes: Routes) -> None:
    """Says of services that have no rule of their own whose route leads to them."""
    for deployment, by, at in routes.shared:
        router = _router(deployment.carrier, at)
        if not deployment.carrier.held((*router, "httproute", "rules")):
            deployment.carrier.derive((*router, "httproute", "routedBy"), by, at)


def _router(carrier: Carrier, at: At) -> Path:
    for index, role in enumerate(carrier.roles):
        if role.get("componentType") == "router":
            return ("spec", "roles", index)
    router = carrier.role(at)
    carrier.imply((*router, "name"), "router", at)
    carrier.imply((*router, "componentType"), "router", at)
    carrier.imply((*router, "scorers"), dict(_SCORERS), at)
    return router


def _rule(document: Given, shares: Sequence[_Share]) -> dict[str, Any]:
    prefix = f"/{document.namespace}/{document.name}"
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
        "timeouts": {"request": "0s"},
    }
    if len(shares) > 1:
        rule["backendRefs"] = [
            {**pool_backend(share.deployment.carrier.main.name), "weight": weight}
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
    book: Book, document: Given, spec: ModelServiceSpec, deployments: Sequence[Deployment]
) -> Iterator[_Share]:
    taken: dict[int, _Share] = {}
    for index, entry in enumerate(spec.endpoints):
        at = document.at("spec", "endpoints", index)
        wanted = dict(entry.selector.match_labels)
        cluster = wanted.pop(_CLUSTER, None)
        book.read(at / "weight", at / "selector")
        found = [
            each
            for each in deployments
            if each.carrier.main.namespace == document.namespace
            and wanted.items() <= each.labels.items()
        ]
        if not found:
            book.lost(
                at,
                "selects no ModelDeployment of this input; add its document, or lead to endpoints "
                "elsewhere by a route of your own",
            )
        fresh = [each for each in found if id(each) not in taken]
        for each in found:
            if each not in fresh:
                _again(book, taken[id(each)], each, cluster, at)
        weight = 1 if entry.weight is None else entry.weight
        among = sum(each.replicas for each in fresh)
        for each in fresh:
            taken[id(each)] = _Share(each, at, weight, among, cluster)
            yield taken[id(each)]


def _again(book: Book, first: _Share, deployment: Deployment, cluster: str | None, at: At) -> None:
    name = deployment.carrier.main.name
    if cluster == first.cluster:
        book.note(at, f"leads to {name}, as an entry before it does, which counts; left out")
        return
    book.lost(
        at,
        f"leads to replicas of {name} in another cluster than an entry before it, and a service is "
        "in one cluster; apply it to both, and split requests in front of them",
    )
