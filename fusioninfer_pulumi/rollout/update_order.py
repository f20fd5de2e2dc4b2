"""The order of an update: which LeaderWorkerSets may change now.

`update_order` lists the LeaderWorkerSets of a service in their order. `next_lws` returns those that
may change now; `rollout/state_machine.py` calls it whenever something has changed.

New LeaderWorkerSets do not disrupt running replicas. Required ones are created before any update,
because restarting pods may need them to complete their gang. Optional ones are created after all
updates, because they might take the accelerators of a pod that restarts.

Prefill and decode of two releases may reject each other's KV cache. An update that changes the pair
revision therefore keeps prefill replicas of both revisions while decode changes (`_pair_stages`).

With `rollout.level: Group` whole serving groups change, one after the other: all LeaderWorkerSets
of a group together, and the next group when the required ones are available again. The other groups
serve meanwhile, and prefill and decode of one group have the same revision.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import (
    DEFAULT_TIMEOUT,
    Layout,
    RoleOrder,
    RolloutLevel,
    RolloutStrategy,
)
from fusioninfer_pulumi.kube.durations import times
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import gang_minima, required_replicas
from fusioninfer_pulumi.topology.role_plan import (
    LwsPlan,
    RolePlan,
    RoleRollout,
    resolve_max_unavailable,
)


@dataclass(frozen=True)
class LwsStep:
    """The update of one LeaderWorkerSet.

    Attributes:
        queue: LeaderWorkerSets of one queue share `limit`.
        unit: What counts as one for `limit`: the LeaderWorkerSet, or its whole serving group.
        limit: Units of the queue that may be unavailable at a time, None for all.
        stage: It waits for lower stages: with `roleOrder: Sequential`, and where prefill and decode
            change to another pair revision. Otherwise 0.
        scope: LeaderWorkerSets with the same scope wait for each other's stages.
        required: Whether the service needs it; optional ones run if there are enough accelerators.
        frozen: Whether it keeps its pod template.
        timeout: Timeout of its update: a replica's, times the replicas that restart in sequence.
        partial: Whether some of its replicas may stay pending.
        scaled_externally: Whether an autoscaler or another program sets its replicas.
        whole: Whether it runs all replicas of its role.
    """

    name: str
    role: str
    queue: str
    unit: str
    limit: int | None
    stage: int
    scope: str
    required: bool
    frozen: bool
    rollout: RoleRollout
    timeout: str
    partial: bool = False
    scaled_externally: bool = False
    whole: bool = False

    @property
    def blocks_others(self) -> bool:
        """Whether others wait until it is available again."""
        return self.required and self.rollout.strategy is RolloutStrategy.ROLLING


def by_group(plan: ServicePlan) -> bool:
    """Return whether the serving groups of a service change as a whole."""
    return plan.rollout.level is RolloutLevel.GROUP and plan.shape.groups is not None


def group_rollout(plan: ServicePlan) -> RoleRollout:
    """Return the rollout settings of serving groups, which count groups instead of replicas."""
    rollout = plan.rollout
    limit = 1 if rollout.max_unavailable is None else rollout.max_unavailable
    return RoleRollout(
        rollout.strategy or RolloutStrategy.ROLLING,
        resolve_max_unavailable(limit, plan.shape.groups or 0),
        0,
        rollout.partition or 0,
        rollout.timeout or DEFAULT_TIMEOUT,
    )


def count_required_ordinals(plan: ServicePlan, role: RolePlan) -> int:
    """Return how many replicas of a role, in each serving group, are required.

    These are the lowest ordinals, which the scheduler places first.
    """
    return min(required_replicas([role], gang_minima(plan.gang))[role.name], role.group_replicas)


def find_pair_changes(plan: ServicePlan, before: Mapping[str, tuple[str, str]]) -> dict[str, bool]:
    """Return whether each existing LeaderWorkerSet gets another pair revision, by name.

    Empty where the pair revision is unknown. Also empty where replicas join or leave a gang: they
    change together, because the gang waits for all of them.

    Args:
        plan: The service after the update.
        before: Pair revision and PodGroup of existing LeaderWorkerSets by name, both may be empty.
    """
    gang = "" if plan.gang is None else plan.gang.reference
    if any(reference != gang for _, reference in before.values()):
        return {}
    after = {lws.name: role.pods.pair_revision for role in plan.roles for lws in role.lws}
    return {name: pair != after[name] for name, (pair, _) in before.items() if after.get(name)}


def update_order(
    plan: ServicePlan, pair_changes: Mapping[str, bool] | None = None
) -> tuple[LwsStep, ...]:
    """Return the LeaderWorkerSets of a service in the order in which an update changes them.

    Role by role, or with `level: Group` serving group by serving group, the highest first. In each
    role the highest ordinal comes first, and required replicas come before optional ones.
    `pair_changes` is the result of `find_pair_changes`.
    """
    steps = [_step(plan, role, lws) for role in plan.roles for lws in reversed(role.lws)]
    stages = _pair_stages(plan, steps, pair_changes or {})
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    first = min((step.stage for step in steps if step.name in stages), default=0)
    steps = [
        replace(
            step,
            stage=first + stages[step.name],
            scope=step.scope if sequential else "prefill and decode",
        )
        if step.name in stages
        else step
        for step in steps
    ]
    positions = {role.name: position for position, role in enumerate(plan.roles)}
    groups = {lws.name: lws.group or 0 for role in plan.roles for lws in role.lws}

    def sort_key(step: LwsStep) -> tuple[int, ...]:
        if by_group(plan):
            return (-groups[step.name], not step.required, positions[step.role])
        return (positions[step.role], not step.required)

    return tuple(sorted(steps, key=sort_key))


def has_pair_stages(plan: ServicePlan, pair_changes: Mapping[str, bool]) -> bool:
    """Return whether each decode pod finds a prefill pod of its pair revision during the update."""
    return bool(_pair_stages(plan, update_order(plan), pair_changes))


def _pair_stages(
    plan: ServicePlan, steps: Sequence[LwsStep], pair_changes: Mapping[str, bool]
) -> dict[str, int]:
    """Return the stages in which prefill and decode change to another pair revision, by name.

    Half of the prefill replicas change first, then decode, then the rest of prefill: each decode
    pod then finds a prefill pod of its own revision at any time. Empty where no order has that
    effect: with one prefill replica, with several replicas in one LeaderWorkerSet, and where
    replicas do not wait for each other. Serving groups are pairs already.
    """
    types = {role.name: role.component_type for role in plan.roles}
    prefill = [step for step in steps if types[step.role] is ComponentType.PREFILLER]
    decode = [step for step in steps if types[step.role] is ComponentType.DECODER]
    rolling = all(
        step.rollout.strategy is RolloutStrategy.ROLLING and not step.whole
        for step in (*prefill, *decode)
    )
    if plan.shape.groups is not None or not decode or not rolling:
        return {}
    kept = [step.name for step in prefill if step.frozen and step.name in pair_changes]
    old = [
        step.name
        for step in prefill
        if pair_changes.get(step.name) and step.required and not step.frozen
    ]
    changed = {step.name for step in prefill if pair_changes.get(step.name) is False} - {*kept}
    early = old[: len(old) // 2 or (1 if kept and not changed else 0)]
    if not old or not (early or changed):
        return {}
    stages = {step.name: 1 for step in decode} | {step.name: 0 for step in prefill}
    return stages | {name: 2 for name in old if name not in early}


def _step(plan: ServicePlan, role: RolePlan, planned: LwsPlan) -> LwsStep:
    rollout, required = role.rollout, count_required_ordinals(plan, role)
    whole, count = plan.shape.layout is Layout.PER_ROLE, len(planned.replicas)
    grouped = by_group(plan)
    ordinal = planned.replicas[0].index
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    unit = str(planned.group) if grouped else planned.name
    limit, timeout = rollout.parallel_limit, rollout.timeout
    frozen = ordinal < rollout.partition and not whole
    if whole and limit is not None:
        # LeaderWorkerSet orders its own replicas; serving groups are updated one by one.
        limit = 1
    if whole and rollout.strategy is not RolloutStrategy.RECREATE:
        # StatefulSets honour maxUnavailable only with the feature gate MaxUnavailableStatefulSet;
        # without it the replicas restart in sequence, after those of the surge have started.
        timeout = times(timeout, count + (rollout.max_surge > 0))
    if grouped:
        group_settings = group_rollout(plan)
        limit = group_settings.parallel_limit
        frozen = (planned.group or 0) < group_settings.partition
    return LwsStep(
        name=planned.name,
        role=role.name,
        queue="" if grouped else role.name,
        unit=unit,
        limit=limit,
        # `_pair_stages` divides the stage of a role into three.
        stage=3 * role.position if sequential else 0,
        scope=unit if grouped else "",
        required=required > 0 if whole else ordinal < required,
        frozen=frozen,
        rollout=rollout,
        timeout=timeout,
        partial=whole and required < count,
        scaled_externally=role.scaled_externally,
        whole=whole,
    )


def next_lws(
    steps: Sequence[LwsStep],
    waiting: Collection[str],
    changing: Collection[str],
    unavailable: Collection[str],
) -> list[str]:
    """Return the waiting LeaderWorkerSets that may change now, in their order.

    Required LeaderWorkerSets that are unavailable may always change: that makes no other replica
    unavailable, and may repair a gang. Others may change while at most `limit` units of a queue are
    unavailable, and when all lower stages are done.
    Optional ones follow when all required ones of their role, or of their serving group, are
    available again.

    Args:
        steps: The order.
        waiting: LeaderWorkerSets that will change and have not begun.
        changing: Those that have begun and are not available again.
        unavailable: All existing LeaderWorkerSets that are unavailable, for any reason.
    """
    down = {*unavailable, *changing}
    # Optional replicas may stay pending, so nothing waits for them.
    busy = [s for s in steps if s.required and (s.name in waiting or s.name in changing)]
    first_stage: dict[str, int] = {}
    for step in busy:
        first_stage[step.scope] = min(step.stage, first_stage.get(step.scope, step.stage))
    needed = {_mates(step) for step in busy}
    units: dict[str, set[str]] = {}
    for step in steps:
        if step.required and step.name in down:
            units.setdefault(step.queue, set()).add(step.unit)
    names = []
    for step in steps:
        late = step.stage > first_stage.get(step.scope, step.stage)
        if step.name not in waiting or (late and step.name not in unavailable):
            continue
        if not step.required:
            if _mates(step) not in needed:
                names.append(step.name)
            continue
        unavailable_units = units.setdefault(step.queue, set())
        if (
            step.limit is None
            or step.unit in unavailable_units
            or len(unavailable_units) < step.limit
        ):
            unavailable_units.add(step.unit)
            names.append(step.name)
    return names


def _mates(step: LwsStep) -> tuple[str, str]:
    """Describe what an optional LeaderWorkerSet waits for: its serving group, or its role."""
    return ("", step.unit) if step.queue == "" else (step.queue, "")
