"""Checks of derived names: too long, reserved, shared by two objects, or read by an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import SubdomainPolicy
from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import NAME_TOO_LONG, SET_BY_LIBRARY
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan, resolve_rollout

SERVICE_NAME_BREAKS_ENGINE = Rule("service-name-breaks-engine")

#: Role names that collide with the names of the router's objects.
RESERVED_ROLES = frozenset(
    name("").removeprefix("-")
    for name in (
        object_names.endpoint_picker,
        object_names.endpoint_picker_config,
        object_names.inference_pool,
        object_names.http_route,
        object_names.gateway,
    )
)

_AT = ("metadata", "name")


def name_findings(
    service: str, roles: Sequence[RolePlan], rollout: RolloutArgs
) -> Iterator[Finding]:
    """Yield an error for each role whose names are reserved or too long."""
    for role in roles:
        at = ("roles", role.position, "name")
        if role.name in RESERVED_ROLES:
            yield error(
                SET_BY_LIBRARY,
                at,
                f'"{role.name}" is taken by the router\'s objects; '
                f"not allowed: {', '.join(sorted(RESERVED_ROLES))}",
            )
        if not role.lws:
            continue
        longest = role.lws[-1].name
        limit = object_names.leader_worker_set_limit(
            role.nodes, count_groups(rollout, role, role.lws[-1])
        )
        if len(longest) > limit:
            yield error(
                NAME_TOO_LONG,
                at,
                f'the LeaderWorkerSet name "{longest}" has {len(longest)} characters, its pods '
                f"need at most {limit}; shorten the names of service {service} and role "
                f"{role.name} by {len(longest) - limit}",
            )


def count_groups(rollout: RolloutArgs, role: RolePlan, planned: LwsPlan) -> int:
    """Return the most groups that a LeaderWorkerSet may have, with those that an update adds."""
    scaled = role.args.autoscaling
    most = len(planned.replicas) if scaled is None else scaled.max_replicas
    return most + resolve_rollout(rollout, role).max_surge


def service_name_findings(
    service: str, roles: Sequence[RolePlan], *, picked: bool
) -> Iterator[Finding]:
    """Check the name of a service's Kubernetes Service.

    A `picked` one has an endpoint picker, and no Service of its own name.
    """
    entry = (
        object_names.endpoint_picker(service) if picked else object_names.serving_service(service)
    )
    # Every pod of the namespace has these variables, for each Service with an address.
    variable = f"{entry.upper().replace('-', '_')}_PORT"
    for role in roles:
        engine = role.pods.command.engine
        if engine is None or variable not in engine.port_variables:
            continue
        spec, variables = role.leader_template["spec"], role.pods.leader.container.get("env") or ()
        overridden = any(item.get("name") == variable for item in variables)
        if spec.get("enableServiceLinks") is not False and not overridden:
            yield error(
                SERVICE_NAME_BREAKS_ENGINE,
                _AT,
                f"for a Service named {entry}, pods get {variable}=tcp://..., and {engine.title} "
                "fails; rename the service, or set enableServiceLinks: false",
            )
            return


NAME_COLLISION = Rule("name-collision")

#: Kind that stands for all objects that have the service's own name.
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
        for kind, name, at, owner in _derived(plan):
            key, claimant = (_namespace(plan.namespace), kind, name), (self._services, owner)
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


def _namespace(namespace: Any) -> object:
    # The values of Outputs are unknown, so they are compared by identity.
    return id(namespace) if is_output(namespace) else namespace


def _derived(plan: ServicePlan) -> Iterator[tuple[str, str, Location, str]]:
    """Yield kind, name, field and owner of every object that exists because of a service."""
    here = f"service {plan.service}"
    yield _SERVICE, plan.service, _NAME, here
    if plan.shape.needs_gang and plan.groups is None:
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
            groups = range(count_groups(plan.rollout, role, lws))
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
