"""The order of sets where it is known which of them there are: new ones have no place in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollouts import WORKERS, ancestors, grouped_plans, plans
from samples import Manifest, nodes, plan_of, prefill_decode, role, service

from fusioninfer_pulumi.api.rollout import Layout, RolloutLevel
from fusioninfer_pulumi.rollout.groups import group_rollout
from fusioninfer_pulumi.rollout.order import Down, Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import MAX_LANES
from fusioninfer_pulumi.service_plan import ServicePlan

Drawn = tuple[ServicePlan, Rollout, frozenset[str]]


def names_of(plan: ServicePlan) -> list[str]:
    return [each.name for one in plan.roles for each in one.lws]


@st.composite
def rollouts(draw: st.DrawFn) -> Drawn:
    plan = draw(plans() | grouped_plans())
    names = names_of(plan)
    kept = st.sets(st.sampled_from(names)) if names else st.just(set[str]())
    existing = frozenset(draw(st.sampled_from((set(names), set[str]())) | kept))
    return plan, rollout_plan(plan, draw(WORKERS), existing), existing


@given(rollouts())
def test_every_set_stands_once_and_what_waits_comes_after_all(drawn: Drawn) -> None:
    plan, rollout, _ = drawn
    assert sorted(step.name for step in rollout.steps) == sorted(names_of(plan))
    before = ancestors(rollout)
    assert set(rollout.barrier).union(*(before[name] for name in rollout.barrier)) == set(before)
    assert all(len(step.after) <= 3 * MAX_LANES for step in rollout.steps)
    assert len(rollout.barrier) <= 3 * MAX_LANES


@given(rollouts())
def test_required_sets_are_made_before_anything_changes_and_optional_ones_after(
    drawn: Drawn,
) -> None:
    # A pod that restarts may need the first, if all of them are a gang, and they wait for nothing;
    # the others may lack room, and would take that of a replica that restarts.
    plan, rollout, existing = drawn
    before = ancestors(rollout)
    needed = {step.name for step in rollout.steps if step.required and step.name not in existing}
    others = {step.name for step in rollout.steps if not step.required} - existing
    for step in rollout.steps:
        if step.name in needed:
            assert before[step.name] <= needed
        else:
            assert needed <= before[step.name]
        if step.name in others:
            assert set(before) - others <= before[step.name]
    whole = rollout_plan(plan)
    assert rollout.patched == whole.patched
    known = {step.name: (step.required, step.frozen, step.timeout) for step in whole.steps}
    assert {s.name: (s.required, s.frozen, s.timeout) for s in rollout.steps} == known


@given(plans() | grouped_plans(), WORKERS)
def test_where_all_sets_exist_or_nobody_knows_the_order_is_the_same(
    plan: ServicePlan, workers: int | None
) -> None:
    assert rollout_plan(plan, workers, names_of(plan)) == rollout_plan(plan, workers)


@given(rollouts())
def test_what_exists_changes_no_faster_than_it_may(drawn: Drawn) -> None:
    plan, rollout, existing = drawn
    before = ancestors(rollout)
    by_group = plan.rollout.level is RolloutLevel.GROUP
    group = {each.name: each.group for one in plan.roles for each in one.lws}
    roles = [None] if by_group else [each.name for each in plan.roles]
    for name in roles:
        steps = [s for s in rollout.steps if s.paced and s.name in existing]
        steps = [s for s in steps if by_group or s.role == name]
        if not steps or steps[0].rollout.strategy.value != "Rolling":
            continue
        limit = group_rollout(plan).max_unavailable if by_group else None
        paced, done = {s.name for s in steps}, set[str]()
        while len(done) < len(paced):
            free = [s.name for s in steps if s.name not in done and before[s.name] & paced <= done]
            at_once = len({group[each] for each in free}) if by_group else len(free)
            assert 1 <= at_once <= (limit or steps[0].rollout.max_unavailable)
            done.add(free[-1])


@given(rollouts())
def test_waiting_sets_leave_a_worker_for_the_others(drawn: Drawn) -> None:
    plan, _, existing = drawn
    for workers in (2, 8, 16):
        rollout = rollout_plan(plan, workers, existing)
        before = ancestors(rollout)
        paced = {step.name for step in rollout.steps if step.paced and step.name in existing}
        first = [name for name in paced if not before[name] & paced]
        assert len(first) <= max(workers - 1, len([each for each in plan.roles if each.replicas]))


def depth(rollout: Rollout) -> int:
    found: dict[str, int] = {}
    for step in rollout.steps:
        found[step.name] = 1 + max((found[name] for name in step.after), default=0)
    return max(found.values())


def test_a_creation_is_as_deep_as_its_lanes_are_long() -> None:
    plan = plan_of(service(role(replicas=100)))
    assert depth(rollout_plan(plan)) == 100
    assert depth(rollout_plan(plan, existing=())) == -(-100 // MAX_LANES)


def after(manifest: Manifest, existing: Callable[[str], bool]) -> dict[str, tuple[str, ...]]:
    plan = plan_of(manifest)
    kept = [name for name in names_of(plan) if existing(name)]
    return {step.name: step.after for step in rollout_plan(plan, existing=kept).steps}


def test_replicas_that_are_added_come_before_those_that_change() -> None:
    gang = service(role(replicas=4, multinode=nodes(2)))
    assert after(gang, lambda name: name[-1] in "01") == {
        "svc-inference-3": (),
        "svc-inference-2": (),
        "svc-inference-1": ("svc-inference-3", "svc-inference-2"),
        "svc-inference-0": ("svc-inference-1",),
    }


@pytest.mark.parametrize("order", ["Together", "Sequential"])
def test_a_role_that_is_added_comes_before_those_that_change(order: str) -> None:
    manifest = prefill_decode({"replicas": 2}, rollout={"roleOrder": order})
    found = after(manifest, lambda name: "prefill" in name)
    new = ("svc-decode-1", "svc-decode-0")
    assert [found[name] for name in new] == [(), ()]
    assert found["svc-prefill-1"] == new


def test_optional_replicas_that_are_added_come_last() -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 1}}}
    manifest = service(role(replicas=4, multinode=nodes(2)), schedulingStrategy=minimum)
    assert after(manifest, lambda name: name[-1] in "01") == {
        "svc-inference-0": (),
        "svc-inference-1": ("svc-inference-0",),
        "svc-inference-3": ("svc-inference-1",),
        "svc-inference-2": ("svc-inference-1",),
    }


@st.composite
def with_down(draw: st.DrawFn) -> tuple[ServicePlan, Rollout, Down]:
    plan = draw(plans())
    names = names_of(plan)
    down = draw(st.sets(st.sampled_from(names), max_size=4)) if names else set[str]()
    lasting = {each.name: draw(st.integers(0, 3)) for each in plan.roles}
    found = Down(frozenset(down), lasting)
    return plan, rollout_plan(plan, draw(WORKERS), names, found), found


@given(with_down())
def test_what_is_down_goes_first_and_what_stays_down_takes_a_place(
    drawn: tuple[ServicePlan, Rollout, Down],
) -> None:
    plan, rollout, down = drawn
    before = ancestors(rollout)
    assert sorted(before) == sorted(names_of(plan))
    assert set(rollout.barrier).union(*(before[name] for name in rollout.barrier)) == set(before)
    if plan.layout is Layout.PER_ROLE:
        assert rollout == rollout_plan(plan, None, names_of(plan))
        return
    for each in plan.roles:
        steps = [s for s in rollout.steps if s.role == each.name and s.required]
        first = {s.name for s in steps} & down.lws
        rest = [s.name for s in steps if s.name not in first]
        assert all(first <= before[name] for name in rest)
        if not steps or steps[0].rollout.strategy.value != "Rolling":
            continue
        limit = max(1, steps[0].rollout.max_unavailable - down.lasting[each.name])
        done = set[str]()
        while len(done) < len(rest):
            free = [n for n in rest if n not in done and before[n] & set(rest) <= done]
            assert 1 <= len(free) <= limit
            done.add(free[-1])
