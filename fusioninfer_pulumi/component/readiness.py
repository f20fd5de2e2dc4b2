"""Conditions of a service in KServe's terms (LLMInferenceService), from live objects.

They stand beside `status`, whose conditions are those of FusionInfer's InferenceService. The types,
and what they sum up, are those of KServe (`llm_inference_service_lifecycle.go`, v0.20.0): a part
that a service does not have has no condition. What KServe reads of objects that are not the
service's own, such as referenced Gateways, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from fusioninfer_pulumi.api.autoscaling import AutoscalingEngine
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.component.status import ready_replicas
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.router import RouterParts, RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan

LiveObject = Mapping[str, Any]
ConditionStatus = Literal["True", "False", "Unknown"]


#: Kinds that an update waits for.
AWAITED = ("LeaderWorkerSet", "Gateway", "HTTPRoute", "InferencePool")


class Readiness(TypedDict):
    """One statement about a part of the service, or about all of it."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


def object_key(kind: str, name: str) -> str:
    """Key of a live object: LeaderWorkerSets and autoscalers share names."""
    return f"{kind}/{name}"


def read_keys(plan: ServicePlan) -> list[str]:
    """Keys of the objects that readiness is read from."""
    keys = [object_key("LeaderWorkerSet", lws.name) for role in plan.roles for lws in role.lws]
    keys += [
        object_key(_autoscaler_kind(autoscaler.args.engine), autoscaler.name)
        for autoscaler in plan.operations.autoscalers
    ]
    if plan.router is not None:
        keys.append(object_key("Deployment", plan.router.epp.name))
    if plan.routing is not None:
        keys += [object_key(kind, name) for kind, name, _ in _routing_objects(plan.routing)]
    return keys


def _routing_objects(router: RouterParts) -> Iterator[tuple[str, str, str]]:
    """Kind, name and condition type of the objects that gateways judge."""
    if router.gateway is not None:
        yield "Gateway", router.gateway.name, "GatewaysReady"
    if router.route is not None:
        yield "HTTPRoute", router.route.name, "HTTPRoutesReady"
        if isinstance(router, RouterPlan):
            yield "InferencePool", router.pool.name, "InferencePoolReady"


def readiness(plan: ServicePlan, live: Mapping[str, LiveObject | None]) -> list[Readiness]:
    """Conditions of KServe's status model: `Ready`, then its parts, each before its own parts.

    `live` has objects (`metadata` and `status`) by `object_key`; None or absent for one that does
    not exist or was not read.
    """
    workloads = [*_workloads(plan, live), *_scaling(plan, live)]
    if plan.router is not None:
        workloads.append(_picker(plan.router, live))
    parts = [
        _condition("PresetsCombined", "True", "Combined", "manifests are whole when they are read"),
        _summary("WorkloadsReady", workloads),
    ]
    routing = list(_routing(plan.routing, live)) if plan.routing is not None else []
    shown = [*parts, *workloads]
    if routing:
        parts.append(_summary("RouterReady", routing))
        shown += [parts[-1], *routing]
    return [_summary("Ready", parts), *shown]


def _workloads(plan: ServicePlan, live: Mapping[str, LiveObject | None]) -> list[Readiness]:
    """A condition for single pods and one for replicas of several nodes; prefill has its own."""
    named: dict[str, list[RolePlan]] = {}
    for role in plan.roles:
        prefill = "Prefill" if role.component_type is ComponentType.PREFILLER else ""
        main = "" if prefill else "Main"
        kind = f"{prefill}Worker" if role.nodes > 1 else f"{prefill}{main}"
        named.setdefault(f"{kind}WorkloadReady", []).append(role)
    return [_roles(name, roles, live) for name, roles in named.items()]


def _roles(
    name: str, roles: Sequence[RolePlan], live: Mapping[str, LiveObject | None]
) -> Readiness:
    counts, missing, unread = [], False, False
    for role in roles:
        states = [
            (planned, live.get(object_key("LeaderWorkerSet", planned.name))) for planned in role.lws
        ]
        ready = sum(ready_replicas(planned, state) for planned, state in states)
        wanted = sum(
            _wanted(state, len(planned.replicas), scaled=role.scaled_externally)
            for planned, state in states
        )
        missing = missing or ready < wanted
        unread = unread or any(not _status(state) for _, state in states)
        counts.append(f"{role.name} {ready}/{wanted}")
    counts_text = ", ".join(counts)
    if missing and unread:
        return _condition(name, "Unknown", "NotRead", counts_text)
    if missing:
        return _condition(name, "False", "ReplicasNotReady", counts_text)
    return _condition(name, "True", "ReplicasReady", counts_text)


