"""Group-level updates as a graph: whole groups, the highest first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollouts import WORKERS, ancestors, grouped_plans
from samples import Manifest, nodes, plan_of, problems, role, said, service, warnings

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.rollout.groups import group_rollout
from fusioninfer_pulumi.rollout.order import Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import MAX_LANES
from fusioninfer_pulumi.service_plan import ServicePlan

Drawn = tuple[ServicePlan, Rollout]


@st.composite
def rollouts(draw: st.DrawFn) -> Drawn:
    plan = draw(grouped_plans())
    return plan, rollout_plan(plan, draw(WORKERS))


def groups_of(plan: ServicePlan) -> dict[str, int]:
    """Group of each set."""
    return {each.name: each.group or 0 for one in plan.roles for each in one.lws}


@given(rollouts())
def test_every_set_stands_once_and_what_waits_comes_after_all(drawn: Drawn) -> None:
    plan, rollout = drawn
    assert sorted(step.name for step in rollout.steps) == sorted(groups_of(plan))
    before = ancestors(rollout)
    reached = set(rollout.barrier).union(*(before[name] for name in rollout.barrier))
    # So nothing waits before all sets are made, and no member of a gang waits for another.
    assert reached == set(groups_of(plan))


@given(rollouts())
def test_the_graph_stays_small(drawn: Drawn) -> None:
    _, rollout = drawn
    assert all(len(step.after) <= MAX_LANES for step in rollout.steps)
    assert len(rollout.barrier) <= 3 * MAX_LANES


@given(rollouts())
def test_at_most_max_unavailable_groups_change_at_once(drawn: Drawn) -> None:
    plan, rollout = drawn
    if plan.rollout.strategy is None or plan.rollout.strategy.value != "Rolling":
        return
    before, group = ancestors(rollout), groups_of(plan)
    paced = {step.name for step in rollout.steps if step.paced}
    order = [step.name for step in rollout.steps]
    done: set[str] = set()
    while len(done) < len(paced):
        # All that the engine may have under way; optional sets do not hold anything up.
        under_way = [n for n in order if n in paced - done and before[n] & paced <= done]
        assert 1 <= len({group[name] for name in under_way}) <= group_rollout(plan).max_unavailable
        done.add(under_way[-1])


@given(rollouts())
def test_higher_groups_go_first_and_optional_sets_go_with_their_group(drawn: Drawn) -> None:
    plan, rollout = drawn
    group = groups_of(plan)
    for name, earlier in ancestors(rollout).items():
        assert all(group[other] >= group[name] for other in earlier)
    required = {step.name for step in rollout.steps if step.required}
    before = ancestors(rollout)
    for step in rollout.steps:
        if step.required:
            # Nothing that is needed waits for what may lack room for ever.
            assert before[step.name] <= required


@given(rollouts())
def test_the_partition_holds_back_whole_groups(drawn: Drawn) -> None:
    plan, rollout = drawn
    for step in rollout.steps:
        assert step.frozen == (groups_of(plan)[step.name] < group_rollout(plan).partition)


@given(rollouts())
def test_waiting_sets_leave_a_worker_for_the_others(drawn: Drawn) -> None:
    plan, _ = drawn
    for workers in (2, 8, 16):
        rollout = rollout_plan(plan, workers)
        before = ancestors(rollout)
        first = [step for step in rollout.steps if step.paced and not before[step.name]]
        assert len(first) <= max(workers - 1, 1)


def grouped(**rollout: Any) -> Manifest:
    return service(
        role("a", replicas=2), role("b"), groups=3, rollout={"level": "Group", **rollout}
    )


def order(manifest: Manifest) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.name, step.after) for step in rollout_plan(plan_of(manifest)).steps]


def test_a_group_waits_for_all_of_the_one_before() -> None:
    def whole(group: int) -> tuple[str, ...]:
        return (f"svc-{group}-a-1", f"svc-{group}-a-0", f"svc-{group}-b-0")

    assert order(grouped()) == [
        *((name, ()) for name in whole(2)),
        *((name, whole(2)) for name in whole(1)),
        *((name, whole(1)) for name in whole(0)),
    ]
    assert order(grouped(maxUnavailable=2))[6:] == [(name, whole(2)) for name in whole(0)]


def test_sequential_roles_change_in_order_inside_of_a_group() -> None:
    assert order(grouped(roleOrder="Sequential"))[:4] == [
        ("svc-2-a-1", ()),
        ("svc-2-a-0", ()),
        ("svc-2-b-0", ("svc-2-a-1", "svc-2-a-0")),
        ("svc-1-a-1", ("svc-2-b-0",)),
    ]


def test_at_the_level_of_roles_groups_and_ordinals_go_from_the_last() -> None:
    manifest = grouped(level="Role")
    chain = [name for name, _ in order(manifest) if "-a-" in name]
    assert chain == [f"svc-{group}-a-{replica}" for group in (2, 1, 0) for replica in (1, 0)]


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        (service(rollout={"level": "Group"}), "rollout.level: Group needs groups"),
        (
            service(role(rollout={"partition": 1}), groups=2, rollout={"level": "Group"}),
            "roles[0].rollout.partition: applies to one role",
        ),
        (grouped(maxSurge=1), "rollout.maxSurge: counts replicas"),
        (grouped(maxUnavailable=0), "rollout.maxUnavailable: must be at least 1"),
        (grouped(level="Pod"), "rollout.level: must be one of Role, Group"),
    ],
)
def test_what_a_group_level_update_cannot_do_is_refused(manifest: Manifest, found: str) -> None:
    refused = problems(manifest)
    assert any(each.startswith(found) for each in refused), refused


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        (grouped(partition=4), "rollout.partition: 4 is above the groups (3)"),
        (grouped(maxUnavailable=3), "rollout.maxUnavailable: 3 lets an update take all 3 groups"),
        (
            service(groups=1, rollout={"level": "Group"}),
            "rollout.level: Group lets an update take the only group down",
        ),
    ],
)
def test_what_is_probably_wrong_is_said(manifest: Manifest, found: str) -> None:
    told = warnings(manifest)
    assert any(each.startswith(f"warning: {found}") for each in told), told


def test_groups_that_are_gangs_are_told_of_the_other_level() -> None:
    gang = service(role(multinode=nodes(2, launcher="none")), groups=2)
    assert any("rollout.level: is Role" in each for each in said(gang, Severity.INFO))
    gang["spec"]["rollout"] = {"level": "Role"}
    assert not any("rollout.level" in each for each in said(gang))
