"""Computes the status of a service from its live objects, and what an update still waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.gang import get_gang_minima, get_required_replicas
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

#: A live object, or a part of it.
Live = Mapping[str, Any]
Phase = Literal["Pending", "Deploying", "Running", "Failed", "Unknown"]

#: Maximum number of failures in a message, which only counts the others.
_MAX_FAILURES = 5


class Condition(TypedDict):
    """A condition of the whole service."""

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
    """The state of one serving group."""

    active: bool
    """Whether the group can serve: each required role has a ready replica."""

    message: str
    """Why the gang is not scheduled, or how many replicas are ready."""

    components: dict[str, ComponentStatus]


class _RequiredFields(TypedDict):
    conditions: list[Condition]
    components: dict[str, ComponentStatus]


class ServiceStatus(_RequiredFields, total=False):
    """The state of a service, as of the last update or refresh."""

    groups: dict[str, GroupStatus]
    """The serving groups by index, only if the service has groups."""


def compute_status(
    plan: ServicePlan, live: Mapping[str, Live | None], failures: Mapping[str, str] | None = None
) -> ServiceStatus:
    """Compute a service's status.

    Args:
        plan: The service.
        live: `metadata` and `status` of the service's LeaderWorkerSets, PodGroups, Gateway, pool
            and route, by name; None or missing if an object does not exist or was not read.
        failures: Why LeaderWorkerSets failed, by name, if known.

    Returns:
        The status of every role and the conditions Initialized, Active and Failed.
    """
    failures = failures or {}
    groups = _compute_group_statuses(plan, live, failures)
    messages = (explain_blocked_gang(live.get(gang.pod_group)) for gang in plan.gangs)
    blocked = next(filter(None, messages), None)
    components = {
        role.name: _compute_role_status(role, live, failures, blocked) for role in plan.roles
    }
    initialized = ("True", "InferenceServiceProcessing", "all objects exist")
    if not plan.total_pods:
        active = ("False", "Parked", "every role is scaled to zero")
    elif not any(live.get(lws.name) for role in plan.roles for lws in role.lws):
        initialized = active = ("Unknown", "InferenceServiceCreating", "no object was read")
    else:
        if groups:
            is_serving = any(group["active"] for group in groups.values())
        else:
            is_serving = _can_serve(plan, components)
        rejection = find_rejection(plan, live)
        active = _decide_active(components, blocked, rejection, is_serving=is_serving)
    status: ServiceStatus = {
        "conditions": [
            _make_condition("Initialized", *initialized),
            _make_condition("Active", *active),
            _make_condition("Failed", *_decide_failed(plan, failures)),
        ],
        "components": components,
    }
    if groups:
        status["groups"] = groups
    return status


def get_current_status(live: Live | None) -> Live:
    """Return the status of a LeaderWorkerSet, or empty if it is the status of an older spec.

    Replicas may still have to restart for the current spec, even if the older conditions are true.
    """
    status: Live = (live or {}).get("status") or {}
    # `observedGeneration` of the condition, if it is set, takes precedence over that of the status.
    merged = {**status, **find_condition(status, "Available")}
    return {} if _is_outdated(live, merged) else status


def is_available(live: Live | None) -> bool:
    """Return whether the condition Available is true for the current spec."""
    return find_condition(get_current_status(live), "Available").get("status") == "True"


def is_ready(live: Live | None) -> bool:
    """Return whether a LeaderWorkerSet is Available with all replicas of its spec ready.

    If `spec.replicas` is missing, one replica is required.
    """
    replicas = ((live or {}).get("spec") or {}).get("replicas")
    ready = int(get_current_status(live).get("readyReplicas") or 0)
    return is_available(live) and ready >= (1 if replicas is None else int(replicas))


def count_ready_replicas(lws_plan: LwsPlan, live: Live | None) -> int:
    """Count the ready replicas of a LeaderWorkerSet.

    If each replica has its own LeaderWorkerSet (`ordinal` is set), its pods must have the object's
    current spec. In a shared LeaderWorkerSet, which restarts replicas gradually, replicas with an
    older spec count too, unless the whole status is outdated.
    """
    if lws_plan.ordinal is not None:
        return int(is_ready(live))
    return int(get_current_status(live).get("readyReplicas") or 0)


def explain_blocked_gang(pod_group: Live | None) -> str | None:
    """Return why a gang is pending, or None if it is not."""
    native = _find_native_condition(pod_group or {})
    if native.get("status") == "False":
        return str(native.get("message"))
    status = (pod_group or {}).get("status") or {}
    # Volcano never removes the condition Unschedulable, so the phase decides.
    if pod_group is None or status.get("phase") not in ("Pending", "Inqueue"):
        return None
    condition = find_condition(status, "Unschedulable")
    return str(condition.get("message") or f"the PodGroup is {status['phase']}")


def explain_unscheduled_gang(pod_group: Live) -> str | None:
    """Return why a gang has not been scheduled yet, or None if it has.

    Unlike `explain_blocked_gang`, return a text even if no reason is known yet, and None once the
    gang has been scheduled, even if single pods are pending.
    """
    is_running = (pod_group.get("status") or {}).get("phase") == "Running"
    if is_running or _find_native_condition(pod_group).get("status") == "True":
        return None
    return explain_blocked_gang(pod_group) or "the gang is not scheduled"


def _find_native_condition(pod_group: Live) -> Live:
    """Return the condition of a Kubernetes PodGroup; Volcano's PodGroups do not have it."""
    return find_condition(pod_group.get("status") or {}, "PodGroupInitiallyScheduled")


