"""The status of a service from its live objects, and what an update still waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any, Literal, TypedDict

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.gang import gang_minima, required_replicas
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

Live = Mapping[str, Any]
Phase = Literal["Pending", "Deploying", "Running", "Failed", "Unknown"]

#: Failures that a message names; the others are counted.
_NAMED = 5
_ROUTING_CONDITIONS = ("Accepted", "Programmed", "ResolvedRefs")


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
    """Why its gang is not scheduled, otherwise how many replicas are ready."""

    components: dict[str, ComponentStatus]


class _Service(TypedDict):
    conditions: list[Condition]
    components: dict[str, ComponentStatus]


class ServiceStatus(_Service, total=False):
    """The state of a service, as of the last update or refresh."""

    groups: dict[str, GroupStatus]
    """The serving groups by index, only where the service has groups."""


def service_status(
    plan: ServicePlan,
    lws: Mapping[str, Live | None],
    pod_group: Live | None = None,
    failures: Mapping[str, str] | None = None,
    routing: Mapping[str, Live | None] | None = None,
) -> ServiceStatus:
    """Compute a service's status.

    Args:
        plan: The service.
        lws: Live LeaderWorkerSets (`metadata` and `status`) by name, and the PodGroups of serving
            groups; None or absent for one that does not exist or was not read.
        pod_group: The live PodGroup of a service without groups, None where there is none.
        failures: Why a LeaderWorkerSet failed, by name, where that is known.
        routing: Live Gateway, pool and route of a service with a router, by name, as `lws`.

    Returns:
        The status of every role and the conditions Initialized, Active and Failed.
    """
    failures = failures or {}
    groups = _groups(plan, lws, failures)
    if plan.shape.groups is None:
        blocked = explain_blocked_gang(pod_group)
    else:
        messages = (explain_blocked_gang(lws.get(gang.pod_group)) for gang in plan.gangs)
        blocked = next(filter(None, messages), None)
    components = {role.name: _component(role, lws, failures, blocked) for role in plan.roles}
    rejection = find_rejection(plan.routing, routing or {}) if plan.routing is not None else None
    if not plan.total_pods:
        initialized = ("True", "InferenceServiceProcessing", "all objects exist")
        active = ("False", "Parked", "every role is scaled to zero")
    elif not any(lws.get(planned.name) for role in plan.roles for planned in role.lws):
        initialized = active = ("Unknown", "InferenceServiceCreating", "no object was read")
    else:
        initialized = ("True", "InferenceServiceProcessing", "all objects exist")
        if groups:
            serves = any(group["active"] for group in groups.values())
        else:
            serves = _serves(plan, components)
        active = _active(components, blocked, rejection, serves=serves)
    status: ServiceStatus = {
        "conditions": [
            _condition("Initialized", *initialized),
            _condition("Active", *active),
            _condition("Failed", *_failed(plan, failures)),
        ],
        "components": components,
    }
    if groups:
        status["groups"] = groups
    return status


def observed(live: Live | None) -> Live:
    """Return the status of a LeaderWorkerSet, empty while it is about an older spec.

    Such a LeaderWorkerSet is about to restart its replicas, in spite of its conditions.
    """
    status: Live = (live or {}).get("status") or {}
    # LeaderWorkerSet writes the generation to both since 0.9.
    return {} if _is_old(live, {**status, **_condition_of(status, "Available")}) else status


def is_available(live: Live | None) -> bool:
    """Return whether the condition Available holds for the current spec."""
    return _condition_of(observed(live), "Available").get("status") == "True"


def is_ready(live: Live | None) -> bool:
    """Return whether a LeaderWorkerSet is Available with as many ready replicas as it asks for.

    Without its `spec` it counts as one of a single replica.
    """
    replicas = ((live or {}).get("spec") or {}).get("replicas")
    ready = int(observed(live).get("readyReplicas") or 0)
    return is_available(live) and ready >= (1 if replicas is None else int(replicas))


def ready_replicas(planned: LwsPlan, live: Live | None) -> int:
    """Ready replicas of a LeaderWorkerSet.

    Of one with a single replica, in the revision asked for; of one with several, in any: an update
    changes one after the other.
    """
    if planned.ordinal is not None:
        return int(is_ready(live))
    return int(observed(live).get("readyReplicas") or 0)


def explain_blocked_gang(pod_group: Live | None) -> str | None:
    """Explain why the scheduler holds the gang back, None when it does not."""
    native = _native_condition(pod_group or {})
    if native.get("status") == "False":
        return str(native.get("message"))
    status = (pod_group or {}).get("status") or {}
    # Volcano never takes Unschedulable back: the phase decides, not the condition's presence.
    if pod_group is None or status.get("phase") not in ("Pending", "Inqueue"):
        return None
    conditions = status.get("conditions") or ()
    unschedulable = [
        condition for condition in conditions if condition.get("type") == "Unschedulable"
    ]
    latest: Live = max(
        reversed(unschedulable),
        key=lambda condition: str(condition.get("lastTransitionTime")),
        default={},
    )
    return str(latest.get("message") or f"the PodGroup is {status['phase']}")


def explain_unplaced_gang(pod_group: Live) -> str | None:
    """Explain why a gang is not placed, None once it is.

    Kubernetes' own scheduler says so of the first time only. Volcano never takes its condition
    back: a running gang may lack single pods all the same.
    """
    running = (pod_group.get("status") or {}).get("phase") == "Running"
    if running or _native_condition(pod_group).get("status") == "True":
        return None
    return explain_blocked_gang(pod_group) or "the gang is not scheduled"


def _native_condition(pod_group: Live) -> Live:
    """Return the condition that Kubernetes' own scheduler sets; empty for Volcano's PodGroups."""
    return _condition_of(pod_group.get("status") or {}, "PodGroupInitiallyScheduled")


def find_rejection(router: Routing, objects: Mapping[str, Live | None]) -> tuple[str, str] | None:
    """Return reason and message of the first router object that a Gateway's controller rejects.

    Objects without a status and conditions of an older generation do not count as rejections.
    """
    pool = router.picker.pool if router.picker is not None and router.route else None
    for reason, kind, planned in (
        ("GatewayNotReady", "Gateway", router.gateway),
        ("RouteNotAccepted", "HTTPRoute", router.route),
        ("PoolNotAccepted", "InferencePool", pool),
    ):
        if planned is None:
            continue
        for parent, conditions in _routing_conditions(objects.get(planned.name) or {}):
            for condition in conditions.values():
                if condition.get("status") == "False":
                    at = f" by Gateway {parent['name']}" if parent.get("name") else ""
                    why = ": ".join(filter(None, map(condition.get, ("reason", "message"))))
                    text = f"{kind} {planned.name}: {condition['type']} is False{at}"
                    return reason, f"{text}, {why}" if why else text
    return None


def list_awaited_manifests(plan: ServicePlan, manifests: Sequence[Live]) -> list[Live]:
    """Return the objects that the service's `wait.level` waits for in addition to replicas."""
    kinds: tuple[str, ...] = ()
    if plan.wait.level is WaitLevel.SCHEDULED:
        kinds = ("PodGroup",)
    elif plan.wait.level is WaitLevel.SERVING and plan.routing is not None and plan.routing.route:
        kinds = ("Gateway", "InferencePool", "HTTPRoute")
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def find_unaccepted(
    plan: ServicePlan, manifests: Sequence[Live], live: Mapping[str, Live]
) -> str | None:
    """Return the first of these objects that is not accepted yet, and why; None when all are.

    A PodGroup that its gang is placed; a Gateway that it is accepted and programmed; a route and a
    pool that each Gateway of the route has accepted it and resolved its references. Only conditions
    of the current generation count.
    """
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        state = live.get(name) or {}
        if kind == "PodGroup":
            if problem := explain_unplaced_gang(state):
                return f"PodGroup {name}: {problem}"
            continue
        what, types = f"{kind} {name}", ("Accepted", "Programmed")
        wanted: list[dict[str, str]] = [{}]
        if kind != "Gateway" and plan.routing is not None:
            types = ("Accepted", "ResolvedRefs")
            wanted = [
                {"name": parent.name}
                | (
                    {"sectionName": parent.section}
                    if kind == "HTTPRoute" and parent.section
                    else {}
                )
                for parent in plan.routing.parents
            ]
        for reference in wanted:
            at = f"{what} at {reference['name']}" if reference else what
            found = (c for p, c in _routing_conditions(state) if reference.items() <= p.items())
            conditions = next(found, None)
            if conditions is None:
                return f"{what}: Gateway {reference['name']} has not reported a status"
            for condition_type in types:
                condition = conditions.get(condition_type) or {}
                if condition.get("status") == "False":
                    why = condition.get("message") or condition.get("reason") or "no reason given"
                    return f"{at}: not {condition_type}, {why}"
                if condition.get("status") != "True":
                    return f"{at}: {condition_type} is unknown"
    return None


