"""The order of LeaderWorkerSets with `rollout.level: Group`: whole serving groups in sequence.

All LeaderWorkerSets of a group change together, and the next group follows when its required
ones are available again. The other groups serve meanwhile, and prefill and decode of one group
have the same revision. At creation nothing waits: different groups are different gangs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.rollout.steps import (
    MAX_LANES,
    LwsStep,
    Names,
    required_ordinals,
    whole_role,
)
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import replicas_of, role_rollout
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class GroupRollout:
    """The rolling update settings of serving groups, with defaults.

    Attributes:
        max_unavailable: Groups that the update may make unavailable.
        partition: Groups with lower indexes keep their pod templates.
        strategy: The rollout strategy.
    """

    max_unavailable: int
    partition: int
    strategy: RolloutStrategy

    @property
    def side_by_side(self) -> int | None:
        """Groups that may change at the same time, None for all."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


def by_group(plan: Topology) -> bool:
    """Returns whether the serving groups of a service change as a whole."""
    return plan.rollout.level is RolloutLevel.GROUP and plan.groups is not None


def group_rollout(plan: Topology) -> GroupRollout:
    """Returns the settings of a service's groups: its `rollout`, else the defaults."""
    given = plan.rollout.max_unavailable
    groups = plan.groups or 0
    return GroupRollout(
        replicas_of(1 if given is None else given, groups),
        plan.rollout.partition or 0,
        plan.rollout.strategy or RolloutStrategy.ROLLING,
    )


def group_steps(
    plan: Topology, workers: int | None, only: Collection[str] | None = None
) -> list[LwsStep]:
    """Returns the steps of a service group by group, the highest index first.

    Args:
        plan: A service with groups.
        workers: Operations that Pulumi runs in parallel, None if unknown.
        only: Names of the LeaderWorkerSets to order, None for all.
    """
    free = MAX_LANES if workers is None else min(max(1, workers - 1), MAX_LANES)
    rollout = group_rollout(plan)
    most = MAX_LANES if rollout.side_by_side is None else rollout.side_by_side
    lanes = max(1, min(most, free))
    # A LeaderWorkerSet depends on one row of required and one of optional ones.
    width = max(1, min(free // lanes, MAX_LANES // 2))
    steps: list[LwsStep] = []
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
) -> tuple[list[LwsStep], tuple[Names, Names]]:
    """Returns the steps of one group, and the last row of its required and of its optional ones."""
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    stages = [[role] for role in plan.roles] if sequential else [list(plan.roles)]
    needed, optional = before
    steps: list[LwsStep] = []
    for stage in stages:
        required, others = _required_and_optional(plan, group, stage, only)
        first, needed_ends = _rows(plan, required, needed, width)
        # Optional ones may stay pending: only other optional ones wait for them.
        last, optional = _rows(plan, others, (*needed, *optional), width, or_else=optional)
        steps += first + last
        needed = needed_ends
    return steps, (needed, optional)


def _required_and_optional(
    plan: Topology, group: int, roles: Sequence[RolePlan], only: Collection[str] | None
) -> tuple[list[tuple[RolePlan, LwsPlan]], list[tuple[RolePlan, LwsPlan]]]:
    required: list[tuple[RolePlan, LwsPlan]] = []
    others: list[tuple[RolePlan, LwsPlan]] = []
    for role in roles:
        for each in reversed(role.lws):
            if each.group == group and (only is None or each.name in only):
                needed = each.replicas[0].index < required_ordinals(plan, role)
                (required if needed else others).append((role, each))
    return required, others


def _rows(
    plan: Topology,
    lws: Sequence[tuple[RolePlan, LwsPlan]],
    before: Names,
    width: int,
    or_else: Names | None = None,
) -> tuple[list[LwsStep], Names]:
    """Returns the steps in rows of `width` that change in parallel, and the last row's names."""
    names = [each.name for _, each in lws]
    steps = [
        _step(plan, role, each, before if at < width else (names[at - width],))
        for at, (role, each) in enumerate(lws)
    ]
    return steps, tuple(names[-width:]) or (before if or_else is None else or_else)


def _step(plan: Topology, role: RolePlan, planned: LwsPlan, after: Names) -> LwsStep:
    rollout = role_rollout(plan.rollout, role)
    required = required_ordinals(plan, role)
    if plan.layout is Layout.PER_ROLE:
        return whole_role(role, planned, rollout, required, after)
    return LwsStep(
        planned.name,
        role.name,
        after,
        required=planned.replicas[0].index < required,
        frozen=False,
        rollout=rollout,
        timeout=rollout.timeout,
    )
