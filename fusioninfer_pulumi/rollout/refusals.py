"""Checks against the running service: updates that would never end or interrupt it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.rollout.gang_update import GangUpdate, Running
from fusioninfer_pulumi.rollout.groups import by_group, group_rollout
from fusioninfer_pulumi.rollout.order import rollout_plan
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.role_rollout import field_location, role_rollout
from fusioninfer_pulumi.topology.sub_group_policy import FIELD
from fusioninfer_pulumi.topology.topology import Topology

#: LeaderWorkerSets that a message names; the others are counted.
_NAMED = 3


def gang_findings(plan: Topology, running: Running, workers: int | None = None) -> list[Finding]:
    """Returns an error for each role that would prevent a gang from becoming complete.

    Either its partition holds back replicas that the gang needs, or its replicas cannot change one
    after the other.

    Args:
        plan: The new plan of the service.
        running: Its existing LeaderWorkerSets.
        workers: Operations that Pulumi runs in parallel, None if unknown.
    """
    update = GangUpdate(plan, running, workers)
    if not update.joins():
        return []
    held = list(_held_back(update))
    return [*held, *_blocked_roles(update, hold=not held)]


def _held_back(update: GangUpdate) -> Iterator[Finding]:
    """Yields an error for each role whose partition holds back replicas that the gang needs."""
    progress = update.progress_of(update.roles, hold=True)
    for role, names in update.missing(progress, [step.name for step in update.steps]).items():
        yield error(
            "gang-update-held-back",
            field_location(update.roles[role], "partition"),
            f"holds back replicas that the gang counts on: {_named(names)} would not join it, or "
            "keep fewer pods than its PodGroup asks for, so no replica that restarts would be "
            "placed; leave the partition out for this update (docs/rollout.md)",
        )


def _blocked_roles(update: GangUpdate, *, hold: bool) -> Iterator[Finding]:
    """Yields an error for each role whose first replica waits for those that change after it.

    Each round assumes that the roles of earlier findings change all at once. `hold` is whether
    partitions hold replicas back.
    """
    at_once: set[str] = set()
    while True:
        progress = update.progress_of(at_once, hold=hold)
        late = update.missing(progress, update.late(progress, at_once))
        blocking = update.blocking(progress, late, at_once)
        if not blocking:
            return
        names = [name for each in late.values() for name in each]
        for role in blocking:
            yield _deadlock(update, update.roles[role], names)
        at_once.update(blocking)


def _deadlock(update: GangUpdate, role: RolePlan, names: Sequence[str]) -> Finding:
    gang = update.members[names[0]].gang.pod_group
    strategy = next(each.rollout.strategy for each in update.steps if each.role == role.name)
    ways = "Recreate" if update.members[role.lws[0].name].whole else "AllAtOnce or Recreate"
    return error(
        "gang-update-never-ends",
        field_location(role, "strategy"),
        f"with {strategy.value} this update would wait for ever: what restarts of {role.name} is "
        f"placed only when all pods of gang {gang} exist, and {_named(names)} would join it, or "
        f"get more nodes, only after that; take {ways} for this update where a pause is "
        "acceptable, rename the role in the same update to go on serving, or let the gang need "
        "fewer replicas (schedulingStrategy.gangPolicy.minRoleReplicas, docs/rollout.md)",
    )


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def policy_findings(plan: Topology, differing: Collection[str]) -> list[Finding]:
    """Returns an error for each role that a changed subgroup policy would interrupt.

    LeaderWorkerSets of another policy are replaced: more replicas than `maxUnavailable` would end
    at once.

    Args:
        plan: The new plan of the service.
        differing: Names of existing LeaderWorkerSets with another policy than the plan's.
    """
    if not differing:
        return []
    changing = {step.name for step in rollout_plan(plan).steps if not step.frozen}
    return [found for role in plan.roles for found in _refused(plan, role, changing & {*differing})]


def _refused(plan: Topology, role: RolePlan, changing: Collection[str]) -> Iterator[Finding]:
    rollout = role_rollout(plan.rollout, role)
    lws = [each for each in role.lws if each.name in changing]
    if rollout.strategy is not RolloutStrategy.ROLLING or not lws:
        return
    replicas = sum(len(each.replicas) for each in lws)
    if by_group(plan):
        within = len({each.group for each in lws}) <= group_rollout(plan).max_unavailable
    else:
        within = replicas <= rollout.max_unavailable
    if not within:
        yield error(
            "subgroup-policy-immutable",
            ("roles", role.position, FIELD),
            "LeaderWorkerSet does not change it after creation: "
            f"{replicas} replicas of {role.name} would be replaced at once; rename the role in the "
            "same update to keep serving, or use rollout.strategy AllAtOnce or Recreate if an "
            "interruption is acceptable (docs/rollout.md)",
        )
