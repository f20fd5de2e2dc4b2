"""Hypothesis strategies for services to update."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi.plan.service_plan import ServicePlan

STRATEGIES = ("Rolling", "AllAtOnce", "Recreate")
LEVELS = ("None", "Scheduled", "Available", "Serving")


@st.composite
def plans(draw: st.DrawFn) -> ServicePlan:
    """Return plans of up to three roles, with and without a gang that may run in part."""
    roles, minima = [], {}
    for index in range(draw(st.integers(1, 3))):
        name, replicas = f"role{index}", draw(st.integers(0, 12))
        fields: dict[str, Any] = {}
        if draw(st.booleans()):
            limit = st.integers(1, 6) | st.integers(1, 100).map("{}%".format)
            fields["rollout"] = {
                "strategy": draw(st.sampled_from(STRATEGIES)),
                "maxUnavailable": draw(limit),
                "partition": draw(st.integers(0, 13)),
            }
        if draw(st.booleans()):
            fields["multinode"] = nodes(2, launcher="none")
        if draw(st.booleans()):
            minima[name] = draw(st.integers(0, replicas))
        roles.append(role(name, replicas=replicas, **fields))
    scheduling = {"gangPolicy": {"minRoleReplicas": minima}} if minima else {}
    return plan_of(
        service(
            *roles,
            schedulingStrategy=scheduling,
            layout=draw(st.sampled_from(("PerReplica", "PerReplica", "PerRole"))),
            rollout={"roleOrder": draw(st.sampled_from(("Together", "Sequential")))},
            wait={"level": draw(st.sampled_from(LEVELS))},
        )
    )


@st.composite
def grouped_plans(draw: st.DrawFn) -> ServicePlan:
    """Return plans of several groups, with and without optional replicas, in both layouts."""
    roles, minima = [], {}
    for index in range(draw(st.integers(1, 3))):
        name, replicas = f"role{index}", draw(st.integers(0, 9))
        fields: dict[str, Any] = {"multinode": nodes(2, launcher="none")} if index == 0 else {}
        if draw(st.booleans()):
            minima[name] = draw(st.integers(0, replicas))
        roles.append(role(name, replicas=replicas, **fields))
    scheduling = {"gangPolicy": {"minRoleReplicas": minima}} if minima else {}
    rollout = {
        "level": "Group",
        "strategy": draw(st.sampled_from(("Rolling", "Rolling", "AllAtOnce", "Recreate"))),
        "maxUnavailable": draw(st.integers(1, 4) | st.integers(1, 100).map("{}%".format)),
        "partition": draw(st.integers(0, 7)),
        "roleOrder": draw(st.sampled_from(("Together", "Sequential"))),
    }
    return plan_of(
        service(
            *roles,
            groups=draw(st.integers(0, 7)),
            layout=draw(st.sampled_from(("PerReplica", "PerRole"))),
            schedulingStrategy=scheduling,
            rollout=rollout,
        )
    )
