"""Rejection of updates that would wait for a gang forever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, strategies as st
from rollouts import grouped_plans, plans

from fusioninfer_pulumi.api.rollout import Layout, RolloutArgs, RolloutStrategy
from fusioninfer_pulumi.checks.update_checks import RunningLws, check_gang_joins
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import order_update

PLANS = plans() | grouped_plans()
SHARE = st.integers(0, 3)


def running(plan: ServicePlan, data: Any, **differs: Any) -> dict[str, RunningLws | None]:
    """Return some running LeaderWorkerSets of a plan, with these differences."""
    gangs = {gang.group: gang.pod_group for gang in plan.gangs}
    lws: dict[str, RunningLws | None] = {}
    for role in plan.roles:
        for item in role.lws:
            if data.draw(SHARE):
                gang = gangs.get(item.group, "")
                running_lws = RunningLws(gang, role.nodes, len(item.replicas), is_outdated=True)
                lws[item.name] = replace(running_lws, **differs)
    return lws


@given(PLANS, st.data())
def test_replicas_in_their_gang_are_never_rejected(plan: ServicePlan, data: Any) -> None:
    assert not check_gang_joins(plan, running(plan, data))
    assert not check_gang_joins(plan, running(plan, data, nodes=99))


@given(plans(), st.data())
def test_all_at_once_is_rejected_only_for_partition(plan: ServicePlan, data: Any) -> None:
    order = plan.rollout.role_order
    rollout = RolloutArgs(strategy=RolloutStrategy.ALL_AT_ONCE, role_order=order)
    if plan.shape.layout is Layout.PER_ROLE:
        rollout = RolloutArgs(strategy=RolloutStrategy.RECREATE, role_order=order)
    roles = [
        replace(role, args=role.args.model_copy(update={"rollout": None}), service_rollout=rollout)
        for role in plan.roles
    ]
    plan = replace(plan, roles=tuple(roles), rollout=rollout)
    assert not check_gang_joins(plan, running(plan, data, gang=""))


@given(PLANS, st.data())
def test_rejection_names_field_and_running_lws(plan: ServicePlan, data: Any) -> None:
    before = running(plan, data, gang="")
    result = check_gang_joins(plan, before)
    steps = {step.name for step in order_update(plan)}
    for finding in result:
        assert finding.path.endswith(("rollout.strategy", "rollout.partition"))
        assert any(name in finding.message for name in steps & before.keys())
    if not plan.gangs or not before:
        assert not result
