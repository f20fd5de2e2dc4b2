"""Changes of a running service that are rejected because they would interrupt it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy
from fusioninfer_pulumi.findings import Finding, Rule, error, listed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.groups import by_group, group_rollout
from fusioninfer_pulumi.rollout.order import update_order
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout
from fusioninfer_pulumi.topology.sub_group_policy import FIELD
from fusioninfer_pulumi.topology.topology import Topology

LAYOUT_CHANGE_WHILE_RUNNING = Rule(
    "layout-change-while-running",
    "error",
    "The layout does not change while the service runs.",
    remedy="Create a second service, move the requests, and delete the first.",
)
SUBGROUP_POLICY_IMMUTABLE = Rule(
    "subgroup-policy-immutable",
    "error",
    "`subGroupPolicy` of a LeaderWorkerSet does not change.",
    remedy="Rename the role in the same update, or use AllAtOnce.",
    source="LeaderWorkerSet's webhook",
)


def layout_of(own: Mapping[str, Any]) -> Layout | None:
    """Returns the layout of a LeaderWorkerSet by its labels, None if it is not of this library."""
    if labels.ROLE_NAME not in own:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in own else Layout.PER_ROLE


def layout_findings(layout: Layout, others: Collection[str]) -> list[Finding]:
    """Returns an error if LeaderWorkerSets of the other layout run; `others` are their names.

    Pulumi creates new objects before it deletes old ones. The new LeaderWorkerSets would need
    accelerators beside all old ones; then all old replicas would end at once.
    """
    if not others:
        return []
    other = Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE
    return [
        error(
            LAYOUT_CHANGE_WHILE_RUNNING,
            ("layout",),
            f"{layout.value} cannot take the place of {other.value} while the service runs "
            f"({listed(sorted(others))}): that would need room for all replicas twice, and then "
            "end all old ones at once; create a second service with this layout, move the clients "
            "and remove this one (docs/rollout.md), or set replicas: 0 for all roles first, which "
            "interrupts the service",
        )
    ]


def policy_findings(plan: Topology, differing: Collection[str]) -> list[Finding]:
    """Returns an error for each role that a changed subgroup policy would interrupt.

    LeaderWorkerSets of another policy (`differing`) are replaced: more replicas than
    `maxUnavailable` would end at once.
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
            SUBGROUP_POLICY_IMMUTABLE,
            ("roles", role.position, FIELD),
            "LeaderWorkerSet does not change it after creation: "
            f"{replicas} replicas of {role.name} would be replaced at once; rename the role in the "
            "same update to keep serving, or use rollout.strategy AllAtOnce or Recreate if an "
            "interruption is acceptable (docs/rollout.md)",
        )
