"""What routes of several services have in common: Gateways, requests and pools."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from fusioninfer_pulumi.api.route import SplitArgs
from fusioninfer_pulumi.api.topology import ServiceShape
from fusioninfer_pulumi.checks.gateways import attachment_findings
from fusioninfer_pulumi.checks.route_rules import normalised_matches
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output, surely_equal
from fusioninfer_pulumi.routing.attachment import hosts_overlap
from fusioninfer_pulumi.routing.pool import pool_reference
from fusioninfer_pulumi.routing.route import RoutePlan, is_same_backend
from fusioninfer_pulumi.routing.router import RouterParts, RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan

ROUTED_BY_DIFFERS = Rule(
    "routed-by-differs",
    "warning",
    "A service whose requests come from another one's route and that service name each other.",
    remedy="Set `routedBy` and `split` as the message says.",
)
SERVICE_NOT_FOUND = Rule(
    "service-not-found",
    ("warning", "error"),
    "A service that gets a share is among the services, in the route's namespace, and has a pool.",
    remedy="Correct its name, or add the service.",
)

SPLIT_MODELS_DIFFER = Rule(
    "split-models-differ",
    "warning",
    "Services that share requests serve the same model names.",
    remedy="Give both the same names.",
)
ROUTES_CONFLICT = Rule(
    "routes-conflict",
    "warning",
    "Two services do not make routes for the same requests of one Gateway.",
    remedy="Give them different host names, paths or headers; for shares of one route set "
    "`routedBy`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
SPLIT_TARGET_SCALED_TO_ZERO = Rule(
    "split-target-scaled-to-zero",
    "error",
    "A service that gets a share of requests is scaled to zero.",
    remedy="Set its share to 0, or give it replicas.",
)


class RoutedService(Protocol):
    """The part of a service's plan that other services' routes depend on."""

    @property
    def service(self) -> str:
        """Name of the service."""

    @property
    def namespace(self) -> Any:
        """Its namespace; may be an Output."""

    @property
    def roles(self) -> Sequence[RolePlan]:
        """Roles that run pods."""

    @property
    def shape(self) -> ServiceShape:
        """What the service is, with its router roles."""

    @property
    def router(self) -> RouterPlan | None:
        """The router with its endpoint picker; None without one, or where none could be planned."""

    @property
    def routing(self) -> RouterParts | None:
        """The router, with or without an endpoint picker."""


class Gateways:
    """The Gateways of the services added so far, by namespace and name."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[object, str], tuple[Mapping[str, Any], ...]] = {}

    def add(self, plan: RoutedService) -> None:
        """Adds the Gateway of a service, if it has one."""
        if plan.routing is not None and plan.routing.gateway is not None:
            key = _key(plan.namespace, plan.routing.gateway.name)
            self._listeners[key] = plan.routing.gateway.listeners

    def findings(self, plan: RoutedService) -> list[Finding]:
        """One error for each of those Gateways that does not take the service's route."""
        router = plan.routing
        if router is None or router.route is None:
            return []
        parents = [
            replace(parent, listeners=known)
            for parent in router.parents
            if parent.listeners is None
            and (known := self._listeners.get(_key(parent.namespace, parent.name))) is not None
        ]
        return list(attachment_findings(plan.namespace, router.route.hostnames or (), parents))


def _key(namespace: Any, name: str) -> tuple[object, str]:
    return (id(namespace) if is_output(namespace) else namespace), name


#: Similarity from which a name is probably a slip for the other.
_ALIKE = 0.75