def find_rejection(plan: ServicePlan, live: Mapping[str, Live | None]) -> tuple[str, str] | None:
    """Return a reason and message for the first of Gateway, route and pool that is rejected.

    A missing status or a condition of an older generation is not a rejection.
    """
    routing = plan.routing
    if routing is None:
        return None
    pool = routing.picker.pool if routing.picker is not None and routing.route else None
    for reason, kind, object_plan in (
        ("GatewayNotReady", "Gateway", routing.gateway),
        ("RouteNotAccepted", "HTTPRoute", routing.route),
        ("PoolNotAccepted", "InferencePool", pool),
    ):
        if object_plan is not None:
            name = object_plan.name
            for is_rejected, message in _explain_unaccepted(
                routing, kind, name, live.get(name) or {}
            ):
                if is_rejected:
                    return reason, message
    return None


def list_awaited_manifests(plan: ServicePlan, manifests: Sequence[Live]) -> list[Live]:
    """Return the objects that the update waits for after the replicas (`wait.level`)."""
    kinds: tuple[str, ...] = ()
    if plan.wait.level is WaitLevel.SCHEDULED:
        kinds = ("PodGroup",)
    elif plan.wait.level is WaitLevel.SERVING and plan.routing is not None and plan.routing.route:
        kinds = ("Gateway", "InferencePool", "HTTPRoute")
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def find_unaccepted(
    plan: ServicePlan, manifests: Sequence[Live], live: Mapping[str, Live]
) -> str | None:
    """Return a message about the first object that is not accepted yet, or None if all are.

    A PodGroup is accepted if its gang is scheduled, a Gateway if it is Accepted and Programmed, a
    route or pool if it is Accepted with ResolvedRefs at each Gateway of the route.
    """
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        state = live.get(name) or {}
        if kind == "PodGroup":
            if problem := explain_unscheduled_gang(state):
                return f"PodGroup {name}: {problem}"
            continue
        assert plan.routing is not None, "only services with a router wait for these kinds"
        for _, message in _explain_unaccepted(plan.routing, kind, name, state):
            return message
    return None


def _explain_unaccepted(
    routing: Routing, kind: str, name: str, live: Live
) -> Iterator[tuple[bool, str]]:
    """Yield why a Gateway, route or pool is not accepted: whether it was rejected, and a message.

    Conditions of older generations count as unknown.
    """
    status = live.get("status") or {}
    if kind == "Gateway":
        yield from _explain_conditions(f"{kind} {name}", ("Accepted", "Programmed"), status, live)
        return
    for parent in routing.parents:
        parent_ref = {"name": parent.name}
        if kind == "HTTPRoute" and parent.section:
            parent_ref["sectionName"] = parent.section
        reports = (
            report
            for report in status.get("parents") or ()
            if parent_ref.items() <= (report.get("parentRef") or {}).items()
        )
        report = next(reports, None)
        if report is None:
            yield False, f"{kind} {name}: Gateway {parent.name} has not reported a status"
        else:
            subject, types = f"{kind} {name} at {parent.name}", ("Accepted", "ResolvedRefs")
            yield from _explain_conditions(subject, types, report, live)


def _explain_conditions(
    subject: str, types: Iterable[str], report: Live, live: Live
) -> Iterator[tuple[bool, str]]:
    for condition_type in types:
        condition = find_condition(report, condition_type)
        state = None if _is_outdated(live, condition) else condition.get("status")
        if state == "False":
            reason = ": ".join(filter(None, map(condition.get, ("reason", "message"))))
            yield True, f"{subject}: not {condition_type}, {reason or 'no reason given'}"
        elif state != "True":
            yield False, f"{subject}: {condition_type} is unknown"


def _is_outdated(live: Live | None, condition: Live) -> bool:
    """Return whether a condition or status is about an older spec of a live object."""
    generation = ((live or {}).get("metadata") or {}).get("generation")
    observed = condition.get("observedGeneration")
    return generation is not None and observed is not None and int(observed) < int(generation)


