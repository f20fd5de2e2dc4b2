"""Checks of the services of one cluster against each other: names, routes, pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import SubdomainPolicy
from fusioninfer_pulumi.findings import Finding, Location, Rule, closest_name, error, warning
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.http_route import RoutePlan
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

SERVICE_NOT_FOUND = Rule("service-not-found")
ROUTES_CONFLICT = Rule("routes-conflict")


def check_targets(
    plan: ServicePlan, plans: Sequence[ServicePlan], *, complete: bool
) -> Iterator[Finding]:
    """Check that services in `split` have a pool, and that the service in `routedBy` has a route.

    `complete`: whether `plans` are all services; if not, missing services are not reported.
    """
    routing = plan.routing
    route = routing.router.httproute if routing is not None else None
    if routing is None or route is None:
        return
    location = (*routing.location, "httproute")
    split_effect = "its share of requests fails"
    for index, share in enumerate(route.split or ()):
        share_location = (*location, "split", index, "service")
        other = _find_service(plan, plans, share.service)
        if other is None and complete:
            yield from _report_missing_service(
                share_location, plan, plans, share.service, split_effect
            )
        elif other is not None and other.picker is None:
            remedy = "give it a role of componentType router with an endpoint picker"
            make_finding = error if share.weight else warning
            message = (
                f"{other.service} has no InferencePool "
                f"{object_names.inference_pool(other.service)}: {split_effect}; {remedy}"
            )
            yield make_finding(SERVICE_NOT_FOUND, share_location, message)
    routed_by = route.routed_by
    if routed_by is None or routed_by == plan.service:
        return
    other = _find_service(plan, plans, routed_by)
    routed_by_effect = "this service receives no requests"
    if other is None and complete:
        yield from _report_missing_service(
            (*location, "routedBy"), plan, plans, routed_by, routed_by_effect
        )
    elif other is not None and (other.routing is None or other.routing.route is None):
        message = f"{routed_by} has no route: {routed_by_effect}"
        yield warning(SERVICE_NOT_FOUND, (*location, "routedBy"), message)


def _find_service(plan: ServicePlan, plans: Sequence[ServicePlan], name: str) -> ServicePlan | None:
    """Return the service of that name in the namespace of `plan`, or None if there is none."""
    return next(
        (
            other
            for other in plans
            if other.service == name and is_known_equal(other.namespace, plan.namespace)
        ),
        None,
    )


def _report_missing_service(
    location: Location, plan: ServicePlan, plans: Sequence[ServicePlan], name: str, effect: str
) -> Iterator[Finding]:
    others = [other for other in plans if other is not plan]
    # The only service of an input may refer to services of other inputs. Unknown namespaces may be
    # equal.
    if not others or any(is_output(member.namespace) for member in (plan, *others)):
        return
    known_names = {other.service for other in others if other.namespace == plan.namespace}
    closest = closest_name(name, known_names, cutoff=0.75)
    hint = f"; did you mean {closest}?" if closest else ""
    message = (
        f"the input has no service {name} in namespace {plan.namespace}: {effect} unless the "
        f"cluster has one{hint}"
    )
    yield warning(SERVICE_NOT_FOUND, location, message)


def _list_matches(route: RoutePlan) -> list[Mapping[str, Any]]:
    """Return the matches of a route, with the Gateway API's default path."""
    all_paths = {"path": {"type": "PathPrefix", "value": "/"}}
    return [
        {**all_paths, **match}
        for rule in route.rules
        for match in rule.spec.get("matches") or [all_paths]
    ]


class ClusterServices:
    """The services of one cluster, added one at a time."""

    def __init__(self) -> None:
        self._plans: list[ServicePlan] = []
        # Owner of each object, by the object's namespace, kind and name. An owner is the number of
        # its service, from 1, and a text such as `role decode of service chat`.
        self._owners: dict[tuple[object, str, str], tuple[int, str]] = {}

    def add_and_find_collisions(self, plan: ServicePlan) -> list[Finding]:
        """Add a service; return findings about names and routes that earlier services also use."""
        conflicts = [
            finding for other in self._plans for finding in _check_route_conflict(plan, other)
        ]
        self._plans.append(plan)
        return [*self._claim_names(plan), *conflicts]

    def add_and_check(self, plan: ServicePlan) -> list[Finding]:
        """Add a service; return findings about collisions and targets among earlier services."""
        return [
            *self.add_and_find_collisions(plan),
            *check_targets(plan, self._plans, complete=False),
        ]

    def _claim_names(self, plan: ServicePlan) -> list[Finding]:
        """Record the names of a service's objects; return errors about names with another owner."""
        findings: list[Finding] = []
        reported: set[tuple[object, ...]] = set()
        # The value of an Output is unknown, so it equals only the same Output.
        namespace = id(plan.namespace) if is_output(plan.namespace) else plan.namespace
        for kind, name, location, owner_text in _list_object_names(plan):
            owner = len(self._plans), owner_text
            first_owner = self._owners.setdefault((namespace, kind, name), owner)
            if first_owner != owner and (first_owner, owner) not in reported:
                reported.add((first_owner, owner))
                if kind == _SERVICE:
                    # Errors about the services' other objects would only repeat this one.
                    message = f'another service in this namespace has the name "{name}"; rename one'
                    return [error(NAME_COLLISION, location, message)]
                _, first_text = first_owner
                message = f'{kind} "{name}" would also belong to {first_text}; rename one of them'
                findings.append(error(NAME_COLLISION, location, message))
        return findings


