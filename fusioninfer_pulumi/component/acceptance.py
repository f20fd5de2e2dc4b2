"""What an update waits for after the replicas: the gang's placement, or gateways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.status import gang_blocked, gang_placed
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.router import Routing

Manifest = Mapping[str, Any]
Live = Mapping[str, Mapping[str, Any]]


def awaited_manifests(plan: ServicePlan, manifests: Sequence[Manifest]) -> list[Manifest]:
    """The objects that the service's `wait.level` waits for beside replicas."""
    kinds: tuple[str, ...] = ()
    if plan.wait.level is WaitLevel.SCHEDULED:
        kinds = ("PodGroup",)
    elif plan.wait.level is WaitLevel.SERVING and plan.routing is not None and plan.routing.route:
        kinds = ("Gateway", "InferencePool", "HTTPRoute")
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def not_accepted(plan: ServicePlan, manifests: Sequence[Manifest], live: Live) -> str | None:
    """The first of these objects that is not accepted yet, and why; None when all are.

    A PodGroup that its gang is placed; a Gateway that it is accepted and programmed; a route and a
    pool that each Gateway of the route has accepted it and resolved its references. Only conditions
    of the current generation count.
    """
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        state = live.get(name) or {}
        if kind == "PodGroup":
            if not gang_placed(state):
                return f"PodGroup {name}: {gang_blocked(state) or 'the gang is not placed'}"
            continue
        for status, message in _statuses(plan.routing, kind, name, state):
            if status != "True":
                return message
    return None


def _statuses(
    router: Routing | None, kind: str, name: str, live: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    if kind == "Gateway" or router is None:
        yield from _condition_statuses(live, ("Accepted", "Programmed"), f"{kind} {name}")
        return
    parents = (live.get("status") or {}).get("parents") or []
    if not parents:
        yield "Unknown", f"{kind} {name}: no Gateway has judged it"
    for parent in router.parents:
        wanted = {"name": parent.name}
        if kind == "HTTPRoute" and parent.section is not None:
            wanted["sectionName"] = parent.section
        matching = [
            parent_status
            for parent_status in parents
            if wanted.items() <= {**(parent_status.get("parentRef") or {})}.items()
        ]
        if not matching:
            yield "Unknown", f"{kind} {name}: Gateway {parent.name} has not judged it"
        for parent_status in matching[:1]:
            state = {"metadata": live.get("metadata"), "status": parent_status}
            what = f"{kind} {name} at {parent.name}"
            yield from _condition_statuses(state, ("Accepted", "ResolvedRefs"), what)


def _condition_statuses(
    live: Mapping[str, Any], types: Sequence[str], what: str
) -> Iterator[tuple[str, str]]:
    """Status and message of each of these conditions; Unknown for one about an older spec."""
    generation = (live.get("metadata") or {}).get("generation")
    status = live.get("status") or {}
    conditions = {entry.get("type"): entry for entry in status.get("conditions") or ()}
    for condition_type in types:
        condition = conditions.get(condition_type) or {}
        observed = condition.get("observedGeneration")
        is_old = generation is not None and observed is not None and int(observed) < int(generation)
        if is_old or condition.get("status") not in ("True", "False"):
            yield "Unknown", f"{what}: {condition_type} is not known"
        elif condition["status"] == "True":
            yield "True", f"{what}: {condition_type}"
        else:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            yield "False", f"{what}: not {condition_type}, {why}"