def find_condition(status: Live, condition_type: str) -> Live:
    """Return the condition of a type in a status, or empty if there is none."""
    conditions = status.get("conditions") or ()
    return next((item for item in conditions if item.get("type") == condition_type), {})


def _compute_group_statuses(
    plan: ServicePlan, live: Mapping[str, Live | None], failures: Mapping[str, str]
) -> dict[str, GroupStatus]:
    gangs = {gang.group: gang.pod_group for gang in plan.gangs}
    groups: dict[str, GroupStatus] = {}
    for index in range(plan.shape.groups or 0):
        blocked = explain_blocked_gang(live.get(gangs[index])) if index in gangs else None
        components = {}
        for role in plan.roles:
            group_role = replace(role, lws=tuple(lws for lws in role.lws if lws.group == index))
            components[role.name] = _compute_role_status(group_role, live, failures, blocked)
        active = _can_serve(plan, components)
        message = f"ready: {_format_counts(components)}" if active or blocked is None else blocked
        groups[str(index)] = {"active": active, "message": message, "components": components}
    return groups


def _compute_role_status(
    role: RolePlan,
    live: Mapping[str, Live | None],
    failures: Mapping[str, str],
    blocked: str | None,
) -> ComponentStatus:
    live_lws = [live.get(lws_plan.name) for lws_plan in role.lws]
    desired = len(role.replicas)
    if role.is_autoscaled and all(map(_has_status, live_lws)):
        desired = sum(int((lws or {})["status"].get("replicas") or 0) for lws in live_lws)
    # During an update, surge replicas may be ready in addition to the desired ones.
    ready = min(sum(map(count_ready_replicas, role.lws, live_lws)), desired)
    return {
        "desiredReplicas": desired,
        "readyReplicas": ready,
        "nodesPerReplica": role.nodes,
        "totalPods": desired * role.nodes,
        "readyPods": ready * role.nodes,
        "phase": _compute_phase(role, live_lws, (ready, desired), failures, blocked),
    }


def _compute_phase(
    role: RolePlan,
    live_lws: list[Live | None],
    counts: tuple[int, int],
    failures: Mapping[str, str],
    blocked: str | None,
) -> Phase:
    ready, desired = counts
    if any(lws_plan.name in failures for lws_plan in role.lws):
        return "Failed"
    if ready == desired and all(map(is_available, live_lws)):
        return "Running"
    if not any(live_lws):
        return "Unknown"
    if not any(map(_has_status, live_lws)) or (ready == 0 and blocked is not None):
        return "Pending"
    return "Deploying"


def _has_status(live: Live | None) -> bool:
    return bool(((live or {}).get("status") or {}).get("conditions"))


def _decide_active(
    components: Mapping[str, ComponentStatus],
    blocked: str | None,
    rejection: tuple[str, str] | None,
    *,
    is_serving: bool,
) -> tuple[str, str, str]:
    counts = f"ready: {_format_counts(components)}"
    all_ready = all(c["readyReplicas"] == c["desiredReplicas"] for c in components.values())
    if rejection is not None and (all_ready or is_serving):
        return "False", *rejection
    if all_ready:
        return "True", "InferenceServiceAvailable", counts
    if is_serving:
        return "True", "Partial", counts
    if blocked is not None:
        return "False", "GangNotScheduled", blocked
    return "False", "InferenceServiceProcessing", counts


def _format_counts(components: Mapping[str, ComponentStatus]) -> str:
    return ", ".join(
        f"{name} {item['readyReplicas']}/{item['desiredReplicas']}"
        for name, item in components.items()
    )


def _can_serve(plan: ServicePlan, components: Mapping[str, ComponentStatus]) -> bool:
    """Return whether each required role has a ready replica, in the service or in one group."""
    minima = get_required_replicas(plan.roles, get_gang_minima(plan.gang))
    required = {role.name for role in plan.roles if role.replicas and minima[role.name]}
    ready = {name for name, status in components.items() if status["readyReplicas"]}
    return bool(ready) and required <= ready


def _decide_failed(plan: ServicePlan, failures: Mapping[str, str]) -> tuple[str, str, str]:
    names = [lws_plan.name for role in plan.roles for lws_plan in role.lws]
    failed = [f"{name}: {failures[name]}" for name in names if name in failures]
    if not failed:
        return "False", "InferenceServiceProcessing", "no failure is known"
    omitted = f"; and {len(failed) - _MAX_FAILURES} more" if len(failed) > _MAX_FAILURES else ""
    return "True", "InferenceServiceFailed", "; ".join(failed[:_MAX_FAILURES]) + omitted


def _make_condition(condition_type: Any, status: Any, reason: str, message: str) -> Condition:
    return {"type": condition_type, "status": status, "reason": reason, "message": message}