def _routing_conditions(live: Live) -> Iterator[tuple[Live, dict[str, Live]]]:
    """Yield each Gateway that reports on an object, and its current conditions by type.

    The first ones, with an empty reference, are the object's own.
    """
    status = live.get("status") or {}
    for part in ({**status, "parentRef": None}, *(status.get("parents") or ())):
        yield (
            part.get("parentRef") or {},
            {
                condition["type"]: condition
                for condition in part.get("conditions") or ()
                if condition.get("type") in _ROUTING_CONDITIONS and not _is_old(live, condition)
            },
        )


def _is_old(live: Live | None, condition: Live) -> bool:
    """Return whether a condition, or a status, is about an older spec of a live object."""
    generation = ((live or {}).get("metadata") or {}).get("generation")
    about = condition.get("observedGeneration")
    return generation is not None and about is not None and int(about) < int(generation)


def _condition_of(status: Live, kind: str) -> Live:
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _groups(
    plan: ServicePlan,
    live: Mapping[str, Live | None],
    failures: Mapping[str, str],
) -> dict[str, GroupStatus]:
    gangs = {gang.group: gang.pod_group for gang in plan.gangs}
    groups: dict[str, GroupStatus] = {}
    for index in range(plan.shape.groups or 0):
        blocked = explain_blocked_gang(live.get(gangs[index])) if index in gangs else None
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


