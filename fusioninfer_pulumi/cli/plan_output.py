"""`plan --output json`: one service's plan, with stable keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.cli.report import finding_json
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity import Capacity
from fusioninfer_pulumi.topology.gang import GangPlan, pod_group


def plan_json(
    plan: ServicePlan,
    capacity: Sequence[Capacity],
    objects: Sequence[Mapping[str, Any]],
    placed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One service's plan in the keys of the command line's contract.

    Args:
        plan: The service.
        capacity: Rows of its capacity table.
        objects: Its objects.
        placed: Where it is placed, None where nothing was.
    """
    return {
        "service": plan.service,
        "namespace": plain(plan.namespace),
        # Only written if it is not the default: older readers see no change.
        **(
            {"layout": plan.shape.layout.value}
            if plan.shape.layout is not Layout.PER_REPLICA
            else {}
        ),
        **({} if plan.groups is None else {"groups": plan.groups}),
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
            for row in capacity
        ],
        "objects": [_reference(item) for item in objects],
        **({"placement": placed} if placed is not None else {}),
        "findings": [finding_json(finding) for finding in plan.findings],
    }


def _memory(plan: ServicePlan, role: str) -> dict[str, Any]:
    return {"memory": plan.memory[role].to_json()} if role in plan.memory else {}


def _presets(plan: ServicePlan) -> dict[str, Any]:
    """What the library wrote; left out where it wrote nothing."""
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
    if plan.groups is None:
        return {"gang": None if plan.gang is None else _gang(plan, plan.gang)}
    listed = [{"group": gang.group, **_gang(plan, gang)} for gang in plan.gangs]
    return {"gang": None, "gangs": listed}


def _gang(plan: ServicePlan, gang: GangPlan) -> dict[str, Any]:
    spec = pod_group(plan, gang)["spec"]
    return {
        "podGroup": gang.pod_group,
        "minMember": gang.min_member,
        "minTaskMember": spec.get("minTaskMember"),
        "subGroupPolicy": spec.get("subGroupPolicy"),
        "minimumGpus": gang.min_accelerators,
    }
