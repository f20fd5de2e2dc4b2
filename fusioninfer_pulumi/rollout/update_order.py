"""The order of an update.

`order_update` lists the LeaderWorkerSets of a service in their order. `choose_next_lws` returns the
ones that may change now; `rollout/state_machine.py` calls it after every observation.

New LeaderWorkerSets restart no pods. Required ones are created before any update, because
restarting pods may need them to complete their gang. Optional ones are created after all updates,
because they might take the accelerators of a restarting pod.

Prefill and decode of two releases may reject each other's KV cache. An update that changes the pair
revision therefore keeps prefill replicas of both revisions while decode changes
(`_assign_pair_stages`).

With `rollout.level: Group`, at most `rollout.maxUnavailable` serving groups change at a time. All
required LeaderWorkerSets of a group change together (role by role with `roleOrder: Sequential`),
then its optional ones. The next group follows when the required ones are available again. So
prefill and decode of a group serve the same revision, except during its update with `Sequential`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import (
    DEFAULT_TIMEOUT,
    Layout,
    RoleOrder,
    RolloutLevel,
    RolloutStrategy,
)
from fusioninfer_pulumi.kube.durations import multiply
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import get_gang_minima, get_required_replicas
from fusioninfer_pulumi.topology.role_plan import (
    LwsPlan,
    RolePlan,
    RoleRollout,
    resolve_max_unavailable,
)


class LwsStep(NamedTuple):
    """The update of one LeaderWorkerSet.

    Attributes:
        unit: What `limit` counts: the LeaderWorkerSet's name, or the index of its serving group.
        limit: How many units of `limited_role` may be unavailable at a time, or None for all.
        limited_role: Its role; empty if the units of the whole service share one `limit`.
        stage: It changes after all steps of a lower stage with the same `stage_scope`. The stage is
            0 unless `roleOrder` is `Sequential` or prefill and decode change to another pair
            revision.
        is_required: Whether the service needs it; an optional one runs if capacity is left.
        is_frozen: Whether `rollout.partition` keeps its pod template unchanged.
        timeout: `rollout.timeout`, multiplied by the replicas that restart one after the other.
        has_optional_replicas: Whether some of its replicas are optional and may stay pending.
        is_autoscaled: Whether an autoscaler sets its replicas.
        is_per_role: Whether it runs all replicas of its role, in its group (`layout: PerRole`).
    """

    name: str
    role: str
    limited_role: str
    unit: str
    limit: int | None
    stage: int
    stage_scope: str
    is_required: bool
    is_frozen: bool
    rollout: RoleRollout
    timeout: str
    has_optional_replicas: bool = False
    is_autoscaled: bool = False
    is_per_role: bool = False

    @property
    def blocks_others(self) -> bool:
        """Whether other LeaderWorkerSets wait until it is available again."""
        return self.is_required and self.rollout.strategy is RolloutStrategy.ROLLING

    def describe_timeout(self) -> str:
        """Return `timeout` with the setting it is computed from, for messages."""
        setting = self.rollout.timeout
        each = "" if self.timeout == setting else f" {setting} per replica"
        return f"{self.timeout} (rollout.timeout{each})"


def is_group_rollout(plan: ServicePlan) -> bool:
    """Return whether the service is updated one serving group after the other."""
    return plan.rollout.level is RolloutLevel.GROUP and plan.shape.groups is not None


def resolve_group_rollout(plan: ServicePlan) -> RoleRollout:
    """Return rollout settings whose numbers count serving groups instead of replicas."""
    rollout = plan.rollout
    limit = 1 if rollout.max_unavailable is None else rollout.max_unavailable
    return RoleRollout(
        strategy=rollout.strategy or RolloutStrategy.ROLLING,
        max_unavailable=resolve_max_unavailable(limit, plan.shape.groups or 0),
        max_surge=0,
        partition=rollout.partition or 0,
        timeout=rollout.timeout or DEFAULT_TIMEOUT,
    )


def find_pair_changes(plan: ServicePlan, before: Mapping[str, tuple[str, str]]) -> dict[str, bool]:
    """Return whether each existing LeaderWorkerSet gets another pair revision, by name.

    LeaderWorkerSets whose new pair revision is unknown are omitted. If replicas join or leave a
    gang, the result is empty, so that no stage delays a replica that the gang waits for.

    Args:
        plan: The service after the update.
        before: Pair revision and `GangPlan.reference` of existing LeaderWorkerSets by name; both
            may be empty.
    """
    gang = "" if plan.gang is None else plan.gang.reference
    if any(reference != gang for _, reference in before.values()):
        return {}
    after = {lws.name: role.pods.pair_revision for role in plan.roles for lws in role.lws}
    return {name: pair != after[name] for name, (pair, _) in before.items() if after.get(name)}


def order_update(
    plan: ServicePlan, pair_changes: Mapping[str, bool] | None = None
) -> tuple[LwsStep, ...]:
    """Return the LeaderWorkerSets of a service in the order in which an update changes them.

    They change role by role; with `level: Group`, group by group from the highest index. In each
    role or group, required replicas come before optional ones, and high ordinals before low ones.
    `pair_changes` is the result of `find_pair_changes`.
    """
    steps = [_build_step(plan, role, lws) for role in plan.roles for lws in reversed(role.lws)]
    stages = _assign_pair_stages(plan, steps, pair_changes or {})
    base_stage = min((step.stage for step in steps if step.name in stages), default=0)
    for index, step in enumerate(steps):
        if step.name in stages:
            scope = "prefill and decode"
            if plan.rollout.role_order is RoleOrder.SEQUENTIAL:
                scope = step.stage_scope
            stage = base_stage + stages[step.name]
            steps[index] = step._replace(stage=stage, stage_scope=scope)
    positions = {role.name: position for position, role in enumerate(plan.roles)}
    groups = {lws.name: lws.group or 0 for role in plan.roles for lws in role.lws}

    def sort_key(step: LwsStep) -> tuple[int, ...]:
        if is_group_rollout(plan):
            return (-groups[step.name], not step.is_required, positions[step.role])
        return (positions[step.role], not step.is_required)

    return tuple(sorted(steps, key=sort_key))


def has_pair_stages(plan: ServicePlan, pair_changes: Mapping[str, bool]) -> bool:
    """Return whether decode pods have a prefill pod of their own revision throughout the update."""
    return bool(_assign_pair_stages(plan, order_update(plan), pair_changes))


def _assign_pair_stages(
    plan: ServicePlan, steps: Sequence[LwsStep], pair_changes: Mapping[str, bool]
) -> dict[str, int]:
    """Return the stages in which prefill and decode change to another pair revision, by name.

    Half of the prefill replicas change first, then decode, then the rest of prefill, so that each
    decode pod always has a prefill pod of its own revision. No order achieves this with one prefill
    replica, with several replicas in one LeaderWorkerSet, or if replicas do not wait for each
    other. The result is then empty. It is also empty for serving groups, which are pairs already.
    """
    types = {role.name: role.component_type for role in plan.roles}
    prefill = [step for step in steps if types[step.role] is ComponentType.PREFILLER]
    decode = [step for step in steps if types[step.role] is ComponentType.DECODER]
    rolling = all(
        step.rollout.strategy is RolloutStrategy.ROLLING and not step.is_per_role
        for step in (*prefill, *decode)
    )
    if plan.shape.groups is not None or not decode or not rolling:
        return {}
    frozen_prefill = [step.name for step in prefill if step.is_frozen and step.name in pair_changes]
    outdated = [
        step.name
        for step in prefill
        if pair_changes.get(step.name) and step.is_required and not step.is_frozen
    ]
    already_updated = [
        step.name for step in prefill if pair_changes.get(step.name) is False and not step.is_frozen
    ]
    early = outdated[: len(outdated) // 2]
    if not early and frozen_prefill and not already_updated:
        # A frozen replica serves the old revision, so a single outdated one may change first.
        early = outdated
    if not outdated or not (early or already_updated):
        return {}
    stages = {step.name: 1 for step in decode} | {step.name: 0 for step in prefill}
    return stages | {name: 2 for name in outdated if name not in early}


def _build_step(plan: ServicePlan, role: RolePlan, lws: LwsPlan) -> LwsStep:
    rollout = role.rollout
    # Lower ordinals count as the required ones, even if the gang accepts any replicas.
    required = get_required_replicas([role], get_gang_minima(plan.gang))[role.name]
    is_per_role, count = plan.shape.layout is Layout.PER_ROLE, len(lws.replicas)
    is_grouped = is_group_rollout(plan)
    ordinal = lws.replicas[0].index
    sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL
    unit = str(lws.group) if is_grouped else lws.name
    limit, timeout = rollout.parallel_limit, rollout.timeout
    is_frozen = ordinal < rollout.partition and not is_per_role
    if is_per_role and limit is not None:
        # The LeaderWorkerSet controller applies maxUnavailable to the replicas.
        limit = 1
    if is_per_role and rollout.strategy is not RolloutStrategy.RECREATE:
        # Unless the feature gate MaxUnavailableStatefulSet is on, StatefulSets ignore
        # maxUnavailable: the replicas restart one after the other, once the surge replicas are up.
        timeout = multiply(timeout, count + (rollout.max_surge > 0))
    if is_grouped:
        group_rollout = resolve_group_rollout(plan)
        limit = group_rollout.parallel_limit
        is_frozen = (lws.group or 0) < group_rollout.partition
    return LwsStep(
        name=lws.name,
        role=role.name,
        limited_role="" if is_grouped else role.name,
        unit=unit,
        limit=limit,
        # `_assign_pair_stages` divides the stage of a role into three.
        stage=3 * role.position if sequential else 0,
        stage_scope=unit if is_grouped else "",
        is_required=required > 0 if is_per_role else ordinal < required,
        is_frozen=is_frozen,
        rollout=rollout,
        timeout=timeout,
        has_optional_replicas=is_per_role and required < count,
        is_autoscaled=role.is_autoscaled,
        is_per_role=is_per_role,
    )


def choose_next_lws(
    steps: Sequence[LwsStep],
    waiting: Collection[str],
    changing: Collection[str],
    unavailable: Collection[str],
    recently_unavailable: Collection[str] = (),
) -> list[str]:
    """Return the waiting LeaderWorkerSets that may change now, in their order.

    Required LeaderWorkerSets that are unavailable may always change, because that makes no other
    replica unavailable, and may repair a gang. Recently unavailable ones are an exception, because
    they may have missed a few readiness probes and still serve. Available and recently unavailable
    ones may change once all lower stages are done, as long as at most `limit` units are
    unavailable. Optional ones may change once all required ones of their role, or of their serving
    group, have changed and are available again.

    Args:
        steps: The LeaderWorkerSets in the order of the update.
        waiting: LeaderWorkerSets that have yet to change.
        changing: LeaderWorkerSets that have changed and are not available again.
        unavailable: All existing LeaderWorkerSets that are unavailable, for any reason.
        recently_unavailable: Members of `unavailable` that may recover by themselves.
    """
    down = {*unavailable, *changing}
    broken = set(unavailable).difference(recently_unavailable)
    # Optional replicas may stay pending, so nothing waits for them.
    unfinished = [s for s in steps if s.is_required and (s.name in waiting or s.name in changing)]
    first_stage: dict[str, int] = {}
    for step in unfinished:
        scope = step.stage_scope
        first_stage[scope] = min(step.stage, first_stage.get(scope, step.stage))
    blocking = {_find_group_or_role(step) for step in unfinished}
    down_units: dict[str, set[str]] = {}
    for step in steps:
        if step.is_required and step.name in down:
            down_units.setdefault(step.limited_role, set()).add(step.unit)
    # These units are unavailable already, so changing more of their LeaderWorkerSets is no loss.
    unlimited_units = {
        (s.limited_role, s.unit) for s in steps if s.is_required and s.name in {*broken, *changing}
    }
    names = []
    for step in steps:
        must_wait_for_stage = step.stage > first_stage.get(step.stage_scope, step.stage)
        if step.name not in waiting or (must_wait_for_stage and step.name not in broken):
            continue
        if not step.is_required:
            if _find_group_or_role(step) not in blocking:
                names.append(step.name)
            continue
        down_in_role = down_units.setdefault(step.limited_role, set())
        if (
            step.limit is None
            or (step.limited_role, step.unit) in unlimited_units
            or len(down_in_role - {step.unit}) < step.limit
        ):
            down_in_role.add(step.unit)
            unlimited_units.add((step.limited_role, step.unit))
            names.append(step.name)
    return names


def _find_group_or_role(step: LwsStep) -> tuple[str, str]:
    """Return a key of the serving group or role that an optional LeaderWorkerSet waits for."""
    return ("", step.unit) if step.limited_role == "" else (step.limited_role, "")