def _wanted(state: LiveObject | None, planned: int, *, scaled: bool) -> int:
    """Replicas that there should be: with an autoscaler, as many as the LeaderWorkerSet has."""
    replicas = _status(state).get("replicas")
    return int(replicas) if scaled and replicas is not None else planned


def _scaling(plan: ServicePlan, live: Mapping[str, LiveObject | None]) -> Iterator[Readiness]:
    kinds = {role.name: role.component_type for role in plan.roles}
    for prefill in (False, True):
        statuses = []
        for autoscaler in plan.operations.autoscalers:
            if (kinds[autoscaler.role] is ComponentType.PREFILLER) != prefill:
                continue
            kind = _autoscaler_kind(autoscaler.args.engine)
            types = ("Ready",) if kind == "ScaledObject" else ("AbleToScale", "ScalingActive")
            state = live.get(object_key(kind, autoscaler.name))
            statuses += condition_statuses(state, types, f"{kind} {autoscaler.name}")
        if statuses:
            yield _from_statuses("PrefillScalingReady" if prefill else "ScalingReady", statuses)


def _picker(router: RouterPlan, live: Mapping[str, LiveObject | None]) -> Readiness:
    name = router.epp.name
    state = live.get(object_key("Deployment", name))
    if router.epp.replicas > 1 and int(_status(state).get("readyReplicas") or 0) >= 1:
        # Those that stand by are never ready, so the Deployment is never Available.
        return _condition("SchedulerWorkloadReady", "True", "LeaderReady", f"{name} has a leader")
    return _from_statuses(
        "SchedulerWorkloadReady", condition_statuses(state, ("Available",), f"Deployment {name}")
    )


def _routing(router: RouterParts, live: Mapping[str, LiveObject | None]) -> Iterator[Readiness]:
    for kind, name, label in _routing_objects(router):
        state = live.get(object_key(kind, name))
        if kind == "Gateway":
            types = ("Accepted", "Programmed")
            yield _from_statuses(label, condition_statuses(state, types, f"Gateway {name}"))
            continue
        statuses: list[tuple[ConditionStatus, str]] = []
        for parent in _status(state).get("parents") or ():
            whose = (parent.get("parentRef") or {}).get("name") or ""
            at_gateway = {"metadata": (state or {}).get("metadata"), "status": parent}
            at = f"{kind} {name} at {whose}"
            statuses += condition_statuses(at_gateway, ("Accepted", "ResolvedRefs"), at)
        yield _from_statuses(label, statuses or [("Unknown", f"{kind} {name}: no condition yet")])


def condition_statuses(
    state: LiveObject | None, types: Sequence[str], what: str
) -> list[tuple[ConditionStatus, str]]:
    """What an object's conditions of these types say; Unknown for one about an older spec."""
    generation = ((state or {}).get("metadata") or {}).get("generation")
    conditions = {entry.get("type"): entry for entry in _status(state).get("conditions") or ()}
    statuses: list[tuple[ConditionStatus, str]] = []
    for condition_type in types:
        condition = conditions.get(condition_type)
        observed = (condition or {}).get("observedGeneration")
        old = generation is not None and observed is not None and int(observed) < int(generation)
        if condition is None or old or condition.get("status") not in ("True", "False"):
            statuses.append(("Unknown", f"{what}: {condition_type} is not known"))
        elif condition["status"] == "True":
            statuses.append(("True", f"{what}: {condition_type}"))
        else:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            statuses.append(("False", f"{what}: not {condition_type}, {why}"))
    return statuses


def _from_statuses(name: str, statuses: Sequence[tuple[ConditionStatus, str]]) -> Readiness:
    for wanted, reason in (("False", "NotReady"), ("Unknown", "NotRead")):
        for status, message in statuses:
            if status == wanted:
                return _condition(name, status, reason, message)
    return _condition(name, "True", "Ready", ", ".join(message for _, message in statuses))


def _summary(name: str, parts: Sequence[Readiness]) -> Readiness:
    """Sums up conditions: the first that is False, else the first Unknown, else True."""
    for wanted in ("False", "Unknown"):
        for part in parts:
            if part["status"] == wanted:
                return _condition(name, part["status"], part["type"], part["message"])
    return _condition(name, "True", "Ready", "")


def _autoscaler_kind(engine: AutoscalingEngine) -> str:
    return "ScaledObject" if engine is AutoscalingEngine.KEDA else "HorizontalPodAutoscaler"


def _status(state: LiveObject | None) -> Mapping[str, Any]:
    return (state or {}).get("status") or {}


def _condition(name: str, status: ConditionStatus, reason: str, message: str) -> Readiness:
    return {"type": name, "status": status, "reason": reason, "message": message}
