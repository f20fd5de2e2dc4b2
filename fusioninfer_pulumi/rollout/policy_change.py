"""Checks against the running service: a changed subgroup policy would interrupt it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.rollout.groups import by_group, group_rollout
from fusioninfer_pulumi.rollout.order import update_order
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout
from fusioninfer_pulumi.topology.sub_group_policy import FIELD
from fusioninfer_pulumi.topology.topology import Topology


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
    changing = {step.name for step in update_order(plan) if not step.frozen}
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