class Shares:
    """The services added so far, and whose route leads to whose pool."""

    def __init__(self, plans: Iterable[RoutedService] = ()) -> None:
        self._plans = list(plans)

    def add(self, plan: RoutedService) -> list[Finding]:
        """Adds a service while others may follow.

        Returns findings about it and each earlier service, where one names the other.
        """
        earlier = tuple(self._plans)
        self._plans.append(plan)
        findings = self.findings(plan, complete=False)
        for other in earlier:
            findings += [
                Finding(
                    finding.rule,
                    finding.severity,
                    (),
                    f"{finding.path} of service {other.service}: {finding.message}",
                )
                for finding in self.findings(other, complete=False, to=plan.service)
            ]
        return findings

    def findings(
        self, plan: RoutedService, *, complete: bool, to: str | None = None
    ) -> list[Finding]:
        """Checks a service's `split` and `routedBy` against the services that they name.

        With `complete` all services are known, and names of no service are findings, too. With `to`
        only references to the service of this name are checked.
        """
        router = plan.routing
        route = router.args.httproute if router is not None else None
        if router is None or route is None:
            return []
        at = ("roles", router.position, "httproute")
        findings: list[Finding] = []
        for index, share in enumerate(route.split or ()):
            if _splits(plan) and share.service != plan.service and to in (None, share.service):
                findings += self._split_findings(
                    (*at, "split", index, "service"), plan, share, complete=complete
                )
        by = route.routed_by
        if by is not None and by != plan.service and to in (None, by):
            findings += self._routed_by_findings((*at, "routedBy"), plan, by, complete=complete)
        return findings

    def removed_targets(self, plan: RoutedService, existing: Collection[str]) -> list[Finding]:
        """Returns warnings about shares of existing services that are none of these services."""
        router = plan.routing
        route = router.args.httproute if router is not None else None
        if router is None or route is None or not _splits(plan):
            return []
        return [
            warning(
                SERVICE_NOT_FOUND,
                ("roles", router.position, "httproute", "split", index, "service"),
                f"this update deletes {share.service}, which gets {share.weight} % of the "
                "requests; remove its share in the same update",
            )
            for index, share in enumerate(route.split or ())
            if share.weight
            and share.service in existing
            and self._neighbour(plan, share.service) is None
        ]

    def _split_findings(
        self, at: Location, plan: RoutedService, share: SplitArgs, *, complete: bool
    ) -> Iterator[Finding]:
        other = self._neighbour(plan, share.service)
        if other is None:
            if complete:
                yield from self._missing_findings(
                    at, plan, share.service, "its share of requests fails"
                )
        elif other.routing is not None and other.router is None:
            yield error(
                SERVICE_NOT_FOUND,
                at,
                f"{other.service} has no endpoint picker, so there is no InferencePool "
                f"{names.inference_pool(other.service)}; remove its endpointPicker.enabled: false, "
                f"or name Service {other.service} in backendRefs with a weight",
            )
        elif not other.shape.routers:
            say: Callable[[Rule, Location, str], Finding] = error if share.weight else warning
            yield say(
                SERVICE_NOT_FOUND,
                at,
                f"{other.service} has no router, so there is no InferencePool "
                f"{names.inference_pool(other.service)}: gateways answer its share with errors; "
                f"give it a role of componentType router with httproute: {_routed_by(plan)}",
            )
        elif other.router is not None:
            if share.weight and not any(role.replicas for role in other.router.served):
                yield error(
                    SPLIT_TARGET_SCALED_TO_ZERO,
                    at,
                    f"{other.service} gets {share.weight} % of the requests and is scaled to zero; "
                    "set its weight to 0, or give it replicas",
                )
            # A service that gets all requests may have the route, too: the other one ends.
            if share.weight < 100 or other.router.route is None:
                yield from self._own_route_findings(at, plan, other, other.router)
            served = _asked_models(other, other.router)
            public = None if plan.router is None else _public_models(plan, plan.router)
            lacking = sorted((public or set()) - (served or set()))
            if lacking and served is not None:
                yield warning(
                    SPLIT_MODELS_DIFFER,
                    at,
                    f"{other.service} serves {', '.join(sorted(served))}, not "
                    f"{', '.join(lacking)}: requests keep the name that they ask for, and those of "
                    "its share fail; give both the same names (model.name, or --served-model-name)",
                )

    def _own_route_findings(
        self, at: Location, plan: RoutedService, other: RoutedService, router: RouterPlan
    ) -> Iterator[Finding]:
        by, route = router.routed_by, router.route
        if by is not None:
            if by != plan.service and not any(
                neighbour.service == by and _leads_to(neighbour, other) for neighbour in self._plans
            ):
                yield warning(
                    ROUTED_BY_DIFFERS,
                    at,
                    f"{other.service} says routedBy: {by}, and this is {plan.service}",
                )
        elif router.external_routes:
            return  # whether those lead to its pool is not read
        elif route is None:
            yield warning(
                ROUTED_BY_DIFFERS,
                at,
                f"{other.service} does not say whose route leads to it; write {_routed_by(plan)}",
            )
        elif plan.routing is not None and _routes_conflict(plan.routing, router):
            yield warning(
                ROUTES_CONFLICT,
                at,
                f"{other.service} makes a route of its own for the same requests, {route.name}: "
                f"of two such routes the older one gets all of them; write {_routed_by(plan)} "
                "there",
            )

    def _routed_by_findings(
        self, at: Location, plan: RoutedService, by: str, *, complete: bool
    ) -> Iterator[Finding]:
        if any(_leads_to(neighbour, plan) and neighbour.service == by for neighbour in self._plans):
            return
        if any(_leads_to(neighbour, plan) and _splits(neighbour) for neighbour in self._plans):
            return  # a finding at the split of that one
        other = self._neighbour(plan, by)
        if other is None:
            if complete:
                yield from self._missing_findings(at, plan, by, "no request comes")
        elif not other.shape.routers:
            yield warning(
                ROUTED_BY_DIFFERS,
                at,
                f"{by} has no router, and so no route: no request comes",
            )
        elif other.routing is not None and other.routing.route is None:
            yield warning(ROUTED_BY_DIFFERS, at, f"{by} makes no route itself: no request comes")
        elif other.routing is not None:
            split = f"split: [{{service: {plan.service}, weight: 0}}], or more"
            backend = f"a rule with Service {plan.service} in its backendRefs"
            yield warning(
                ROUTED_BY_DIFFERS,
                at,
                f"the route of {by} does not lead here: no request comes; give it "
                f"{split if plan.router is not None else backend}",
            )

    def _neighbour(self, plan: RoutedService, name: str) -> RoutedService | None:
        """The service of that name in the same namespace, None where none is known to be there."""
        of_this_name = (neighbour for neighbour in self._plans if neighbour.service == name)
        return next(
            (
                neighbour
                for neighbour in of_this_name
                if surely_equal(neighbour.namespace, plan.namespace)
            ),
            None,
        )

    def _missing_findings(
        self, at: Location, plan: RoutedService, name: str, otherwise: str
    ) -> Iterator[Finding]:
        others = [other for other in self._plans if other is not plan]
        if not others:
            return  # a service checked alone, whose others are in other inputs
        if any(is_output(member.namespace) for member in (plan, *others)):
            return
        spaces = sorted({other.namespace for other in others if other.service == name})
        if spaces:
            yield warning(
                SERVICE_NOT_FOUND,
                at,
                f"{name} is in namespace {', '.join(spaces)}, and the name means one of this "
                f"service's namespace {plan.namespace}: {otherwise} unless there is one, too",
            )
            return
        known = sorted({other.service for other in others if other.namespace == plan.namespace})
        close = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield warning(
            SERVICE_NOT_FOUND,
            at,
            f"{name} is none of the services given: {otherwise} unless it is in namespace "
            f"{plan.namespace} already{hint}",
        )


