"""A service's plan as JSON, for `plan --output json` and programs in other languages."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, build_pod_group
from fusioninfer_pulumi.topology.role_plan import RolePlan


def build_service_json(plan: ServicePlan) -> dict[str, Any]:
    """Return a plan as JSON; users' programs rely on the keys."""
    document: dict[str, Any] = {
        "service": plan.service,
        "namespace": replace_output(plan.namespace),
    }
    # The default layout is omitted, so that the output is the same as in older releases.
    if plan.shape.layout is not Layout.PER_REPLICA:
        document["layout"] = plan.shape.layout.value
    if plan.shape.groups is not None:
        document["groups"] = plan.shape.groups
    document["roles"] = [_convert_role(plan, role) for role in plan.roles]
    document |= _convert_presets(plan)
    document["totalPods"] = plan.total_pods
    document["totalGpus"] = plan.total_accelerators
    document |= _convert_gangs(plan)
    if plan.shape.local_queue is not None:
        document["localQueue"] = replace_output(plan.shape.local_queue)
    return document


def _convert_role(plan: ServicePlan, role: RolePlan) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": role.name,
        "componentType": role.component_type.value,
        "replicas": len(role.replicas),
        "nodesPerReplica": role.nodes,
        "totalPods": role.total_pods,
        "gpusPerPod": role.accelerators_per_pod,
        "totalGpus": role.total_accelerators,
    }
    if role.name in plan.memory:
        document["memory"] = plan.memory[role.name].to_json()
    return document


def _convert_presets(plan: ServicePlan) -> dict[str, Any]:
    """Return engines and generated values; empty if no container is generated."""
    if not plan.engines:
        return {}
    return {
        "engines": [
            {
                "role": engine.role,
                "engine": engine.title,
                "release": engine.release,
                "default": engine.is_default,
            }
            for engine in plan.engines
        ],
        "presets": [
            {
                "role": value.role,
                "field": value.field,
                "value": value.value,
                "from": value.source,
                "why": value.reason,
            }
            for value in plan.provenance.values
        ],
    }


def replace_output(value: Any) -> Any:
    """Return `<unknown>` for an Output, and any other value unchanged."""
    return UNKNOWN if is_output(value) else value


def _convert_gangs(plan: ServicePlan) -> dict[str, Any]:
    """Return the key `gang`, or `gangs` with one item for each serving group and a null `gang`."""
    if plan.shape.groups is None:
        return {"gang": None if plan.gang is None else _convert_gang(plan, plan.gang)}
    gangs = [{"group": gang.group, **_convert_gang(plan, gang)} for gang in plan.gangs]
    return {"gang": None, "gangs": gangs}


def _convert_gang(plan: ServicePlan, gang: GangPlan) -> dict[str, Any]:
    spec = build_pod_group(plan.meta, plan.shape, gang)["spec"]
    return {
        "podGroup": gang.pod_group,
        "minMember": gang.min_member,
        "minTaskMember": spec.get("minTaskMember"),
        "subGroupPolicy": spec.get("subGroupPolicy"),
        "minimumGpus": gang.min_accelerators,
    }
