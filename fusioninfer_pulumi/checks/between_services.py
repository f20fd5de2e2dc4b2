"""Checks of the services of one cluster against each other: names, routes, pools."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import SubdomainPolicy
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.http_route import RoutePlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

SERVICE_NOT_FOUND = Rule("service-not-found")
ROUTES_CONFLICT = Rule("routes-conflict")
SPLIT_TARGET_SCALED_TO_ZERO = Rule("split-target-scaled-to-zero")


#: Similarity from which a name is probably misspelt.
_ALIKE = 0.75


def check_targets(
    plan: ServicePlan, plans: Sequence[ServicePlan], *, complete: bool
) -> Iterator[Finding]:
    """Check that the services in a service's `split` and `routedBy` exist and have a pool.

    With `complete`, `plans` are all services, and a name of none of them is a finding.
    """
    router = plan.routing
    route = router.args.httproute if router is not None else None
    if router is None or route is None:
        return
    at = ("roles", router.position, "httproute")
    fails = "its share of requests fails"
    for index, share in enumerate(route.split or ()):
        place = (*at, "split", index, "service")
        other = _find_service(plan, plans, share.service)
        if other is None:
            if complete:
                yield from _missing_findings(place, plan, plans, share.service, fails)
        elif other.picker is None:
            remedy = "give it a role of componentType router with an endpoint picker"
            make_finding = error if share.weight else warning
            yield make_finding(
                SERVICE_NOT_FOUND,
                place,
                f"{other.service} has no InferencePool "
                f"{object_names.inference_pool(other.service)}: {fails}; {remedy}",
            )
        elif (
            share.weight
            and other.routing is not None
            and not any(role.replicas for role in other.routing.served)
        ):
            yield error(
                SPLIT_TARGET_SCALED_TO_ZERO,
                place,
                f"{other.service} gets {share.weight} % of the requests and is scaled to zero; "
                "set its weight to 0, or give it replicas",
            )
    by = route.routed_by
    if by is None or by == plan.service:
        return
    other = _find_service(plan, plans, by)
    if other is None and complete:
        yield from _missing_findings((*at, "routedBy"), plan, plans, by, "no request comes")
    elif other is not None and (other.routing is None or other.routing.route is None):
        message = f"{by} has no route: no request comes"
        yield warning(SERVICE_NOT_FOUND, (*at, "routedBy"), message)


def _find_service(plan: ServicePlan, plans: Sequence[ServicePlan], name: str) -> ServicePlan | None:
    """Return the service of that name in the same namespace, None if none is known."""
    return next(
        (
            other
            for other in plans
            if other.service == name and is_known_equal(other.namespace, plan.namespace)
        ),
        None,
    )


def _missing_findings(
    at: Location, plan: ServicePlan, plans: Sequence[ServicePlan], name: str, otherwise: str
) -> Iterator[Finding]:
    others = [other for other in plans if other is not plan]
    # A service checked alone may name services of other inputs.
    if not others or any(is_output(member.namespace) for member in (plan, *others)):
        return
    known = sorted({other.service for other in others if other.namespace == plan.namespace})
    close = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
    hint = f"; did you mean {close[0]}?" if close else ""
    yield warning(
        SERVICE_NOT_FOUND,
        at,
        f"no service {name} in namespace {plan.namespace} here: {otherwise} unless it exists in "
        f"the cluster{hint}",
    )


def share_gateway(one: Routing, other: Routing) -> bool:
    """Whether two routes are known to attach to one listener of a Gateway."""
    if all(router.route and router.route.use_default_gateways for router in (one, other)):
        return True
    return any(
        a.name == b.name
        and is_known_equal(a.namespace, b.namespace)
        and (a.section == b.section or None in (a.section, b.section))
        and (a.port == b.port or None in (a.port, b.port))
        for a in one.parents
        for b in other.parents
    )


def _matches(route: RoutePlan) -> list[Mapping[str, Any]]:
    """Return the matches of a route, with the Gateway API's default path."""
    everything = {"path": {"type": "PathPrefix", "value": "/"}}
    return [{**everything, **match} for rule in route.rules for match in rule.matches]


class Cluster:
    """The services of one cluster, added one at a time."""

    def __init__(self) -> None:
        self._owners = NameOwners()
        self._plans: list[ServicePlan] = []

    def shared(self, plan: ServicePlan) -> list[Finding]:
        """Add a service; return findings about names and routes that it shares."""
        conflicts = [
            finding for other in self._plans for finding in _conflict_findings(plan, other)
        ]
        self._plans.append(plan)
        return [*self._owners.add(plan), *conflicts]

    def add(self, plan: ServicePlan) -> list[Finding]:
        """Add a service, and check its targets among earlier services."""
        return [*self.shared(plan), *check_targets(plan, self._plans, complete=False)]


def _conflict_findings(plan: ServicePlan, other: ServicePlan) -> Iterator[Finding]:
    router, other_routing = plan.routing, other.routing
    if (
        router is None
        or other_routing is None
        or router.route is None
        or other_routing.route is None
    ):
        return
    if (
        _gives_all_requests(plan, other)
        or _gives_all_requests(other, plan)
        or not share_gateway(router, other_routing)
    ):
        return
    host = _shared_host(router.route, other_routing.route)
    taken = _matches(other_routing.route)
    if host is not None and any(match in taken for match in _matches(router.route)):
        yield warning(
            ROUTES_CONFLICT,
            ("roles", router.position, "httproute"),
            f"matches the same requests for {host} as service {other.service} at one Gateway, and "
            "the older route receives them all; use another host name, path or header, or "
            "routedBy for a share of them",
        )


