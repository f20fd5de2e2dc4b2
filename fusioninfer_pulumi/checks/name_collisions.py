"""Names of objects that two services, or two roles of one service, would share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.role import SubdomainPolicy
from fusioninfer_pulumi.checks.names import groups_of
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role import RolePlan

NAME_COLLISION = Rule(
    "name-collision",
    "error",
    "Two objects do not have one kind, namespace and name.",
    remedy="Rename a service or role.",
)

#: Kind that stands for all objects that have the service's own name.
_SERVICE = "InferenceService"
_NAME = ("metadata", "name")


class Owners:
    """The owner of each object name; grows by one service at a time."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, str, str], tuple[int, str]] = {}
        self._services = 0

    def add(self, plan: ServicePlan) -> list[Finding]:
        """Adds a service, and returns one error for each earlier owner that it collides with."""
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
    """Yields kind, name, field and owner of every object that exists because of a service."""
    here = f"service {plan.service}"
    yield _SERVICE, plan.service, _NAME, here
    if plan.shape.needs_gang and plan.groups is None:
        yield "PodGroup", names.pod_group(plan.service), _NAME, here
    for gang in plan.gangs:
        if gang.group is not None:
            yield "PodGroup", gang.pod_group, ("groups",), f"group {gang.group} of {here}"
    yield "Service", names.serving_service(plan.service), _NAME, here
    if plan.shape.routers and plan.service_route is None:
        yield "Service", names.endpoint_picker(plan.service), _NAME, here
    guarded = plan.routing is not None and plan.routing.network_policy is not None
    if guarded and plan.service_route is None:
        yield "NetworkPolicy", names.epp_network_policy(plan.service), _NAME, here
    yield from _operations(plan)
    for role in plan.roles:
        at, owner = ("roles", role.position, "name"), f"role {role.name} of {here}"
        if guarded:
            policy = names.role_network_policy(plan.service, role.name)
            yield "NetworkPolicy", policy, at, owner
        for lws in role.lws:
            yield "LeaderWorkerSet", lws.name, at, owner
            yield "StatefulSet", lws.name, at, owner
            groups = range(groups_of(plan.rollout, role, lws))
            for name in _headless_services(role, lws.name, groups):
                yield "Service", name, at, owner
            if role.nodes > 1:
                for group in groups:
                    yield "StatefulSet", names.leader_pod(lws.name, group), at, owner


def _operations(plan: ServicePlan) -> Iterator[tuple[str, str, Location, str]]:
    monitoring = plan.operations.monitoring
    objects = [
        ("PodDisruptionBudget", budget.name, budget.role) for budget in plan.operations.budgets
    ]
    if monitoring is not None:
        objects += [("PodMonitor", monitor.name, monitor.role) for monitor in monitoring.engines]
    objects += [(scaler.kind, scaler.name, scaler.role) for scaler in plan.operations.autoscalers]
    positions = {role.name: role.position for role in plan.roles}
    for kind, name, role in objects:
        at = ("roles", positions[role], "name")
        yield kind, name, at, f"role {role} of service {plan.service}"


def _headless_services(role: RolePlan, lws_name: str, groups: range) -> Iterator[str]:
    network = role.args.network_config
    if network and network.subdomain_policy is SubdomainPolicy.UNIQUE_PER_REPLICA:
        yield from (names.leader_pod(lws_name, group) for group in groups)
    else:
        yield lws_name
