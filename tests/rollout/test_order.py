"""Properties of the order of updates of random services."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from rollouts import grouped_plans, plans
from rows import each_row
from samples import nodes, plan_of, prefill_decode, role, service

from fusioninfer_pulumi.api.rollout import RoleOrder
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import (
    LwsStep,
    choose_next_lws,
    is_group_rollout,
    order_update,
    resolve_group_rollout,
)

PLANS = plans() | grouped_plans()
Rounds = list[list[str]]


def run_rounds(steps: tuple[LwsStep, ...], waiting: set[str]) -> Rounds:
    """Return the LeaderWorkerSets of each round; those of a round are available after it."""
    rounds: Rounds = []
    waiting = set(waiting)
    while waiting:
        started = choose_next_lws(steps, waiting, (), ())
        assert started, "blocked"
        waiting.difference_update(started)
        rounds.append(started)
    return rounds


def names_of(steps: tuple[LwsStep, ...]) -> set[str]:
    return {step.name for step in steps}


@given(PLANS)
def test_every_lws_changes_once(plan: ServicePlan) -> None:
    steps = order_update(plan)
    rounds = run_rounds(steps, names_of(steps))
    assert sorted(name for started in rounds for name in started) == sorted(names_of(steps))
    assert sorted(names_of(steps)) == sorted(item.name for role in plan.roles for item in role.lws)


@given(PLANS, st.data())
def test_batch_is_at_most_max_unavailable(plan: ServicePlan, data: Any) -> None:
    steps = order_update(plan)
    names = sorted(names_of(steps))
    waiting = set(data.draw(st.lists(st.sampled_from(names)) if names else st.just([])))
    by_name = {step.name: step for step in steps}
    for started in run_rounds(steps, waiting):
        units: dict[str, set[str]] = {}
        for step in (by_name[name] for name in started):
            if step.is_required and step.limit is not None:
                units.setdefault(step.limit_scope, set()).add(step.limit_unit)
        for name, findings in units.items():
            limits = {step.limit for step in steps if step.limit_scope == name}
            assert limits == {max(len(findings), *limits)}


@given(PLANS, st.data())
def test_unavailable_lws_change_first_and_count(plan: ServicePlan, data: Any) -> None:
    steps = order_update(plan)
    required = [step for step in steps if step.is_required]
    names = [step.name for step in required]
    down = set(data.draw(st.lists(st.sampled_from(names)) if names else st.just([])))
    started = set(choose_next_lws(steps, names_of(steps), (), down))
    assert down <= started
    for step in required:
        same = [s for s in required if s.limit_scope == step.limit_scope]
        gone = {s.limit_unit for s in same if s.name in down}
        more = {s.limit_unit for s in same if s.name in started} - gone
        if step.limit is not None and more:
            assert len(gone | more) <= step.limit


@given(PLANS, st.data())
def test_unavailable_lws_counts_against_limit(plan: ServicePlan, data: Any) -> None:
    steps = order_update(plan)
    required = [step.name for step in steps if step.is_required and step.limit is not None]
    lasting = set(data.draw(st.lists(st.sampled_from(required)) if required else st.just([])))
    down, by_name = [s for s in steps if s.name in lasting], {step.name: step for step in steps}
    for name in choose_next_lws(steps, names_of(steps) - lasting, (), lasting):
        step = by_name[name]
        if step.is_required and step.limit is not None:
            units = {other.limit_unit for other in down if other.limit_scope == step.limit_scope}
            assert step.limit_unit in units or len(units) < step.limit


@given(PLANS)
def test_optional_replicas_follow_the_required_ones(plan: ServicePlan) -> None:
    steps, by_group = order_update(plan), is_group_rollout(plan)
    at = {n: i for i, started in enumerate(run_rounds(steps, names_of(steps))) for n in started}
    for step in steps:
        mates = [
            s
            for s in steps
            if s.is_required
            and (s.limit_unit == step.limit_unit if by_group else s.role == step.role)
        ]
        if not step.is_required:
            assert all(at[mate.name] < at[step.name] for mate in mates)


@given(PLANS)
def test_sequential_roles_change_one_at_a_time(plan: ServicePlan) -> None:
    if plan.rollout.role_order is not RoleOrder.SEQUENTIAL:
        return
    steps = order_update(plan)
    positions = {role.name: role.position for role in plan.roles}
    by_name = {step.name: step for step in steps}
    for started in run_rounds(steps, names_of(steps)):
        waves: dict[str, set[int]] = {}
        for name in started:
            step = by_name[name]
            if step.is_required:
                waves.setdefault(step.wave_scope, set()).add(positions[step.role])
        assert all(len(wave) == 1 for wave in waves.values())


@given(PLANS)
def test_waiting_lws_wait_for_changing_ones(plan: ServicePlan) -> None:
    steps = order_update(plan)
    first = choose_next_lws(steps, names_of(steps), (), ())
    again = choose_next_lws(steps, names_of(steps) - set(first), first, ())
    by_name = {step.name: step for step in steps}
    started = {by_name[name].limit_unit for name in first}
    limited = [by_name[name] for name in again if by_name[name].limit is not None]
    assert all(step.limit_unit in started for step in limited), (first, again)


@given(grouped_plans())
def test_serving_groups_change_as_a_whole(plan: ServicePlan) -> None:
    if not is_group_rollout(plan):
        return
    steps, rollout = order_update(plan), resolve_group_rollout(plan)
    by_name = {step.name: step for step in steps}
    for step in steps:
        assert step.is_frozen == (int(step.limit_unit) < rollout.partition)
    if rollout.parallel_limit == 1 and plan.rollout.role_order is RoleOrder.TOGETHER:
        firsts = [
            int(by_name[started[0]].limit_unit)
            for started in run_rounds(steps, names_of(steps))
            if by_name[started[0]].is_required
        ]
        assert firsts == sorted(firsts, reverse=True)


@each_row(
    ("manifest", "rounds"),
    [
        (service(role(replicas=3)), [["2"], ["1"], ["0"]]),
        (service(role(replicas=3, rollout={"maxUnavailable": 2})), [["2", "1"], ["0"]]),
        (service(role(replicas=3, rollout={"strategy": "AllAtOnce"})), [["2", "1", "0"]]),
        (service(role(replicas=3, rollout={"strategy": "Recreate"})), [["2", "1", "0"]]),
        (
            service(
                role(replicas=4, multinode=nodes(2)),
                schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"inference": 2}}},
            ),
            [["1"], ["0"], ["3", "2"]],
        ),
    ],
)
def test_update_steps_of_one_role(manifest: Any, rounds: Rounds) -> None:
    steps = order_update(plan_of(manifest))
    result = run_rounds(steps, names_of(steps))
    assert [[name.rpartition("-")[2] for name in started] for started in result] == rounds


def test_unavailable_lws_does_not_wait_for_its_stage() -> None:
    plan = plan_of(prefill_decode({}, {}, rollout={"roleOrder": "Sequential"}))
    steps = order_update(plan)
    started = choose_next_lws(steps, names_of(steps), (), names_of(steps))
    assert set(started) == names_of(steps)


def test_required_ordinals_are_the_lowest() -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 1}}}
    plan = plan_of(service(role(replicas=3, multinode=nodes(2)), schedulingStrategy=minimum))
    assert [step.is_required for step in order_update(plan)] == [True, False, False]
