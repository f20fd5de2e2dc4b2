"""The order of an update.

`order_update` sorts the LeaderWorkerSets of a service in update order. `choose_next_lws` returns
those that may change now; `rollout/state_machine.py`, which defines the terms, calls it after every
observation.

New LeaderWorkerSets restart no pods. Required ones are created before any update, because
restarting pods may need them to complete their gang. Optional ones are created after all updates,
because they might take the accelerators of a restarting pod.

Prefill and decode pods of different releases may reject each other's KV cache. An update that
changes the pair revision therefore keeps prefill replicas of both revisions while decode changes
(`_assign_pair_waves`).

With `rollout.level: Group`, at most `rollout.maxUnavailable` serving groups change at a time. All
required LeaderWorkerSets of a group change together (role by role with `roleOrder: Sequential`),
then its optional ones. The next group follows when the required ones are available again. Prefill
and decode of a group therefore have the same revision, except during its update with `Sequential`.
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
from fusioninfer_pulumi.kube.durations import multiply_duration
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
        limit: Maximum number of unavailable units (`limit_unit`) in the scope; None means no limit.
        limit_scope: The role whose units share the limit; empty if the whole service shares it.
        limit_unit: What the limit counts: the LeaderWorkerSet (its name), or with `level: Group`
            its serving group (the index).
        wave: Steps change after all steps of a lower wave with the same `wave_scope`. The wave is 0
            unless `roleOrder` is `Sequential` or the pair revision of prefill and decode changes.
        wave_scope: Waves of different scopes are independent.
        is_required: Whether the gang needs the LeaderWorkerSet, or one of its replicas.
        is_frozen: Whether `rollout.partition` keeps the pod template unchanged.
        timeout: `rollout.timeout`, multiplied by the number of replicas if they restart
            sequentially.
        has_optional_replicas: Whether some of its replicas are optional and may stay pending.
        is_autoscaled: Whether an autoscaler sets the number of replicas.
        is_per_role: Whether it runs all replicas of its role and serving group (`layout: PerRole`).
    """

    name: str
    role: str
    limit: int | None
    limit_scope: str
    limit_unit: str
    wave: int
    wave_scope: str
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
        per_replica = "" if self.timeout == setting else f" {setting} per replica"
        return f"{self.timeout} (rollout.timeout{per_replica})"


def is_group_rollout(plan: ServicePlan) -> bool:
    """Return whether the service is updated group by group (`rollout.level: Group`)."""
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


def compare_pair_revisions(
    plan: ServicePlan, before: Mapping[str, tuple[str, str]]
) -> dict[str, bool]:
    """Return whether the pair revision of each existing LeaderWorkerSet changes, by name.

    LeaderWorkerSets whose new pair revision is unknown are omitted. If replicas join or leave a
    gang, the result is empty, because the new gang cannot start while a member waits for its wave.

    Args:
        plan: The service after the update.
        before: Pair revision and `GangPlan.reference` of the existing LeaderWorkerSets by name;
            both may be empty.
    """
    gang = "" if plan.gang is None else plan.gang.reference
    if any(reference != gang for _, reference in before.values()):
        return {}
    after = {lws.name: role.pods.pair_revision for role in plan.roles for lws in role.lws}
    return {
        name: pair_revision != after[name]
        for name, (pair_revision, _) in before.items()
        if after.get(name)
    }


def order_update(
    plan: ServicePlan, pair_changes: Mapping[str, bool] | None = None
) -> tuple[LwsStep, ...]:
    """Return the update of each LeaderWorkerSet of a service, in order.

    They change role by role; with `level: Group`, group by group from the highest index. In each
    role or group, required replicas come before optional ones, and high ordinals before low ones.
    `pair_changes` is the result of `compare_pair_revisions`.
    """
    steps = [_build_step(plan, role, lws) for role in plan.roles for lws in reversed(role.lws)]
    pair_waves = _assign_pair_waves(plan, steps, pair_changes or {})
    first_wave = min((step.wave for step in steps if step.name in pair_waves), default=0)
    # With a scope of their own, prefill and decode keep no other role waiting.
    scope = "" if plan.rollout.role_order is RoleOrder.SEQUENTIAL else "prefill and decode"
    for index, step in enumerate(steps):
        if step.name in pair_waves:
            wave = first_wave + pair_waves[step.name]
            steps[index] = step._replace(wave=wave, wave_scope=scope)
    positions = {role.name: position for position, role in enumerate(plan.roles)}
    groups = {lws.name: lws.group or 0 for role in plan.roles for lws in role.lws}

    def sort_key(step: LwsStep) -> tuple[int, ...]:
        if is_group_rollout(plan):
            return (-groups[step.name], not step.is_required, positions[step.role])
        return (positions[step.role], not step.is_required)

    return tuple(sorted(steps, key=sort_key))


def has_pair_waves(plan: ServicePlan, pair_changes: Mapping[str, bool]) -> bool:
    """Return whether decode pods always have a prefill pod of their pair revision in an update."""
    return bool(_assign_pair_waves(plan, order_update(plan), pair_changes))


