"""The order of sets as a graph: who waits for whom, at creation and on an update."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollouts import WORKERS, ancestors, plans
from samples import plan_of, prefill_decode, role, said, service

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.rollout.order import Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import MAX_LANES, required_ordinals
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role_rollout import replicas_of

Drawn = tuple[ServicePlan, Rollout]


@st.composite
def rollouts(draw: st.DrawFn) -> Drawn:
    plan = draw(plans())
    return plan, rollout_plan(plan, draw(WORKERS))


@given(rollouts())
def test_every_set_stands_once_and_after_what_it_depends_on(
    drawn: Drawn,
) -> None:
    plan, rollout = drawn
    names = [step.name for step in rollout.steps]
    assert sorted(names) == sorted(made.name for each in plan.roles for made in each.lws)
    assert set(ancestors(rollout)) == set(names)


@given(rollouts())
def test_what_waits_comes_after_every_set(drawn: Drawn) -> None:
    # So no member of a gang waits for another at creation: nothing waits before all are made.
    _, rollout = drawn
    before = ancestors(rollout)
    reached = set(rollout.barrier).union(*(before[name] for name in rollout.barrier))
    assert reached == {step.name for step in rollout.steps}


@given(rollouts())
def test_the_graph_stays_small(drawn: Drawn) -> None:
    _, rollout = drawn
    assert all(len(step.after) <= MAX_LANES for step in rollout.steps)
    assert len(rollout.barrier) <= 3 * MAX_LANES


@given(rollouts())
def test_at_most_max_unavailable_required_sets_of_a_role_change_at_once(
    drawn: Drawn,
) -> None:
    # Those that may change at once are an antichain; the sets of a role lie on `limit` chains.
    plan, rollout = drawn
    before = ancestors(rollout)
    for each in plan.roles:
        paced = [step for step in rollout.steps if step.role == each.name and step.paced]
        if not paced or paced[0].rollout.strategy.value != "Rolling":
            continue
        done: set[str] = set()
        while len(done) < len(paced):
            free = [
                step.name
                for step in paced
                if step.name not in done
                and {other.name for other in paced} & before[step.name] <= done
            ]
            assert 1 <= len(free) <= paced[0].rollout.max_unavailable
            done.add(free[-1])


@given(rollouts())
def test_waiting_sets_leave_a_worker_for_the_others(drawn: Drawn) -> None:
    plan, _ = drawn
    for workers in (2, 8, 16):
        rollout = rollout_plan(plan, workers)
        before = ancestors(rollout)
        first = [step for step in rollout.steps if step.paced and not before[step.name]]
        rolling = len([each for each in plan.roles if each.replicas])
        assert len(first) <= max(workers - 1, rolling)


@given(rollouts())
def test_required_sets_are_patched_and_no_others(drawn: Drawn) -> None:
    plan, rollout = drawn
    # One set for a role is required as soon as one of its replicas is.
    required = {
        made.name for each in plan.roles for made in each.lws[: required_ordinals(plan, each)]
    }
    assert rollout.patched <= required
    for step in rollout.steps:
        if step.name in required and (rollout.awaited or step.paced):
            assert step.name in rollout.patched


@given(rollouts())
def test_optional_sets_go_down_when_the_required_ones_are_back(
    drawn: Drawn,
) -> None:
    _, rollout = drawn
    before = ancestors(rollout)
    for step in rollout.steps:
        if not step.required:
            mates = {s.name for s in rollout.steps if s.role == step.role and s.required}
            assert mates <= before[step.name]


@given(rollouts())
def test_frozen_are_the_ordinals_below_the_partition(drawn: Drawn) -> None:
    plan, rollout = drawn
    for step in rollout.steps:
        if plan.layout is Layout.PER_ROLE:
            assert not step.frozen, "LeaderWorkerSet holds it"
            continue
        assert step.frozen == (int(step.name.rpartition("-")[2]) < step.rollout.partition)


def order(manifest: dict[str, Any], workers: int | None = None) -> dict[str, tuple[str, ...]]:
    return {step.name: step.after for step in rollout_plan(plan_of(manifest), workers).steps}


def test_the_highest_ordinal_goes_first() -> None:
    assert order(service(role(replicas=4))) == {
        "svc-inference-3": (),
        "svc-inference-2": ("svc-inference-3",),
        "svc-inference-1": ("svc-inference-2",),
        "svc-inference-0": ("svc-inference-1",),
    }


def test_roles_roll_together_or_one_after_the_other() -> None:
    together = order(prefill_decode({"replicas": 2}))
    assert [name for name, after in together.items() if not after] == [
        "svc-prefill-1",
        "svc-decode-1",
    ]
    apart = order(prefill_decode({"replicas": 2}, rollout={"roleOrder": "Sequential"}))
    assert apart["svc-decode-1"] == ("svc-prefill-0",)


def test_a_role_overrides_the_service() -> None:
    rolled = role(replicas=4, rollout={"maxUnavailable": 2})
    found = rollout_plan(
        plan_of(service(rolled, rollout={"maxUnavailable": 1, "timeout": "2h", "partition": 1}))
    )
    first = found.steps[0].rollout
    assert (first.max_unavailable, first.timeout, first.partition) == (2, "2h", 1)
    assert [step.after for step in found.steps][2] == ("svc-inference-3",)


@pytest.mark.parametrize(
    ("limit", "replicas", "expected"),
    [(3, 2, 3), ("25%", 4, 1), ("25%", 7, 1), ("25%", 8, 2), ("1%", 3, 1), ("100%", 5, 5)],
)
def test_a_percentage_is_rounded_down_but_at_least_one(
    limit: int | str, replicas: int, expected: int
) -> None:
    assert replicas_of(limit, replicas) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            service(role(replicas=2), rollout={"partition": 3}),
            (
                "warning: rollout.partition: 3 is above the replicas of inference (2): none of "
                "them is ever updated"
            ),
        ),
        (
            service(role(replicas=2, rollout={"partition": 2})),
            "info: roles[0].rollout.partition: holds back all replicas of inference",
        ),
        (
            service(role(replicas=2, rollout={"maxUnavailable": "100%"})),
            (
                "warning: roles[0].rollout.maxUnavailable: 100% lets an update take all 2 replicas "
                "of inference down at once"
            ),
        ),
        (
            service(role(rollout={"maxUnavailable": 1, "strategy": "Recreate"})),
            "warning: roles[0].rollout.maxUnavailable: has no effect with strategy Recreate",
        ),
        (
            service(wait={"level": "Scheduled"}),
            (
                "warning: wait.level: Scheduled waits for nothing here: the pods are no gang; use "
                "Available or None"
            ),
        ),
        (
            service(rollout={"roleOrder": "Sequential"}),
            "warning: rollout.roleOrder: has no effect: a single role runs pods",
        ),
    ],
)
def test_findings(manifest: dict[str, Any], expected: str) -> None:
    assert said(manifest) == [expected]
