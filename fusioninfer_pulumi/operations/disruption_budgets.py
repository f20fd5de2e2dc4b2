"""PodDisruptionBudgets of roles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.availability import DisruptionBudgetArgs, UnhealthyPods
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_object, metadata
from fusioninfer_pulumi.pods.pod_metadata import role_labels
from fusioninfer_pulumi.topology.role_plan import RolePlan


@dataclass(frozen=True)
class BudgetPlan:
    """The PodDisruptionBudget of one role.

    Attributes:
        replicas: Replicas that evictions may make unavailable at a time.
    """

    role: RolePlan
    replicas: int
    unhealthy_pods: UnhealthyPods


def disruption_budgets(
    roles: Sequence[RolePlan], common: DisruptionBudgetArgs | None
) -> tuple[BudgetPlan, ...]:
    """Return a budget for each role that has replicas and asks for one.

    `common` is the service's own, for roles without one.
    """
    chosen = [(role, role.args.disruption_budget or common) for role in roles if role.replicas]
    return tuple(
        BudgetPlan(role, _evictable(args, role), args.unhealthy_pods)
        for role, args in chosen
        if args is not None
    )


def _evictable(args: DisruptionBudgetArgs, role: RolePlan) -> int:
    """Return how many replicas of a role may be unavailable."""
    count = len(role.replicas)
    if role.scaled_externally:
        most = 1 if args.max_unavailable is None else args.max_unavailable
        return most if args.min_available is None and isinstance(most, int) else 0
    if args.min_available is not None:
        return max(count - count_kept_replicas(args.min_available, count), 0)
    if args.max_unavailable is None:
        return min(1, count)
    share = _share(args.max_unavailable, count, math.floor)
    # At least 1, as with `rollout.maxUnavailable`, except for an explicit 0%.
    percent = isinstance(args.max_unavailable, str) and args.max_unavailable != "0%"
    return min(max(share, 1) if percent else share, count)


def count_kept_replicas(min_available: int | str, count: int) -> int:
    """Return how many of `count` replicas `minAvailable` keeps."""
    return _share(min_available, count, math.ceil)


def _share(part: int | str, count: int, rounded: Callable[[float], int]) -> int:
    return rounded(count * int(part[:-1]) / 100) if isinstance(part, str) else part


def disruption_budget(meta: ServiceMeta, budget: BudgetPlan) -> dict[str, Any]:
    """Build the PodDisruptionBudget of a role."""
    role = budget.role
    # An autoscaler changes the number of pods, so a minimum would not follow it.
    kept = (
        {"maxUnavailable": budget.replicas}
        if role.scaled_externally
        else {"minAvailable": role.total_pods - budget.replicas}
    )
    name = object_names.disruption_budget(meta.service, role.name)
    spec = {
        **kept,
        # All pods: the eviction of any pod leaves its replica unavailable.
        "selector": {"matchLabels": role_labels(meta, role.args)},
        "unhealthyPodEvictionPolicy": budget.unhealthy_pods.value,
    }
    named = metadata(meta, name, role_labels(meta, role.args))
    return build_object("policy/v1", "PodDisruptionBudget", named, spec=spec)