def _assign_pair_waves(
    plan: ServicePlan, steps: Sequence[LwsStep], pair_changes: Mapping[str, bool]
) -> dict[str, int]:
    """Return the waves in which prefill and decode change to a new pair revision, by name.

    Half of the prefill replicas change first, then decode, then the rest of prefill, so that each
    decode pod always has a prefill pod of its own pair revision. No order achieves this if there is
    one prefill replica, if a LeaderWorkerSet has multiple replicas, or if the strategy is not
    Rolling; the result is then empty. It is also empty if the service has serving groups, because
    prefill and decode of a group change together.
    """
    types = {role.name: role.component_type for role in plan.roles}
    prefill = [step for step in steps if types[step.role] is ComponentType.PREFILLER]
    decode = [step for step in steps if types[step.role] is ComponentType.DECODER]
    all_rolling = all(
        step.rollout.strategy is RolloutStrategy.ROLLING and not step.is_per_role
        for step in (*prefill, *decode)
    )
    if plan.shape.groups is not None or not decode or not all_rolling:
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
    first_half = outdated[: len(outdated) // 2]
    if not first_half and frozen_prefill and not already_updated:
        # A frozen replica keeps the old revision, so a single outdated one may change first.
        first_half = outdated
    if not outdated or not (first_half or already_updated):
        return {}
    waves = {step.name: 1 for step in decode} | {step.name: 0 for step in prefill}
    return waves | {name: 2 for name in outdated if name not in first_half}


def _build_step(plan: ServicePlan, role: RolePlan, lws: LwsPlan) -> LwsStep:
    rollout = role.rollout
    # The replicas with the lowest ordinals count as required, even if the gang accepts any.
    required = get_required_replicas([role], get_gang_minima(plan.gang))[role.name]
    is_per_role, count = plan.shape.layout is Layout.PER_ROLE, len(lws.replicas)
    is_grouped = is_group_rollout(plan)
    ordinal = lws.replicas[0].index
    limit_unit = str(lws.group) if is_grouped else lws.name
    limit, timeout = rollout.parallel_limit, rollout.timeout
    is_frozen = ordinal < rollout.partition and not is_per_role
    if is_per_role and limit is not None:
        # The controller applies maxUnavailable to the replicas of each LeaderWorkerSet. So that
        # the role keeps it too, its LeaderWorkerSets change one at a time.
        limit = 1
    if is_per_role and rollout.strategy is not RolloutStrategy.RECREATE:
        # Unless the feature gate MaxUnavailableStatefulSet is on, StatefulSets ignore
        # maxUnavailable: replicas restart one at a time, after the surge replicas have started.
        timeout = multiply_duration(timeout, count + (rollout.max_surge > 0))
    if is_grouped:
        group_rollout = resolve_group_rollout(plan)
        limit = group_rollout.parallel_limit
        is_frozen = (lws.group or 0) < group_rollout.partition
    return LwsStep(
        name=lws.name,
        role=role.name,
        limit=limit,
        limit_scope="" if is_grouped else role.name,
        limit_unit=limit_unit,
        # `_assign_pair_waves` divides the wave of a role into three.
        wave=3 * role.position if plan.rollout.role_order is RoleOrder.SEQUENTIAL else 0,
        wave_scope=limit_unit if is_grouped else "",
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
    """Return the waiting LeaderWorkerSets that may change now, in update order.

    Required LeaderWorkerSets:

    * Broken ones, which are unavailable but not recently, may always change: that makes no other
      replica unavailable, and may repair a gang.
    * Available and recently unavailable ones (they may only have missed readiness probes and still
      serve) may change once all lower waves are done, if their unit is unavailable already or at
      most `limit` units are unavailable afterwards.

    Optional ones may change once all required ones of their role, or of their serving group, have
    changed and are available again.

    Args:
        steps: The LeaderWorkerSets in update order.
        waiting: LeaderWorkerSets that have yet to change.
        changing: LeaderWorkerSets that have changed and are not available again.
        unavailable: All existing LeaderWorkerSets that are unavailable, for any reason.
        recently_unavailable: Members of `unavailable` that may become available by themselves.
    """
    all_unavailable = {*unavailable, *changing}
    broken = set(unavailable).difference(recently_unavailable)
    # Optional replicas may stay pending, so nothing waits for them.
    unfinished = [s for s in steps if s.is_required and (s.name in waiting or s.name in changing)]
    current_waves: dict[str, int] = {}
    for step in unfinished:
        scope = step.wave_scope
        current_waves[scope] = min(step.wave, current_waves.get(scope, step.wave))
    unfinished_groups_or_roles = {_get_group_or_role(step) for step in unfinished}
    unavailable_units: dict[str, set[str]] = {}
    for step in steps:
        if step.is_required and step.name in all_unavailable:
            unavailable_units.setdefault(step.limit_scope, set()).add(step.limit_unit)
    # All LeaderWorkerSets of these units may change, because the units are unavailable already.
    unlimited_units = {
        (step.limit_scope, step.limit_unit)
        for step in steps
        if step.is_required and step.name in {*broken, *changing}
    }
    names = []
    for step in steps:
        must_wait_for_wave = step.wave > current_waves.get(step.wave_scope, step.wave)
        if step.name not in waiting or (must_wait_for_wave and step.name not in broken):
            continue
        if not step.is_required:
            if _get_group_or_role(step) not in unfinished_groups_or_roles:
                names.append(step.name)
            continue
        unavailable_in_scope = unavailable_units.setdefault(step.limit_scope, set())
        if (
            step.limit is None
            or (step.limit_scope, step.limit_unit) in unlimited_units
            or len(unavailable_in_scope - {step.limit_unit}) < step.limit
        ):
            unavailable_in_scope.add(step.limit_unit)
            unlimited_units.add((step.limit_scope, step.limit_unit))
            names.append(step.name)
    return names


def _get_group_or_role(step: LwsStep) -> tuple[str, str]:
    """Return a key of the serving group or role whose required LeaderWorkerSets change first."""
    return ("", step.limit_unit) if step.limit_scope == "" else (step.limit_scope, "")
