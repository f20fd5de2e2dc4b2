"""The order of sets where serving groups change as a whole, one after the other.

All sets of a group go down together, and the next group follows when those that it needs are back:
the other groups serve meanwhile, and prefill and decode of a group are of one revision. What holds
at creation holds here too: different groups are different gangs, and no set waits when it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.rollout.steps import (
    MAX_LANES,
    Names,
    SetStep,
    required_ordinals,
    whole_role,
)
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.role_rollout import replicas_of, role_rollout
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class GroupRollout:
    """How groups change, with nothing left open.

    Attributes:
        max_unavailable: Groups that may be down because of an update.
        partition: Groups below it keep what they have.
        strategy: How.
    """

    max_unavailable: int
    partition: int
    strategy: RolloutStrategy

    @property
    def side_by_side(self) -> int | None:
        """Groups that change at a time, None for all."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


def by_group(plan: Topology) -> bool:
    """Tells whether the serving groups of a service change as a whole."""
    return plan.rollout.level is RolloutLevel.GROUP and plan.groups is not None


def group_rollout(plan: Topology) -> GroupRollout:
    """How the groups of a service change, by its `rollout` and the defaults."""
    given = plan.rollout.max_unavailable
    groups = plan.groups or 0
    return GroupRollout(
        replicas_of(1 if given is None else given, groups),
        plan.rollout.partition or 0,
        plan.rollout.strategy or RolloutStrategy.ROLLING,
    )


def group_steps(
    plan: Topology, workers: int | None, only: Collection[str] | None = None
) -> list[SetStep]:
    """Orders the sets of a service group by group, the highest first.

    Args:
        plan: A service with groups.
        workers: Operations that the engine runs at a time, None where nobody knows.
        only: Names of the sets that are meant, None for all.

    Returns:
        The sets.
    """
    free = MAX_LANES if workers is None else min(max(1, workers - 1), MAX_LANES)
    rollout = group_rollout(plan)
    most = MAX_LANES if rollout.side_by_side is None else rollout.side_by_side
    lanes = max(1, min(most, free))
    # A set depends on one row of required and one of optional sets.
    width = max(1, min(free // lanes, MAX_LANES // 2))
    steps: list[SetStep] = []
    done: list[tuple[Names, Names]] = []
    for position, group in enumerate(reversed(range(plan.groups or 0))):
        before = done[position - lanes] if position >= lanes else ((), ())
        own, ends = _group(plan, group, before, width, only)
        frozen = group < rollout.partition
        steps += [replace(step, frozen=frozen) for step in own]
        done.append(ends)
    return steps


def _group(
    plan: Topology,
    group: int,
    before: tuple[Names, Names],
    width: int,
    only: Collection[str] | None,
) -> tuple[list[SetStep], tuple[Names, Names]]:
    """The sets of one group, and the last of its required and of its optional ones."""
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    stages = [[role] for role in plan.roles] if sequential else [list(plan.roles)]
    needed, optional = before
    steps: list[SetStep] = []
    for stage in stages:
        required, others = _sets(plan, group, stage, only)
        first, needed_ends = _rows(plan, required, needed, width)
        # Optional sets may lack room for ever, and nothing waits for them but one another.
        last, optional = _rows(plan, others, (*needed, *optional), width, or_else=optional)
        steps += first + last
        needed = needed_ends
    return steps, (needed, optional)


def _sets(
    plan: Topology, group: int, roles: Sequence[RolePlan], only: Collection[str] | None
) -> tuple[list[tuple[RolePlan, SetPlan]], list[tuple[RolePlan, SetPlan]]]:
    required: list[tuple[RolePlan, SetPlan]] = []
    others: list[tuple[RolePlan, SetPlan]] = []
    for role in roles:
        for each in reversed(role.sets):
            if each.group == group and (only is None or each.name in only):
                needed = each.replicas[0].index < required_ordinals(plan, role)
                (required if needed else others).append((role, each))
    return required, others


def _rows(
    plan: Topology,
    sets: Sequence[tuple[RolePlan, SetPlan]],
    before: Names,
    width: int,
    or_else: Names | None = None,
) -> tuple[list[SetStep], Names]:
    """Steps that change side by side, at most `width` of them, and the last row."""
    names = [each.name for _, each in sets]
    steps = [
        _step(plan, role, each, before if at < width else (names[at - width],))
        for at, (role, each) in enumerate(sets)
    ]
    return steps, tuple(names[-width:]) or (before if or_else is None else or_else)


def _step(plan: Topology, role: RolePlan, planned: SetPlan, after: Names) -> SetStep:
    rollout = role_rollout(plan.rollout, role)
    required = required_ordinals(plan, role)
    if plan.layout is Layout.PER_ROLE:
        return whole_role(role, planned, rollout, required, after)
    return SetStep(
        planned.name,
        role.name,
        after,
        required=planned.replicas[0].index < required,
        frozen=False,
        rollout=rollout,
        timeout=rollout.timeout,
    )