def _check_route_conflict(plan: ServicePlan, other: ServicePlan) -> Iterator[Finding]:
    routing, other_routing = plan.routing, other.routing
    if (
        routing is None
        or routing.route is None
        or other_routing is None
        or other_routing.route is None
    ):
        return
    route, other_route = routing.route, other_routing.route
    use_defaults = route.use_default_gateways and other_route.use_default_gateways
    # A parent without a section or a port stands for all listeners of its Gateway.
    share_gateway = use_defaults or any(
        first.name == second.name
        and is_known_equal(first.namespace, second.namespace)
        and (first.section == second.section or None in (first.section, second.section))
        and (first.port == second.port or None in (first.port, second.port))
        for first in routing.parents
        for second in other_routing.parents
    )
    if not share_gateway or _has_full_split(plan, other) or _has_full_split(other, plan):
        return
    host, matches = _find_shared_host(route, other_route), _list_matches(other_route)
    if host is not None and any(match in matches for match in _list_matches(route)):
        message = (
            f'matches the same requests for {host} as service "{other.service}" at the same '
            "Gateway, and the older route receives all of them; use a different host name, path "
            "or header, or routedBy for a share of them"
        )
        yield warning(ROUTES_CONFLICT, (*routing.location, "httproute"), message)


def _has_full_split(plan: ServicePlan, other: ServicePlan) -> bool:
    """Return whether a route leads only to the service `other`, whose route it may then overlap."""
    route = plan.routing.router.httproute if plan.routing is not None else None
    if route is None:
        return False
    shares = route.split or ()
    return any(share.service == other.service and share.weight == 100 for share in shares)


def _find_shared_host(route: RoutePlan, other: RoutePlan) -> str | None:
    """Return a host name for which neither route is more specific, or None if there is none."""
    if not route.hostnames and not other.hostnames:
        return "any host"
    hosts = [host for host in route.hostnames or () if not is_output(host)]
    other_hosts = [host for host in other.hostnames or () if not is_output(host)]
    return next((host for host in hosts if host in other_hosts), None)


NAME_COLLISION = Rule("name-collision")

#: Kind that represents all objects with the service's name.
_SERVICE = "InferenceService"
_NAME = ("metadata", "name")


def _list_object_names(plan: ServicePlan) -> Iterator[tuple[str, str, Location, str]]:
    """Yield kind, name, field and owner of each object that a service or its controllers create."""
    service = f"service {plan.service}"
    yield _SERVICE, plan.service, _NAME, service
    if plan.shape.needs_gang and plan.shape.groups is None:
        yield "PodGroup", object_names.pod_group(plan.service), _NAME, service
    for gang in plan.gangs:
        if gang.group is not None:
            yield "PodGroup", gang.pod_group, ("groups",), f"group {gang.group} of {service}"
    yield "Service", object_names.serving_service(plan.service), _NAME, service
    if plan.shape.has_endpoint_picker:
        yield "Service", object_names.endpoint_picker(plan.service), _NAME, service
    for role in plan.roles:
        location, owner = ("roles", role.position, "name"), f"role {role.name} of {service}"
        # The role's NetworkPolicy, PodDisruptionBudget, PodMonitor and autoscaler share this name.
        role_object_name = object_names.role_network_policy(plan.service, role.name)
        yield "Objects named", role_object_name, location, owner
        for lws in role.lws:
            yield "LeaderWorkerSet", lws.name, location, owner
            yield "StatefulSet", lws.name, location, owner
            indexes = range(count_max_replicas(role, lws))
            leader_pods = [object_names.leader_pod(lws.name, index) for index in indexes]
            network = role.args.network_config
            is_unique = network and network.subdomain_policy is SubdomainPolicy.UNIQUE_PER_REPLICA
            # LeaderWorkerSet creates a headless Service, or with UniquePerReplica one per replica.
            for name in leader_pods if is_unique else [lws.name]:
                yield "Service", name, location, owner
            # The workers of each replica are a StatefulSet with the name of the leader pod.
            for name in leader_pods if role.nodes > 1 else []:
                yield "StatefulSet", name, location, owner


def count_max_replicas(role: RolePlan, lws_plan: LwsPlan) -> int:
    """Return the maximum number of replicas of a LeaderWorkerSet, with autoscaling and surge."""
    autoscaling = role.args.autoscaling
    replicas = len(lws_plan.replicas) if autoscaling is None else autoscaling.max_replicas
    return replicas + role.rollout.max_surge
