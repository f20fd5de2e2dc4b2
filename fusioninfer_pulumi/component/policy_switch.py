"""Refuses to change what LeaderWorkerSet never changes where that takes a running role down.

A `subGroupPolicy` that differs makes the engine delete a set with its pods and make it anew. What
makes a set does not wait for pods, so the next set would go at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.component.recorded import RecordedSet, recorded_of
from fusioninfer_pulumi.findings import Finding, error, join
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.plan.rollout import rollout_plan
from fusioninfer_pulumi.plan.rollout_groups import group_rollout
from fusioninfer_pulumi.plan.rollout_steps import role_rollout
from fusioninfer_pulumi.spec.rollout import RolloutLevel, RolloutStrategy

_FIELD = "subGroupPolicy"
#: What LeaderWorkerSet writes where a policy does not say.
_TYPE = "LeaderWorker"


def policy_findings(
    name: str, plan: ServicePlan, manifests: Iterable[Mapping[str, Any]]
) -> list[Finding]:
    """Compares the policies of a service's sets with those in the stack's state.

    Args:
        name: Logical name of the component.
        plan: The service.
        manifests: Its objects.

    Returns:
        One finding for each role that would lose more replicas at once than it may; none where the
        state cannot be read.
    """
    recorded = recorded_of(name, plan)
    if not recorded:
        return []
    differing = {
        each["metadata"]["name"]
        for each in manifests
        if each["kind"] == "LeaderWorkerSet" and _differs(each, recorded)
    }
    if not differing:
        return []
    changing = {step.name for step in rollout_plan(plan).steps if not step.frozen} & differing
    return [found for role in plan.roles for found in _refused(plan, role, changing)]


def grouped_sets(name: str, plan: ServicePlan) -> frozenset[str]:
    """Names of the sets that have a policy now: the old one has to go before the new one comes."""
    recorded = recorded_of(name, plan) or {}
    return frozenset(each for each, found in recorded.items() if found.sub_groups)


def _differs(manifest: Mapping[str, Any], recorded: Mapping[str, RecordedSet]) -> bool:
    found = recorded.get(manifest["metadata"]["name"])
    wanted = manifest["spec"]["leaderWorkerTemplate"].get(_FIELD) or {}
    # Under another name a set is made beside the old one.
    if found is None or found.name != manifest["metadata"]["name"] or found.sub_groups is None:
        return False
    return _policy(wanted) != _policy(found.sub_groups)


def _policy(given: Mapping[str, Any]) -> tuple[Any, ...]:
    return (given.get("subGroupSize"), given.get("subGroupPolicyType") or _TYPE) if given else ()


def _refused(plan: ServicePlan, role: RolePlan, changing: set[str]) -> Iterator[Finding]:
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
            join("roles", role.position, _FIELD),
            "LeaderWorkerSet does not change it on a set that exists: "
            f"{replicas} replicas of {role.name} would end at once and be made anew; rename the "
            "role in the same update to go on serving, or give it rollout.strategy AllAtOnce or "
            "Recreate where a pause is acceptable (docs/rollout.md)",
        )
