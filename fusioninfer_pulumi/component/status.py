"""A service's status, computed from live LeaderWorkerSets, PodGroups and routing objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Literal, TypedDict

from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.router import Routing
from fusioninfer_pulumi.topology.gang import minima_of, required_replicas
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan

Phase = Literal["Pending", "Deploying", "Running", "Failed", "Unknown"]

#: Failures that a message names; the others are counted.
_NAMED = 5


class Condition(TypedDict):
    """One statement about the service as a whole."""

    type: Literal["Initialized", "Active", "Failed"]
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class ComponentStatus(TypedDict):
    """The state of one role."""

    desiredReplicas: int
    readyReplicas: int
    nodesPerReplica: int
    totalPods: int
    readyPods: int
    phase: Phase


class GroupStatus(TypedDict):
    """The state of one serving group: a copy of the whole topology."""

    active: bool
    """Whether it can serve: a replica of each role that it needs is ready."""

    message: str
    """Why its gang is held back, else how many replicas are ready."""

    components: dict[str, ComponentStatus]


class _Service(TypedDict):
    conditions: list[Condition]
    components: dict[str, ComponentStatus]


class ServiceStatus(_Service, total=False):
    """The state of a service, as of the last update or refresh."""

    groups: dict[str, GroupStatus]
    """The serving groups by index, only where the service has groups."""


@dataclass(frozen=True)
class Refusal:
    """An object that a gateway's controller refuses: condition reason and message."""

    reason: str
    message: str


def service_status(
    plan: ServicePlan,
    lws: Mapping[str, Mapping[str, Any] | None],
    pod_group: Mapping[str, Any] | None = None,
    failures: Mapping[str, str] | None = None,
    routing: Mapping[str, Mapping[str, Any] | None] | None = None,
) -> ServiceStatus:
    """Computes a service's status.

    Args:
        plan: The service.
        lws: Live LeaderWorkerSets (`metadata` and `status`) by name, and the PodGroups of serving
            groups; None or absent for one that does not exist or was not read.
        pod_group: The live PodGroup of a service without groups, None where there is none.
        failures: Why a LeaderWorkerSet failed, by name, where that is known.
        routing: Live Gateway, pool and route of a service with a router, by name, as `sets`.

    Returns:
        The status of every role and the conditions Initialized, Active and Failed.
    """
    failures = failures or {}
    groups = _groups(plan, lws, failures)
    blocked = gang_blocked(pod_group) if plan.groups is None else _first_blocked(plan, lws)
    components = {role.name: _component(role, lws, failures, blocked) for role in plan.roles}
    refused = refusal(plan.routing, routing or {}) if plan.routing is not None else None
    known = any(lws.get(planned.name) for role in plan.roles for planned in role.lws)
    if groups:
        serves = any(group["active"] for group in groups.values())
    else:
        serves = _serves(plan, components)
    status: ServiceStatus = {
        "conditions": [
            _initialized(plan, known=known),
            _active(plan, components, blocked, refused, known=known, serves=serves),
            _failed(plan, failures),
        ],
        "components": components,
    }
    if groups:
        status["groups"] = groups
    return status