def _routed_by(plan: RoutedService) -> str:
    return f"{{routedBy: {plan.service}}}"


def _splits(plan: RoutedService) -> bool:
    """Whether a service's `split` has an effect."""
    route = plan.routing.route if plan.routing is not None else None
    return route is not None and route.splits


def _leads_to(plan: RoutedService, other: RoutedService) -> bool:
    """Whether the route of one service leads to the pool or Service of another."""
    if plan is other or plan.routing is None or plan.routing.route is None:
        return False
    pool, route = names.inference_pool(other.service), plan.routing.route
    target = pool_reference(pool) if other.routing is None else other.routing.backend
    near = _splits(plan) and surely_equal(plan.namespace, other.namespace)
    if near and any(name == pool for name, _ in route.split):
        return True
    return any(
        is_same_backend(ref, target)
        and surely_equal(ref.get("namespace", plan.namespace), other.namespace)
        for rule in route.rules
        for ref in rule.backends
    )


def _served_models(plan: RoutedService, router: RouterPlan) -> set[str] | None:
    """The model names that a service's pool serves, None where they cannot be read."""
    served_names: set[str] = set()
    for role in plan.roles:
        if role.name in router.pool.roles:
            served = role.serving.command.served_names
            if served is None:
                return None
            served_names.update(served)
    return served_names


