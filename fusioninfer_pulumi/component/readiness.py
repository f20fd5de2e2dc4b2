"""What is ready of a service, in the words of KServe's LLMInferenceService: pure.

It stands beside `status`, whose conditions are those of FusionInfer's InferenceService. The types,
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
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role import RolePlan

Look = Mapping[str, Any]
Answer = Literal["True", "False", "Unknown"]


#: Kinds that an update waits for.
AWAITED = ("LeaderWorkerSet", "Gateway", "HTTPRoute", "InferencePool")


class Readiness(TypedDict):
    """One statement about a part of the service, or about all of it."""

    type: str
    status: Answer
    reason: str
    message: str


def object_key(kind: str, name: str) -> str:
    """How the live objects are told apart: sets and autoscalers share names."""
    return f"{kind}/{name}"


def read_keys(plan: ServicePlan) -> list[str]:
    """Keys of the objects that readiness is read from."""
    keys = [object_key("LeaderWorkerSet", each.name) for role in plan.roles for each in role.sets]
    keys += [
        object_key(_scaler(each.args.engine), each.name) for each in plan.operations.autoscalers
    ]
    router = plan.router
    if router is not None:
        keys.append(object_key("Deployment", router.picker.name))
        for kind, planned in (("Gateway", router.gateway), ("HTTPRoute", router.route)):
            if planned is not None:
                keys.append(object_key(kind, planned.name))
        if router.route is not None:
            keys.append(object_key("InferencePool", router.pool.name))
    return keys


def readiness(plan: ServicePlan, seen: Mapping[str, Look | None]) -> list[Readiness]:
    """Computes the conditions of KServe's status model.

    Args:
        plan: The service.
        seen: Live objects (`metadata` and `status`) by `object_key`; None or absent for one that
            does not exist or was not read.

    Returns:
        `Ready`, then what it sums up, each followed by its own parts.
    """
    workloads = [*_workloads(plan, seen), *_scaling(plan, seen)]
    if plan.router is not None:
        workloads.append(_picker(plan.router, seen))
    parts = [
        _condition("PresetsCombined", "True", "Combined", "manifests are whole when they are read"),
        _sum("WorkloadsReady", workloads),
    ]
    routing = list(_routing(plan.router, seen)) if plan.router is not None else []
    shown = [*parts, *workloads]
    if routing:
        parts.append(_sum("RouterReady", routing))
        shown += [parts[-1], *routing]
    return [_sum("Ready", parts), *shown]


def _workloads(plan: ServicePlan, seen: Mapping[str, Look | None]) -> list[Readiness]:
    """Single pods and replicas of several nodes have a condition each, and prefill its own."""
    named: dict[str, list[RolePlan]] = {}
    for role in plan.roles:
        prefill = "Prefill" if role.component_type is ComponentType.PREFILLER else ""
        main = "" if prefill else "Main"
        kind = f"{prefill}Worker" if role.nodes > 1 else f"{prefill}{main}"
        named.setdefault(f"{kind}WorkloadReady", []).append(role)
    return [_roles(name, roles, seen) for name, roles in named.items()]


def _roles(name: str, roles: Sequence[RolePlan], seen: Mapping[str, Look | None]) -> Readiness:
    counts, missing, unread = [], False, False
    for role in roles:
        looks = [(each, seen.get(object_key("LeaderWorkerSet", each.name))) for each in role.sets]
        ready = sum(ready_replicas(each, look) for each, look in looks)
        wanted = sum(
            _wanted(look, len(each.replicas), scaled=role.scaled_externally) for each, look in looks
        )
        missing = missing or ready < wanted
        unread = unread or any(not _status(look) for _, look in looks)
        counts.append(f"{role.name} {ready}/{wanted}")
    told = ", ".join(counts)
    if missing and unread:
        return _condition(name, "Unknown", "NotRead", told)
    if missing:
        return _condition(name, "False", "ReplicasNotReady", told)
    return _condition(name, "True", "ReplicasReady", told)


def _wanted(look: Look | None, planned: int, *, scaled: bool) -> int:
    """Replicas that there should be: where something scales them, as many as the set has."""
    replicas = _status(look).get("replicas")
    return int(replicas) if scaled and replicas is not None else planned


def _scaling(plan: ServicePlan, seen: Mapping[str, Look | None]) -> Iterator[Readiness]:
    kinds = {role.name: role.component_type for role in plan.roles}
    for prefill in (False, True):
        found = []
        for each in plan.operations.autoscalers:
            if (kinds[each.role] is ComponentType.PREFILLER) != prefill:
                continue
            kind = _scaler(each.args.engine)
            asked = ("Ready",) if kind == "ScaledObject" else ("AbleToScale", "ScalingActive")
            look = seen.get(object_key(kind, each.name))
            found += _asked(look, asked, f"{kind} {each.name}")
        if found:
            yield _judged("PrefillScalingReady" if prefill else "ScalingReady", found)


def _picker(router: RouterPlan, seen: Mapping[str, Look | None]) -> Readiness:
    name = router.picker.name
    look = seen.get(object_key("Deployment", name))
    if router.picker.replicas > 1 and int(_status(look).get("readyReplicas") or 0) >= 1:
        # Those that stand by are never ready, so the Deployment is never Available.
        return _condition("SchedulerWorkloadReady", "True", "LeaderReady", f"{name} has a leader")
    return _judged("SchedulerWorkloadReady", _asked(look, ("Available",), f"Deployment {name}"))


def _routing(router: RouterPlan, seen: Mapping[str, Look | None]) -> Iterator[Readiness]:
    if router.gateway is not None:
        name = router.gateway.name
        look = seen.get(object_key("Gateway", name))
        yield _judged("GatewaysReady", _asked(look, ("Accepted", "Programmed"), f"Gateway {name}"))
    if router.route is None:
        return
    for kind, planned, label in (
        ("HTTPRoute", router.route, "HTTPRoutesReady"),
        ("InferencePool", router.pool, "InferencePoolReady"),
    ):
        look = seen.get(object_key(kind, planned.name))
        found: list[tuple[Answer, str]] = []
        for parent in _status(look).get("parents") or ():
            whose = (parent.get("parentRef") or {}).get("name") or ""
            told = {"metadata": (look or {}).get("metadata"), "status": parent}
            at = f"{kind} {planned.name} at {whose}"
            found += _asked(told, ("Accepted", "ResolvedRefs"), at)
        yield _judged(label, found or [("Unknown", f"{kind} {planned.name}: nobody has judged it")])


def _asked(look: Look | None, types: Sequence[str], what: str) -> list[tuple[Answer, str]]:
    """What an object's conditions of these types say; Unknown for one about an older spec."""
    generation = ((look or {}).get("metadata") or {}).get("generation")
    given = {each.get("type"): each for each in _status(look).get("conditions") or ()}
    found: list[tuple[Answer, str]] = []
    for each in types:
        condition = given.get(each)
        observed = (condition or {}).get("observedGeneration")
        old = generation is not None and observed is not None and int(observed) < int(generation)
        if condition is None or old or condition.get("status") not in ("True", "False"):
            found.append(("Unknown", f"{what}: {each} is not known"))
        elif condition["status"] == "True":
            found.append(("True", f"{what}: {each}"))
        else:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            found.append(("False", f"{what}: not {each}, {why}"))
    return found


def _judged(name: str, found: Sequence[tuple[Answer, str]]) -> Readiness:
    for answer, reason in (("False", "NotReady"), ("Unknown", "NotRead")):
        for status, message in found:
            if status == answer:
                return _condition(name, status, reason, message)
    return _condition(name, "True", "Ready", ", ".join(message for _, message in found))


def _sum(name: str, parts: Sequence[Readiness]) -> Readiness:
    """What several conditions come to: the first that is False, else the first unknown one."""
    for answer in ("False", "Unknown"):
        for part in parts:
            if part["status"] == answer:
                return _condition(name, part["status"], part["type"], part["message"])
    return _condition(name, "True", "Ready", "")


def _scaler(engine: AutoscalingEngine) -> str:
    return "ScaledObject" if engine is AutoscalingEngine.KEDA else "HorizontalPodAutoscaler"


def _status(look: Look | None) -> Mapping[str, Any]:
    return (look or {}).get("status") or {}


def _condition(name: str, status: Answer, reason: str, message: str) -> Readiness:
    return {"type": name, "status": status, "reason": reason, "message": message}