def _component(
    role: RolePlan,
    lws: Mapping[str, Live | None],
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


def _desired(role: RolePlan, live: list[Live | None]) -> int:
    """Replicas that there should be: as many as there are where an autoscaler sets them."""
    if role.scaled_externally and all(map(_has_status, live)):
        return sum(int((item or {})["status"].get("replicas") or 0) for item in live)
    return len(role.replicas)


def _phase(
    role: RolePlan,
    live: list[Live | None],
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


def _has_status(live: Live | None) -> bool:
    return bool(((live or {}).get("status") or {}).get("conditions"))


def _active(
    components: Mapping[str, ComponentStatus],
    blocked: str | None,
    rejection: tuple[str, str] | None,
    *,
    serves: bool,
) -> tuple[str, str, str]:
    counts = f"ready: {_counts(components)}"
    full = all(item["readyReplicas"] == item["desiredReplicas"] for item in components.values())
    if rejection is not None and (full or serves):
        return "False", *rejection
    if full:
        return "True", "InferenceServiceAvailable", counts
    if serves:
        return "True", "Partial", counts
    if blocked is not None:
        return "False", "GangNotScheduled", blocked
    return "False", "InferenceServiceProcessing", counts


def _counts(components: Mapping[str, ComponentStatus]) -> str:
    return ", ".join(
        f"{name} {item['readyReplicas']}/{item['desiredReplicas']}"
        for name, item in components.items()
    )


def _serves(plan: ServicePlan, components: Mapping[str, ComponentStatus]) -> bool:
    """Return whether each required role has a ready replica, in the service or in one group."""
    minima = gang_minima(plan.gang)
    needed = [
        role
        for role in plan.roles
        if role.replicas and (minima is None or required_replicas([role], minima)[role.name])
    ]
    serving = [role for role in needed or plan.roles if components[role.name]["readyReplicas"]]
    return bool(serving) and len(serving) >= len(needed)


def _failed(plan: ServicePlan, failures: Mapping[str, str]) -> tuple[str, str, str]:
    names = [planned.name for role in plan.roles for planned in role.lws]
    failed = [f"{name}: {failures[name]}" for name in names if name in failures]
    if not failed:
        return "False", "InferenceServiceProcessing", "no failure is known"
    more = f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return "True", "InferenceServiceFailed", "; ".join(failed[:_NAMED]) + more


def _condition(kind: Any, status: Any, reason: str, message: str) -> Condition:
    return {"type": kind, "status": status, "reason": reason, "message": message}
