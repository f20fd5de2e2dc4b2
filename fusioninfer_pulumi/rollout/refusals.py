"""Changes that no update can make."""

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

#: Sets that a message names; the others are counted.
_NAMED = 3


def gang_findings(plan: Topology, running: Running, workers: int | None = None) -> list[Finding]:
    """Finds what would wait for ever for a gang to become complete.

    Args:
        plan: The service as it is to be.
        running: Its sets that there are.
        workers: Operations that the engine runs at a time, None where nobody knows.

    Returns:
        One finding for each role whose partition keeps replicas back that the gang needs, and one
        for each role whose replicas cannot change one after the other.
    """
    update = GangUpdate(plan, running, workers)
    if not update.joins():
        return []
    held = list(_held_back(update))
    return [*held, *_one_after_the_other(update, hold=not held)]


def _held_back(update: GangUpdate) -> Iterator[Finding]:
    """Replicas below a partition, which never become what their gang asks for."""
    end = update.ends(update.roles, hold=True)
    for role, names in update.missing(end, [step.name for step in update.steps]).items():
        yield error(
            "gang-update-held-back",
            field_location(update.roles[role], "partition"),
            f"holds back replicas that the gang counts on: {_named(names)} would not join it, or "
            "keep fewer pods than its PodGroup asks for, so no replica that restarts would be "
            "placed; leave the partition out for this update (docs/rollout.md)",
        )


def _one_after_the_other(update: GangUpdate, *, hold: bool) -> Iterator[Finding]:
    """Roles whose first replica waits for those behind it.

    Args:
        update: The update.
        hold: Whether partitions hold replicas back; else as if they did not.

    Yields:
        One finding for each, as if what is told already had been mended.
    """
    at_once: set[str] = set()
    while True:
        end = update.ends(at_once, hold=hold)
        late = update.missing(end, update.late(end, at_once))
        blocking = update.blocking(end, late, at_once)
        if not blocking:
            return
        names = [name for each in late.values() for name in each]
        for role in blocking:
            yield _endless(update, update.roles[role], names)
        at_once.update(blocking)


def _endless(update: GangUpdate, role: RolePlan, names: Sequence[str]) -> Finding:
    gang = update.members[names[0]].gang.pod_group
    strategy = next(each.rollout.strategy for each in update.steps if each.role == role.name)
    ways = "Recreate" if update.members[role.sets[0].name].whole else "AllAtOnce or Recreate"
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
    """Finds roles that would lose more replicas at once than they may.

    Args:
        plan: The service as it is to be.
        differing: Names of sets that there are, with another policy than the plan's.

    Returns:
        One finding for each such role.
    """
    if not differing:
        return []
    changing = {step.name for step in rollout_plan(plan).steps if not step.frozen}
    return [found for role in plan.roles for found in _refused(plan, role, changing & {*differing})]


def _refused(plan: Topology, role: RolePlan, changing: Collection[str]) -> Iterator[Finding]:
    rollout = role_rollout(plan.rollout, role)
    sets = [each for each in role.sets if each.name in changing]
    if rollout.strategy is not RolloutStrategy.ROLLING or not sets:
        return
    replicas = sum(len(each.replicas) for each in sets)
    if by_group(plan):
        within = len({each.group for each in sets}) <= group_rollout(plan).max_unavailable
    else:
        within = replicas <= rollout.max_unavailable
    if not within:
        yield error(
            "subgroup-policy-immutable",
            ("roles", role.position, FIELD),
            "LeaderWorkerSet does not change it on a set that exists: "
            f"{replicas} replicas of {role.name} would end at once and be made anew; rename the "
            "role in the same update to go on serving, or give it rollout.strategy AllAtOnce or "
            "Recreate where a pause is acceptable (docs/rollout.md)",
        )
