"""A service's plan as JSON, for `plan --output json` and programs in other languages."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, build_pod_group


def service_json(plan: ServicePlan) -> dict[str, Any]:
    """Return a plan in the keys of the command line's contract."""
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
    spec = build_pod_group(plan.meta, plan.shape, gang)["spec"]
    return {
        "podGroup": gang.pod_group,
        "minMember": gang.min_member,
        "minTaskMember": spec.get("minTaskMember"),
        "subGroupPolicy": spec.get("subGroupPolicy"),
        "minimumGpus": gang.min_accelerators,
    }
