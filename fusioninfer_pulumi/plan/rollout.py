"""In which order sets change, what waits for what, and what an update leaves as it is.

The engine knows nothing but a graph of dependencies, and the same graph is obeyed by creations and
by updates. Pods of a gang start only together, so at creation no set may wait for the pods of
another; on an update each has to wait for the one before it. Both hold because the sets themselves
never wait when they are made: patches, which come after all sets, wait for them, and leave on the
live set what makes every later update of it wait. From then on the chain of sets paces the update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.durations import times
from fusioninfer_pulumi.findings import join
from fusioninfer_pulumi.plan.gang import required_replicas
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan, SetPlan
from fusioninfer_pulumi.spec.rollout import (
    DEFAULT_TIMEOUT,
    Layout,
    RoleOrder,
    RoleRolloutArgs,
    RolloutArgs,
    RolloutStrategy,
    WaitLevel,
)

Names = tuple[str, ...]

#: Sets of a role that change side by side at most, so that the graph stays small.
MAX_LANES = 32


@dataclass(frozen=True)
class RoleRollout:
    """How one role changes, with nothing left open.

    Attributes:
        strategy: How.
        max_unavailable: Replicas that may be down because of it.
        max_surge: Replicas that it may start beside those that there are.
        partition: Ordinals below it keep what they have.
        timeout: How long one replica may take.
    """

    strategy: RolloutStrategy
    max_unavailable: int
    max_surge: int
    partition: int
    timeout: str


@dataclass(frozen=True)
class SetStep:
    """One set in the rollout.

    Attributes:
        name: Name of the LeaderWorkerSet.
        role: Its role.
        after: Sets that have to be done before.
        required: Whether the service needs it; the others run where there is room.
        frozen: Whether it keeps the pod template that it has.
        rollout: How its role changes.
        timeout: How long an update of it may take: that of a replica, as often as it takes.
        partial: Whether some of its replicas may lack room for ever.
        scaled_elsewhere: Whether something else sets its replicas.
    """

    name: str
    role: str
    after: tuple[str, ...]
    required: bool
    frozen: bool
    rollout: RoleRollout
    timeout: str
    partial: bool = False
    scaled_elsewhere: bool = False

    @property
    def paced(self) -> bool:
        """Whether a change of it waits until it is available again."""
        return self.required and self.rollout.strategy is not RolloutStrategy.ALL_AT_ONCE


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
        waited for, change after them.
    """
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
    awaited = plan.wait.level in (WaitLevel.AVAILABLE, WaitLevel.SERVING)
    patched = {step.name for step in steps if step.paced or (step.required and awaited)}
    return Rollout(
        tuple(steps), tuple(barrier), frozenset(patched), plan.wait.level, plan.wait.timeout
    )


def role_rollout(service: RolloutArgs, role: RolePlan) -> RoleRollout:
    """How a role changes: its own settings, else the service's, else the defaults."""
    limit = stated(service, role, "max_unavailable")
    # LeaderWorkerSet counts in each set that runs several; sets of one replica count together.
    whole = role.sets and role.sets[0].ordinal is None
    count = role.group_replicas if whole else len(role.replicas)
    return RoleRollout(
        stated(service, role, "strategy") or RolloutStrategy.ROLLING,
        replicas_of(1 if limit is None else limit, count),
        surge_of(stated(service, role, "max_surge") or 0, count),
        stated(service, role, "partition") or 0,
        stated(service, role, "timeout") or DEFAULT_TIMEOUT,
    )


def stated(service: RolloutArgs, role: RolePlan, field: str) -> Any:
    """What a field of `rollout` says for a role, None where neither role nor service states it."""
    own = None if role.args.rollout is None else getattr(role.args.rollout, field)
    return getattr(service, field) if own is None else own


def field_path(role: RolePlan, field: str) -> str:
    """Path of a field of `rollout` as the user wrote it: the role's own, else the service's."""
    alias = RoleRolloutArgs.model_fields[field].alias or field
    own = role.args.rollout is not None and getattr(role.args.rollout, field) is not None
    return join("roles", role.position, "rollout", alias) if own else join("rollout", alias)


def replicas_of(limit: int | str, replicas: int) -> int:
    """A count, or a percentage of the replicas rounded down, but at least 1."""
    if isinstance(limit, int):
        return limit
    return max(1, replicas * int(limit.removesuffix("%")) // 100)


def surge_of(limit: int | str, replicas: int) -> int:
    """A count, or a percentage of the replicas rounded up, as LeaderWorkerSet does; at most all."""
    if isinstance(limit, str):
        limit = -(-replicas * int(limit.removesuffix("%")) // 100)
    return min(limit, replicas)


def required_ordinals(plan: ServicePlan, role: RolePlan) -> int:
    """Replicas that a role, in each serving group, cannot do without: the lowest ordinals.

    The scheduler fills those first.
    """
    if plan.gang is None or plan.gang.sub_groups is None:
        return role.group_replicas
    minima = {group.role: group.minimum for group in plan.gang.sub_groups}
    return min(required_replicas([role], minima)[role.name], role.group_replicas)


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
            steps.append(_whole_role(role, each, rollout, required, before))
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


def _whole_role(
    role: RolePlan, planned: SetPlan, rollout: RoleRollout, required: int, before: Names
) -> SetStep:
    """The one set of a role: LeaderWorkerSet paces what is in it, and holds the partition."""
    count = len(planned.replicas)
    # One after the other, whatever maxUnavailable says: StatefulSets take several pods down at a
    # time only with a feature gate that is off by default, MaxUnavailableStatefulSet.
    steps = 1 if rollout.strategy is RolloutStrategy.RECREATE else count
    return SetStep(
        planned.name,
        role.name,
        before,
        required=required > 0,
        frozen=False,
        rollout=rollout,
        timeout=times(rollout.timeout, steps),
        partial=required < count,
        scaled_elsewhere=role.scaled_elsewhere,
    )