def _gives_all_requests(plan: ServicePlan, other: ServicePlan) -> bool:
    """Whether a service gives all requests to another one, whose route takes over."""
    route = plan.routing.args.httproute if plan.routing is not None else None
    shares = (route.split if route is not None else None) or ()
    return any(share.service == other.service and share.weight == 100 for share in shares)


def _shared_host(one: RoutePlan, other: RoutePlan) -> str | None:
    """Return a host that both routes name, None for none: a more specific host wins."""
    if not one.hostnames and not other.hostnames:
        return "any host"
    other_hosts = [host for host in other.hostnames or () if not is_output(host)]
    return next(
        (host for host in one.hostnames or () if not is_output(host) and host in other_hosts),
        None,
    )


NAME_COLLISION = Rule("name-collision")

#: Kind that represents all objects with the service's name.
_SERVICE = "InferenceService"
_NAME = ("metadata", "name")


class NameOwners:
    """The owner of each object name; grows by one service at a time."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, str, str], tuple[int, str]] = {}
        self._services = 0

    def add(self, plan: ServicePlan) -> list[Finding]:
        """Add a service, and return one error for each earlier owner that it collides with."""
        self._services += 1
        findings: list[Finding] = []
        reported: set[tuple[object, ...]] = set()
        # The values of Outputs are unknown, so they are compared by identity.
        namespace = id(plan.namespace) if is_output(plan.namespace) else plan.namespace
        for kind, name, at, owner in _derived(plan):
            key, claimant = (namespace, kind, name), (self._services, owner)
            first = self._names.setdefault(key, claimant)
            if first != claimant and (first, owner) not in reported:
                reported.add((first, owner))
                findings.append(error(NAME_COLLISION, at, _text(kind, name, first[1])))
                if kind == _SERVICE:
                    # All collisions of roles follow from two services of one name.
                    return findings
        return findings


def _text(kind: str, name: str, owner: str) -> str:
    if kind == _SERVICE:
        return f'"{name}" is also the name of another service in this namespace'
    return f'{kind} "{name}" would also belong to {owner}; rename one of them'


def _derived(plan: ServicePlan) -> Iterator[tuple[str, str, Location, str]]:
    """Yield kind, name, field and owner of every object that exists because of a service."""
    here = f"service {plan.service}"
    yield _SERVICE, plan.service, _NAME, here
    if plan.shape.needs_gang and plan.shape.groups is None:
        yield "PodGroup", object_names.pod_group(plan.service), _NAME, here
    for gang in plan.gangs:
        if gang.group is not None:
            yield "PodGroup", gang.pod_group, ("groups",), f"group {gang.group} of {here}"
    yield "Service", object_names.serving_service(plan.service), _NAME, here
    if plan.shape.picks_endpoints:
        yield "Service", object_names.endpoint_picker(plan.service), _NAME, here
    guarded = plan.routing is not None and plan.routing.network_policy is not None
    if guarded and plan.shape.picks_endpoints:
        yield "NetworkPolicy", object_names.epp_network_policy(plan.service), _NAME, here
    yield from _operations(plan)
    for role in plan.roles:
        at, owner = ("roles", role.position, "name"), f"role {role.name} of {here}"
        if guarded:
            policy = object_names.role_network_policy(plan.service, role.name)
            yield "NetworkPolicy", policy, at, owner
        for lws in role.lws:
            yield "LeaderWorkerSet", lws.name, at, owner
            yield "StatefulSet", lws.name, at, owner
            groups = range(count_groups(role, lws))
            for name in _headless_services(role, lws.name, groups):
                yield "Service", name, at, owner
            if role.nodes > 1:
                for group in groups:
                    yield "StatefulSet", object_names.leader_pod(lws.name, group), at, owner


def _operations(plan: ServicePlan) -> Iterator[tuple[str, str, Location, str]]:
    monitoring = plan.operations.monitoring
    named = [
        ("PodDisruptionBudget", object_names.disruption_budget, budget.role)
        for budget in plan.operations.budgets
    ]
    if monitoring is not None:
        monitor = object_names.engine_monitor
        named += [("PodMonitor", monitor, role) for role in monitoring.engines]
    objects = [(kind, name(plan.service, role.name), role) for kind, name, role in named]
    objects += [(scaler.kind, scaler.name, scaler.role) for scaler in plan.operations.autoscalers]
    for kind, text, role in objects:
        at = ("roles", role.position, "name")
        yield kind, text, at, f"role {role.name} of service {plan.service}"


def _headless_services(role: RolePlan, lws_name: str, groups: range) -> Iterator[str]:
    network = role.args.network_config
    if network and network.subdomain_policy is SubdomainPolicy.UNIQUE_PER_REPLICA:
        yield from (object_names.leader_pod(lws_name, group) for group in groups)
    else:
        yield lws_name


def count_groups(role: RolePlan, planned: LwsPlan) -> int:
    """Return the most groups that a LeaderWorkerSet may have, with those that an update adds."""
    scaled = role.args.autoscaling
    replicas = len(planned.replicas) if scaled is None else scaled.max_replicas
    return replicas + role.rollout.max_surge
