"""`plan --output json`: one service's plan, with stable keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.cli.finding_formats import finding_json
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity_model import Capacity
from fusioninfer_pulumi.topology.gang import GangPlan, pod_group

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.diff.timelines import ServiceTimeline


@dataclass(frozen=True)
class PlanView:
    """The contents of `plan` for one service.

    Attributes:
        plan: The service, with the findings that are shown.
        capacity: Rows of its capacity table, none to leave the table out.
        objects: Its objects.
        provider: Name of its Kubernetes provider, empty for the default one.
        update: Its update from an older source, None without one.
        placed: Its node pools as JSON, None without an inventory.
        placed_tables: The same for rich.
    """

    plan: ServicePlan
    capacity: Sequence[Capacity] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    provider: str = ""
    update: ServiceTimeline | None = None
    placed: Mapping[str, Any] | None = None
    placed_tables: Sequence[Any] = ()


def plan_json(view: PlanView) -> dict[str, Any]:
    """One service's plan in the keys of the command line's contract."""
    plan = view.plan
    return {
        "service": plan.service,
        "namespace": plain(plan.namespace),
        # Only if it is not the default, so that older readers see no change.
        **(
            {"layout": plan.shape.layout.value}
            if plan.shape.layout is not Layout.PER_REPLICA
            else {}
        ),
        **({} if plan.shape.groups is None else {"groups": plan.shape.groups}),
        "roles": [
            {
                "name": role.name,
                "componentType": role.component_type.value,
                "replicas": len(role.replicas),
                "nodesPerReplica": role.nodes,
                "totalPods": role.total_pods,
                "gpusPerPod": role.accelerators_per_pod,
                "totalGpus": role.total_accelerators,
                **_memory(plan, role.name),
            }
            for role in plan.roles
        ],
        **_presets(plan),
        "totalPods": plan.total_pods,
        "totalGpus": plan.total_accelerators,
        **_gangs(plan),
        **({} if plan.shape.local_queue is None else {"localQueue": plain(plan.shape.local_queue)}),
        "capacity": [
            {
                "gpus": row.gpus,
                "running": dict(row.running),
                "status": row.status,
                "exact": row.exact,
                **({} if row.groups is None else {"groups": row.groups}),
            }
            for row in view.capacity
        ],
        "objects": [_reference(item) for item in view.objects],
        **({} if view.placed is None else {"placement": view.placed}),
        "findings": [finding_json(finding) for finding in plan.findings],
        **({} if view.update is None else {"update": view.update.to_json()}),
    }


def _memory(plan: ServicePlan, role: str) -> dict[str, Any]:
    return {"memory": plan.memory[role].to_json()} if role in plan.memory else {}


def _presets(plan: ServicePlan) -> dict[str, Any]:
    """Engines and generated values; empty if the library generated nothing."""
    if not plan.engines:
        return {}
    return {
        "engines": [
            {
                "role": engine.role,
                "engine": engine.title,
                "release": engine.release,
                "default": engine.default,
            }
            for engine in plan.engines
        ],
        "presets": [
            {
                "role": value.role,
                "field": value.field,
                "value": value.value,
                "from": value.origin,
                "why": value.reason,
            }
            for value in plan.presets
        ],
    }


def _reference(item: Mapping[str, Any]) -> dict[str, Any]:
    """Says which object an object is."""
    metadata = item["metadata"]
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "namespace": plain(metadata.get("namespace")),
        "name": plain(metadata.get("name")),
    }


def plain(value: Any) -> Any:
    """A value that JSON takes; an Output's is not known here."""
    return UNKNOWN if is_output(value) else value


def _gangs(plan: ServicePlan) -> dict[str, Any]:
    """The one gang as `gang`, those of serving groups as a list; `gang` is then null."""
    if plan.shape.groups is None:
        return {"gang": None if plan.gang is None else _gang(plan, plan.gang)}
    listed = [{"group": gang.group, **_gang(plan, gang)} for gang in plan.gangs]
    return {"gang": None, "gangs": listed}


def _gang(plan: ServicePlan, gang: GangPlan) -> dict[str, Any]:
    spec = pod_group(plan.meta, gang)["spec"]
    return {
        "podGroup": gang.pod_group,
        "minMember": gang.min_member,
        "minTaskMember": spec.get("minTaskMember"),
        "subGroupPolicy": spec.get("subGroupPolicy"),
        "minimumGpus": gang.min_accelerators,
    }
