"""The rolling update order of a service's LeaderWorkerSets."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, WaitLevel
from fusioninfer_pulumi.rollout.groups import by_group, group_steps
from fusioninfer_pulumi.rollout.steps import (
    MAX_LANES,
    LwsStep,
    Names,
    required_ordinals,
    whole_role,
)
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import RoleRollout, role_rollout
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class Rollout:
    """The rolling update order of a service.

    Attributes:
        steps: The LeaderWorkerSets, each after all that it depends on.
        barrier: The last LeaderWorkerSets: after these, all are created. Whatever waits for pods
        depends
            on them.
        patched: LeaderWorkerSets that get a patch, all of them required.
        level: What an update waits for.
        wait_timeout: How long a new replica may take.
    """

    steps: tuple[LwsStep, ...]
    barrier: tuple[str, ...]
    patched: frozenset[str]
    level: WaitLevel
    wait_timeout: str

    @property
    def awaited(self) -> bool:
        """Whether an update waits until the required replicas are available."""
        return self.level.awaits_replicas

    @functools.cached_property
    def by_name(self) -> dict[str, LwsStep]:
        """The steps by the name of their LeaderWorkerSet, in the same order."""
        return {step.name: step for step in self.steps}


@dataclass(frozen=True)
class Down:
    """Replicas that are unavailable before an update begins.

    Attributes:
        lws: Their LeaderWorkerSets. They change before others of the role: that makes no further
            replica unavailable.
        lasting: Number of replicas by role that stay unavailable during the update: they count
        against
            `max_unavailable`.
    """

    lws: frozenset[str] = frozenset()
    lasting: Mapping[str, int] = field(default_factory=dict)


_NOTHING = Down()


def rollout_plan(
    plan: Topology,
    workers: int | None = None,
    existing: Collection[str] | None = None,
    down: Down = _NOTHING,
) -> Rollout:
    """Returns the rolling update order of a service.

    At most `max_unavailable` required replicas of a role change at a time, the highest ordinal
    first. Optional replicas follow; nothing waits for them, as they may stay pending. With `level:
    Group` all LeaderWorkerSets of a group change together, at most `max_unavailable` groups at a
    time.

    New LeaderWorkerSets do not disrupt running replicas and are not waited for at creation.
    Required ones come before all updates, whose pods may need them. Optional ones come last: they
    might take the accelerators of a pod that restarts.

    Args:
        plan: The service.
        workers: Operations that Pulumi runs in parallel, None if unknown. Each waiting
        LeaderWorkerSet
            occupies one; one is always left for new ones, which the waiting pods may need.
        existing: Names of the LeaderWorkerSets in the stack, None if unknown: then any may exist.
        down: Replicas known to be unavailable; ignored with `level: Group`.
    """
    every = _ordered(plan, workers, None, down)
    if existing is None:
        return _rollout(plan, every)
    new = [step for step in every if step.name not in existing]
    first = _side_by_side([step for step in new if step.required], ())
    changing = [
        step if step.after else replace(step, after=_ends(first))
        for step in _ordered(plan, workers, existing, down)
    ]
    before = _ends([*first, *changing])
    last = _side_by_side([step for step in new if not step.required], before)
    return _rollout(plan, [*first, *changing, *last])


def _ordered(
    plan: Topology, workers: int | None, only: Collection[str] | None, down: Down
) -> list[LwsStep]:
    """Returns the steps of all LeaderWorkerSets, or only of some names."""
    if by_group(plan):
        return group_steps(plan, workers, only)
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    roles = [role for role in plan.roles if role.replicas]
    side_by_side = 1 if sequential else max(len(roles), 1)
    free = MAX_LANES if workers is None else max(1, (workers - 1) // side_by_side)
    free = min(free, MAX_LANES)
    steps: list[LwsStep] = []
    before: Names = ()
    for role in roles:
        lws = [each for each in reversed(role.lws) if only is None or each.name in only]
        chain, ends = _chain(plan, role, lws, before, _Lanes(free, down))
        steps += chain
        if sequential:
            before = ends
    return steps


def _side_by_side(steps: Sequence[LwsStep], before: Names) -> list[LwsStep]:
    """Returns the steps in as many parallel lanes as the graph may have."""
    names = [step.name for step in steps]
    return [
        replace(step, after=before if at < MAX_LANES else (names[at - MAX_LANES],))
        for at, step in enumerate(steps)
    ]


def _ends(steps: Sequence[LwsStep]) -> Names:
    """Returns the LeaderWorkerSets that no other one depends on."""
    followed = {name for step in steps for name in step.after}
    return tuple(step.name for step in steps if step.name not in followed)


def _rollout(plan: Topology, steps: list[LwsStep]) -> Rollout:
    awaited = plan.wait.level.awaits_replicas
    patched = {step.name for step in steps if step.paced or (step.required and awaited)}
    return Rollout(
        tuple(steps), _ends(steps), frozenset(patched), plan.wait.level, plan.wait.timeout
    )


@dataclass(frozen=True)
class _Lanes:
    """How many LeaderWorkerSets of a role may change in parallel."""

    free: int
    down: Down

    def limit(self, role: RolePlan, rollout: RoleRollout) -> int:
        if rollout.side_by_side is None:
            return self.free
        lasting = self.down.lasting.get(role.name, 0)
        return min(max(1, rollout.side_by_side - lasting), self.free)


def _chain(
    plan: Topology, role: RolePlan, lws: Sequence[LwsPlan], before: Names, lanes: _Lanes
) -> tuple[list[LwsStep], Names]:
    """Returns the steps of one role, and the last ones: after these, all are created."""
    rollout = role_rollout(plan.rollout, role)
    required = required_ordinals(plan, role)
    steps: list[LwsStep] = []
    if plan.layout is Layout.PER_ROLE:
        # LeaderWorkerSet orders its own replicas; those of different serving groups take turns.
        for each in lws:
            steps.append(whole_role(role, each, rollout, required, before))
            before = (each.name,)
        return steps, before
    # First unavailable replicas, then the highest group and ordinal. Optional replicas change when
    # all required ones are available again.
    needed = [each for each in lws if each.replicas[0].index < required]
    broken = [each for each in needed if each.name in lanes.down.lws]
    whole = [each for each in needed if each.name not in lanes.down.lws]
    others = [each for each in lws if each.replicas[0].index >= required]
    limit = lanes.limit(role, rollout)
    for part, width in ((broken, lanes.free), (whole, limit), (others, limit)):
        names = [each.name for each in part]
        for position, each in enumerate(part):
            after = before if position < width else (names[position - width],)
            ordinal = each.replicas[0].index
            steps.append(
                LwsStep(
                    each.name,
                    role.name,
                    after,
                    ordinal < required,
                    ordinal < rollout.partition,
                    rollout,
                    rollout.timeout,
                )
            )
        before = tuple(names[-width:]) or before
    return steps, before