def observed(live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The status of a LeaderWorkerSet, empty while it speaks of an older spec.

    Such a LeaderWorkerSet is about to restart its replicas, in spite of its conditions.
    """
    status: Mapping[str, Any] = (live or {}).get("status") or {}
    generation = ((live or {}).get("metadata") or {}).get("generation")
    # The generation that it speaks of: LeaderWorkerSet writes both since 0.9.
    about = _available(status).get("observedGeneration", status.get("observedGeneration"))
    if generation is not None and about is not None and int(about) < int(generation):
        return {}
    return status


def is_available(live: Mapping[str, Any] | None) -> bool:
    """Whether the condition Available holds for the current spec."""
    return _available(observed(live)).get("status") == "True"


def is_ready(live: Mapping[str, Any] | None) -> bool:
    """Whether a LeaderWorkerSet is Available with as many ready replicas as it asks for.

    Without its `spec` it counts as one of a single replica.
    """
    replicas = ((live or {}).get("spec") or {}).get("replicas")
    ready = int(observed(live).get("readyReplicas") or 0)
    return is_available(live) and ready >= (1 if replicas is None else int(replicas))


def ready_replicas(planned: LwsPlan, live: Mapping[str, Any] | None) -> int:
    """Ready replicas of a LeaderWorkerSet.

    Of one with a single replica, in the revision asked for; of one with several, in any: an update
    changes one after the other.
    """
    if planned.ordinal is not None:
        return int(is_ready(live))
    return int(observed(live).get("readyReplicas") or 0)


def refusal(router: Routing, objects: Mapping[str, Mapping[str, Any] | None]) -> Refusal | None:
    """The first of a router's objects that a gateway's controller refuses, None without one.

    Objects without a status, and conditions of an older generation, are no refusal.
    """
    pool = router.picker.pool if router.picker is not None and router.route else None
    named = [
        ("GatewayNotReady", "Gateway", router.gateway),
        ("RouteNotAccepted", "HTTPRoute", router.route),
        ("PoolNotAccepted", "InferencePool", pool),
    ]
    for reason, kind, planned in named:
        live = objects.get(planned.name) if planned is not None else None
        for parent, condition in _refused(live or {}):
            at = f" by Gateway {parent}" if parent else ""
            message = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
            return Refusal(
                reason,
                f"{kind} {planned.name if planned else ''}: {condition['type']} is False{at}"
                + (f", {message}" if message else ""),
            )
    return None


def _available(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    return conditions.get("Available") or {}


def _groups(
    plan: ServicePlan,
    live: Mapping[str, Mapping[str, Any] | None],
    failures: Mapping[str, str],
) -> dict[str, GroupStatus]:
    gangs = {gang.group: gang.pod_group for gang in plan.gangs}
    groups: dict[str, GroupStatus] = {}
    for index in range(plan.groups or 0):
        blocked = gang_blocked(live.get(gangs[index])) if index in gangs else None
        components = {}
        for role in plan.roles:
            part = replace(
                role, lws=tuple(planned for planned in role.lws if planned.group == index)
            )
            components[role.name] = _component(part, live, failures, blocked)
        active = _serves(plan, components)
        message = f"ready: {_counts(components)}" if active or blocked is None else blocked
        groups[str(index)] = {"active": active, "message": message, "components": components}
    return groups


def _first_blocked(plan: ServicePlan, live: Mapping[str, Mapping[str, Any] | None]) -> str | None:
    messages = (gang_blocked(live.get(gang.pod_group)) for gang in plan.gangs)
    return next((message for message in messages if message is not None), None)


def _component(
    role: RolePlan,
    lws: Mapping[str, Mapping[str, Any] | None],
    failures: Mapping[str, str],
    blocked: str | None,
) -> ComponentStatus:
    live = [lws.get(planned.name) for planned in role.lws]
    ready = sum(starmap(ready_replicas, zip(role.lws, live, strict=True)))
    desired = _desired(role, live)
    # An update may start more of them for a time.
    ready = min(ready, desired)
    return {
        "desiredReplicas": desired,
        "readyReplicas": ready,
        "nodesPerReplica": role.nodes,
        "totalPods": desired * role.nodes,
        "readyPods": ready * role.nodes,
        "phase": _phase(role, live, (ready, desired), failures, blocked),
    }


def _desired(role: RolePlan, live: list[Mapping[str, Any] | None]) -> int:
    """Replicas that there should be: as many as there are where an autoscaler sets them."""
    if role.scaled_externally and all(map(_has_status, live)):
        return sum(int((item or {})["status"].get("replicas") or 0) for item in live)
    return len(role.replicas)


def _phase(
    role: RolePlan,
    live: list[Mapping[str, Any] | None],
    counts: tuple[int, int],
    failures: Mapping[str, str],
    blocked: str | None,
) -> Phase:
    ready, desired = counts
    if any(planned.name in failures for planned in role.lws):
        return "Failed"
    if ready == desired and all(map(is_available, live)):
        return "Running"
    if not any(live):
        return "Unknown"
    if not any(_has_status(item) for item in live) or (ready == 0 and blocked is not None):
        return "Pending"
    return "Deploying"


def _has_status(live: Mapping[str, Any] | None) -> bool:
    return bool(((live or {}).get("status") or {}).get("conditions"))


def gang_blocked(pod_group: Mapping[str, Any] | None) -> str | None:
    """Why the scheduler holds the gang back, None when it does not."""
    native = native_condition(pod_group or {})
    if native.get("status") == "False":
        return str(native.get("message"))
    status = (pod_group or {}).get("status") or {}
    # Volcano never takes Unschedulable back: the phase decides, not the condition's presence.
    if pod_group is None or status.get("phase") not in ("Pending", "Inqueue"):
        return None
    conditions = status.get("conditions") or ()
    refused = [condition for condition in conditions if condition.get("type") == "Unschedulable"]
    latest: Mapping[str, Any] = max(
        reversed(refused),
        key=lambda condition: str(condition.get("lastTransitionTime")),
        default={},
    )
    return str(latest.get("message") or f"the PodGroup is {status['phase']}")


def gang_placed(pod_group: Mapping[str, Any]) -> bool:
    """Whether the gang is placed; Kubernetes' own scheduler says so of the first time only."""
    running = (pod_group.get("status") or {}).get("phase") == "Running"
    return running or native_condition(pod_group).get("status") == "True"


def native_condition(pod_group: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Kubernetes' own scheduler says of a PodGroup; empty for one of Volcano."""
    conditions = (pod_group.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == "PodGroupInitiallyScheduled"), {})


def _initialized(plan: ServicePlan, *, known: bool) -> Condition:
    if known or not plan.total_pods:
        return _condition("Initialized", "True", "InferenceServiceProcessing", "all objects exist")
    return _condition("Initialized", "Unknown", "InferenceServiceCreating", "no object was read")


def _active(
    plan: ServicePlan,
    components: Mapping[str, ComponentStatus],
    blocked: str | None,
    refused: Refusal | None,
    *,
    known: bool,
    serves: bool,
) -> Condition:
    if not plan.total_pods:
        return _condition("Active", "False", "Parked", "every role is parked")
    if not known:
        return _condition("Active", "Unknown", "InferenceServiceCreating", "no object was read")
    counts = _counts(components)
    full = all(item["readyReplicas"] == item["desiredReplicas"] for item in components.values())
    if refused is not None and (full or serves):
        return _condition("Active", "False", refused.reason, refused.message)
    if full:
        return _condition("Active", "True", "InferenceServiceAvailable", f"ready: {counts}")
    if serves:
        return _condition("Active", "True", "Partial", f"ready: {counts}")
    if blocked is not None:
        return _condition("Active", "False", "GangNotScheduled", blocked)
    return _condition("Active", "False", "InferenceServiceProcessing", f"ready: {counts}")


def _counts(components: Mapping[str, ComponentStatus]) -> str:
    return ", ".join(
        f"{name} {item['readyReplicas']}/{item['desiredReplicas']}"
        for name, item in components.items()
    )


def _serves(plan: ServicePlan, components: Mapping[str, ComponentStatus]) -> bool:
    """Whether a replica of each role that is needed is ready, of the service or of one group."""
    needed = [role for role in plan.roles if role.replicas and not _is_optional(plan, role)]
    serving = [role for role in needed or plan.roles if components[role.name]["readyReplicas"]]
    return bool(serving) and len(serving) >= len(needed)


def _is_optional(plan: ServicePlan, role: RolePlan) -> bool:
    minima = minima_of(plan.gang)
    return minima is not None and required_replicas([role], minima)[role.name] == 0


def _failed(plan: ServicePlan, failures: Mapping[str, str]) -> Condition:
    names = [planned.name for role in plan.roles for planned in role.lws]
    failed = [f"{name}: {failures[name]}" for name in names if name in failures]
    if failed:
        message = "; ".join(failed[:_NAMED])
        if len(failed) > _NAMED:
            message += f"; and {len(failed) - _NAMED} more"
        return _condition("Failed", "True", "InferenceServiceFailed", message)
    return _condition("Failed", "False", "InferenceServiceProcessing", "no failure is known")


def _condition(
    kind: Literal["Initialized", "Active", "Failed"],
    status: Literal["True", "False", "Unknown"],
    reason: str,
    message: str,
) -> Condition:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _refused(live: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Gateway (empty for the object's own conditions) and condition of each refusal."""
    generation = (live.get("metadata") or {}).get("generation")
    status = live.get("status") or {}
    groups = [("", status.get("conditions") or ())]
    for parent in status.get("parents") or ():
        name = str((parent.get("parentRef") or {}).get("name") or "")
        groups.append((name, parent.get("conditions") or ()))
    for name, conditions in groups:
        for condition in conditions:
            if condition.get("type") not in ("Accepted", "Programmed", "ResolvedRefs"):
                continue
            observed = condition.get("observedGeneration")
            old = generation and observed is not None and int(observed) < int(generation)
            if condition.get("status") == "False" and not old:
                yield name, condition
