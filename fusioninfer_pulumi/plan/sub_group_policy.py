"""When two `subGroupPolicy` of LeaderWorkerSets are one, and what a change of it takes down.

LeaderWorkerSet never changes it on a set that exists. The engine deletes such a set with its pods
and makes it anew; what makes a set does not wait for pods, so the next one would go at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, join
from fusioninfer_pulumi.plan.records import RolePlan, Topology
from fusioninfer_pulumi.plan.rollout import rollout_plan
from fusioninfer_pulumi.plan.rollout_groups import group_rollout
from fusioninfer_pulumi.plan.rollout_steps import role_rollout
from fusioninfer_pulumi.spec.role import SubGroupPolicyType
from fusioninfer_pulumi.spec.rollout import RolloutLevel, RolloutStrategy

FIELD = "subGroupPolicy"
SIZE = "subGroupSize"
TYPE = "subGroupPolicyType"
#: What LeaderWorkerSet's webhook writes where a policy states no type.
DEFAULT_TYPE = SubGroupPolicyType.LEADER_WORKER.value


def completed(policy: Mapping[str, Any]) -> dict[str, Any]:
    """A policy as LeaderWorkerSet's webhook leaves it: with its type."""
    given = {key: value for key, value in policy.items() if value is not None}
    return {**given, TYPE: given.get(TYPE) or DEFAULT_TYPE}


def same_policy(one: Any, other: Any) -> bool:
    """Tells whether two policies mean the same; without one, None or empty."""
    first, second = (completed(e) if e and isinstance(e, Mapping) else e for e in (one, other))
    return bool(first == second) if first and second else not first and not second


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
    if plan.rollout.level is RolloutLevel.GROUP and plan.groups is not None:
        within = len({each.group for each in sets}) <= group_rollout(plan).max_unavailable
    else:
        within = replicas <= rollout.max_unavailable
    if not within:
        yield error(
            join("roles", role.position, FIELD),
            "LeaderWorkerSet does not change it on a set that exists: "
            f"{replicas} replicas of {role.name} would end at once and be made anew; rename the "
            "role in the same update to go on serving, or give it rollout.strategy AllAtOnce or "
            "Recreate where a pause is acceptable (docs/rollout.md)",
        )