def _public_models(plan: RoutedService, router: RouterPlan) -> set[str] | None:
    """The model names that clients ask a service for, None where they cannot be read."""
    if router.rewrites is None:
        return _served_models(plan, router)
    return {name for rule in router.rewrites.rules for name in rule.models} or None


def _asked_models(plan: RoutedService, router: RouterPlan) -> set[str] | None:
    """The model names that a service answers for, None where they cannot be read."""
    served = _served_models(plan, router)
    rules = () if router.rewrites is None else router.rewrites.rules
    if served is None or not all(rule.models for rule in rules):
        return None
    return served.union(*(rule.models for rule in rules))


def _routes_conflict(one: RouterParts, other: RouterParts) -> bool:
    """Whether two routes have an equal rule, at one Gateway and for one host.

    The Gateway API gives such requests to the older route.
    """
    if one.route is None or other.route is None:
        return False
    return (
        share_gateway(one, other)
        and _share_host(one.route, other.route)
        and any(match in _matches(other.route) for match in _matches(one.route))
    )


def share_gateway(one: RouterParts, other: RouterParts) -> bool:
    """Whether two routes attach to one listener of a Gateway, as far as is known."""
    if all(router.route and router.route.use_default_gateways for router in (one, other)):
        return True
    return any(
        a.name == b.name
        and surely_equal(a.namespace, b.namespace)
        and (a.section == b.section or None in (a.section, b.section))
        and (a.port == b.port or None in (a.port, b.port))
        for a in one.parents
        for b in other.parents
    )


def _share_host(one: RoutePlan, other: RoutePlan) -> bool:
    if not one.hostnames or not other.hostnames:
        return True
    return any(hosts_overlap(a, b) for a in one.hostnames for b in other.hostnames)


def _matches(route: RoutePlan) -> list[Mapping[str, Any]]:
    return [match for rule in route.rules for match in normalised_matches(rule.matches)]


class Routes:
    """The routes of the services added so far."""

    def __init__(self) -> None:
        self._plans: list[RoutedService] = []

    def add(self, plan: RoutedService) -> list[Finding]:
        """Adds a service, and returns a warning for each earlier one whose requests it wants."""
        findings = [finding for other in self._plans for finding in _conflict_findings(plan, other)]
        self._plans.append(plan)
        return findings


def _conflict_findings(plan: RoutedService, other: RoutedService) -> Iterator[Finding]:
    router, theirs = plan.routing, other.routing
    if router is None or theirs is None or router.route is None or theirs.route is None:
        return
    # `Shares` checks requests that one of them routes to the other.
    if _splits_to(plan, other) or _splits_to(other, plan) or not share_gateway(router, theirs):
        return
    host = _shared_host(router.route, theirs.route)
    taken = _matches(theirs.route)
    if host is not None and any(match in taken for match in _matches(router.route)):
        yield warning(
            ROUTES_CONFLICT,
            ("roles", router.position, "httproute"),
            f"takes the same requests for {host} as service {other.service} at one Gateway, and "
            "the older route gets them all; give it another host name, path or header",
        )


def _splits_to(plan: RoutedService, other: RoutedService) -> bool:
    route = plan.routing.args.httproute if plan.routing is not None else None
    shares = (route.split if route is not None else None) or ()
    return any(share.service == other.service for share in shares)


def _shared_host(one: RoutePlan, other: RoutePlan) -> str | None:
    """A host that both routes name, None for none: of two the more exact one gets its requests."""
    if not one.hostnames and not other.hostnames:
        return "any host"
    theirs = [host for host in other.hostnames or () if not is_output(host)]
    return next(
        (host for host in one.hostnames or () if not is_output(host) and host in theirs), None
    )
