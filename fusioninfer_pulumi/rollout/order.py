"""The order of an update."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, WaitLevel
from fusioninfer_pulumi.rollout.groups import by_group, group_steps
from fusioninfer_pulumi.rollout.steps import (
    MAX_LANES,
    Names,
    SetStep,
    required_ordinals,
    whole_role,
)
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.role_rollout import RoleRollout, role_rollout
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class Rollout:
    """The order of a whole service.

    Attributes:
        steps: Every set, each after all that it depends on.
        barrier: Sets after which every set has been made: what waits depends on these.
        patched: Sets that get a patch, all of them required.
        level: What an update waits for.
        wait_timeout: How long a new replica may take.
    """

    steps: tuple[SetStep, ...]
    barrier: tuple[str, ...]
    patched: frozenset[str]
    level: WaitLevel
    wait_timeout: str

    @property
    def awaited(self) -> bool:
        """Whether an update waits until the required replicas are available."""
        return self.level.awaits_replicas

    @functools.cached_property
    def by_name(self) -> dict[str, SetStep]:
        """The steps by the name of their set, in the same order."""
        return {step.name: step for step in self.steps}


@dataclass(frozen=True)
class Down:
    """Replicas that do not serve before an update begins.

    Attributes:
        sets: Their sets, which change before the others of a role: that takes nothing more down.
        lasting: How many of a role stay down whatever the update does, by the role's name: they
            count against `max_unavailable`.
    """

    sets: frozenset[str] = frozenset()
    lasting: Mapping[str, int] = field(default_factory=dict)


_NOTHING = Down()


def rollout_plan(
    plan: Topology,
    workers: int | None = None,
    existing: Collection[str] | None = None,
    down: Down = _NOTHING,
) -> Rollout:
    """Orders the sets of a service.

    Args:
        plan: The service.
        workers: Operations that the engine runs at a time, None where nobody knows. A set that
            waits occupies one: one is always left for new sets, which the waiting pods may need.
        existing: Names of the sets that the engine made before, None where nobody knows: then any
            of them may be one that changes.
        down: Replicas that are down, as far as anybody knows; with `level: Group` it says nothing.

    Returns:
        The order. At most `max_unavailable` required replicas of a role change at a time, the
        highest ordinal first; optional ones, which may wait for room for ever and so are not
        waited for, change after them. With `level: Group` all sets of a group change together, and
        at most `max_unavailable` groups. Sets that are new take nothing down and are not waited for
        when they are made: required ones come before all updates, whose pods may need them, and
        optional ones, which may take the room of a pod that restarts, after all.
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
) -> list[SetStep]:
    """The sets as they change, or only those of some names."""
    if by_group(plan):
        return group_steps(plan, workers, only)
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    roles = [role for role in plan.roles if role.replicas]
    side_by_side = 1 if sequential else max(len(roles), 1)
    free = MAX_LANES if workers is None else max(1, (workers - 1) // side_by_side)
    free = min(free, MAX_LANES)
    steps: list[SetStep] = []
    before: Names = ()
    for role in roles:
        sets = [each for each in reversed(role.sets) if only is None or each.name in only]
        chain, ends = _chain(plan, role, sets, before, _Lanes(free, down))
        steps += chain
        if sequential:
            before = ends
    return steps


def _side_by_side(steps: Sequence[SetStep], before: Names) -> list[SetStep]:
    """As many lanes as a graph may have, so that the engine always has something to make."""
    names = [step.name for step in steps]
    return [
        replace(step, after=before if at < MAX_LANES else (names[at - MAX_LANES],))
        for at, step in enumerate(steps)
    ]


def _ends(steps: Sequence[SetStep]) -> Names:
    """The sets that no other one comes after."""
    followed = {name for step in steps for name in step.after}
    return tuple(step.name for step in steps if step.name not in followed)


def _rollout(plan: Topology, steps: list[SetStep]) -> Rollout:
    awaited = plan.wait.level.awaits_replicas
    patched = {step.name for step in steps if step.paced or (step.required and awaited)}
    return Rollout(
        tuple(steps), _ends(steps), frozenset(patched), plan.wait.level, plan.wait.timeout
    )


@dataclass(frozen=True)
class _Lanes:
    """How many sets of a role may change side by side."""

    free: int
    down: Down

    def limit(self, role: RolePlan, rollout: RoleRollout) -> int:
        if rollout.side_by_side is None:
            return self.free
        lasting = self.down.lasting.get(role.name, 0)
        return min(max(1, rollout.side_by_side - lasting), self.free)


def _chain(
    plan: Topology, role: RolePlan, sets: Sequence[SetPlan], before: Names, lanes: _Lanes
) -> tuple[list[SetStep], Names]:
    """Sets of one role, and those after which all of them have been made."""
    rollout = role_rollout(plan.rollout, role)
    required = required_ordinals(plan, role)
    steps: list[SetStep] = []
    if plan.layout is Layout.PER_ROLE:
        # LeaderWorkerSet paces the replicas of a set; here the sets of serving groups take turns.
        for each in sets:
            steps.append(whole_role(role, each, rollout, required, before))
            before = (each.name,)
        return steps, before
    # What is down already, then the highest group and ordinal. An optional replica goes down when
    # all required ones are back.
    needed = [each for each in sets if each.replicas[0].index < required]
    broken = [each for each in needed if each.name in lanes.down.sets]
    whole = [each for each in needed if each.name not in lanes.down.sets]
    others = [each for each in sets if each.replicas[0].index >= required]
    limit = lanes.limit(role, rollout)
    for part, width in ((broken, lanes.free), (whole, limit), (others, limit)):
        names = [each.name for each in part]
        for position, each in enumerate(part):
            after = before if position < width else (names[position - width],)
            ordinal = each.replicas[0].index
            steps.append(
                SetStep(
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
