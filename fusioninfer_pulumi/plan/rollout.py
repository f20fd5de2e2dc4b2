"""In which order sets change, what waits for what, and what an update leaves as it is.

The engine knows nothing but a graph of dependencies, and the same graph is obeyed by creations and
by updates. Pods of a gang start only together, so at creation no set may wait for the pods of
another; on an update each has to wait for the one before it. Both hold because the sets themselves
never wait when they are made: patches, which come after all sets, wait for them, and leave on the
live set what makes every later update of it wait. From then on the chain of sets paces the update.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.plan.rollout_groups import group_steps
from fusioninfer_pulumi.plan.rollout_steps import (
    MAX_LANES,
    Names,
    SetStep,
    required_ordinals,
    role_rollout,
    whole_role,
)
from fusioninfer_pulumi.spec.rollout import (
    Layout,
    RoleOrder,
    RolloutLevel,
    RolloutStrategy,
    WaitLevel,
)


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
        return self.level in (WaitLevel.AVAILABLE, WaitLevel.SERVING)


def rollout_plan(plan: ServicePlan, workers: int | None = None) -> Rollout:
    """Orders the sets of a service.

    Args:
        plan: The service.
        workers: Operations that the engine runs at a time, None where nobody knows. A set that
            waits occupies one: one is always left for new sets, which the waiting pods may need.

    Returns:
        The order. At most `max_unavailable` required replicas of a role change at a time, the
        highest ordinal first; optional ones, which may wait for room for ever and so are not
        waited for, change after them. With `level: Group` all sets of a group change together, and
        at most `max_unavailable` groups.
    """
    if plan.rollout.level is RolloutLevel.GROUP and plan.groups is not None:
        return _rollout(plan, *group_steps(plan, workers))
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    roles = [role for role in plan.roles if role.replicas]
    side_by_side = 1 if sequential else max(len(roles), 1)
    free = MAX_LANES if workers is None else max(1, (workers - 1) // side_by_side)
    free = min(free, MAX_LANES)
    steps: list[SetStep] = []
    barrier: list[str] = []
    before: Names = ()
    for role in roles:
        chain, ends = _chain(plan, role, free, before)
        steps += chain
        if sequential:
            before, barrier = ends, list(ends)
        else:
            barrier += ends
    return _rollout(plan, steps, tuple(barrier))


def _rollout(plan: ServicePlan, steps: list[SetStep], barrier: Names) -> Rollout:
    awaited = plan.wait.level in (WaitLevel.AVAILABLE, WaitLevel.SERVING)
    patched = {step.name for step in steps if step.paced or (step.required and awaited)}
    return Rollout(tuple(steps), barrier, frozenset(patched), plan.wait.level, plan.wait.timeout)


def _chain(
    plan: ServicePlan, role: RolePlan, free: int, before: Names
) -> tuple[list[SetStep], Names]:
    """The sets of one role, and those after which all of them have been made."""
    rollout = role_rollout(plan.rollout, role)
    required = required_ordinals(plan, role)
    rolling = rollout.strategy is RolloutStrategy.ROLLING
    limit = min(rollout.max_unavailable if rolling else MAX_LANES, free)
    steps: list[SetStep] = []
    if plan.layout is Layout.PER_ROLE:
        # LeaderWorkerSet paces the replicas of a set; here the sets of serving groups take turns.
        for each in reversed(role.sets):
            steps.append(whole_role(role, each, rollout, required, before))
            before = (each.name,)
        return steps, before
    # The highest group and ordinal first. An optional replica goes down when all required ones are
    # back.
    needed = [each for each in reversed(role.sets) if each.replicas[0].index < required]
    others = [each for each in reversed(role.sets) if each.replicas[0].index >= required]
    for part in (needed, others):
        names = [each.name for each in part]
        for position, each in enumerate(part):
            after = before if position < limit else (names[position - limit],)
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
        before = tuple(names[-limit:]) or before
    return steps, before
