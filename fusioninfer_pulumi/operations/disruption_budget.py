"""PodDisruptionBudgets of roles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs, UnhealthyPods
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.pods.scheduling import role_labels
from fusioninfer_pulumi.rules.common import FIELD_OUT_OF_PLACE, OUT_OF_RANGE
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology

DISRUPTION_BUDGET_COUNTS_WAITING_REPLICAS = Rule(
    "disruption-budget-counts-waiting-replicas",
    "info",
    "A replica that waits for room does not block evictions.",
    remedy="Nothing: expect it while a replica waits.",
)
DISRUPTION_BUDGET_BLOCKS_EVICTION = Rule(
    "disruption-budget-blocks-eviction",
    "warning",
    "A disruption budget allows an eviction.",
    remedy="Add a replica, or delete the pods by hand in a drain.",
    source="https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
)


@dataclass(frozen=True)
class BudgetPlan:
    """The PodDisruptionBudget of one role.

    Attributes:
        replicas: Replicas that evictions may make unavailable at a time.
        min_available: Pods that must stay healthy. None if an autoscaler changes their number: then
        at
            most `replicas` pods may be unavailable.
    """

    role: str
    name: str
    replicas: int
    min_available: int | None
    unhealthy_pods: UnhealthyPods


def disruption_budgets(
    service: str,
    roles: Sequence[RolePlan],
    common: DisruptionBudgetArgs | None,
    optional: Sequence[str] = (),
) -> tuple[tuple[BudgetPlan, ...], list[Finding]]:
    """Returns a budget for each role that has replicas and asks for one, and the findings.

    `common` is the service's own, for roles without one. The gang does not need every replica of
    `optional` roles.
    """
    budgets: list[BudgetPlan] = []
    found: list[Finding] = []
    for role in roles:
        own = role.args.disruption_budget
        given = own or common
        if given is None or not role.replicas:
            continue
        at: Location = (
            ("roles", role.position, "disruptionBudget") if own else ("disruptionBudget",)
        )
        replicas, more = _allowed(given, role, at)
        found += more
        if role.name in optional and replicas:
            found.append(
                info(
                    DISRUPTION_BUDGET_COUNTS_WAITING_REPLICAS,
                    at,
                    f"while a replica of {role.name} waits for room, none of the others may be "
                    "evicted: the budget counts every replica",
                )
            )
        budgets.append(
            BudgetPlan(
                role=role.name,
                name=names.disruption_budget(service, role.name),
                replicas=replicas,
                min_available=None if role.scaled_externally else role.total_pods - replicas,
                unhealthy_pods=given.unhealthy_pods,
            )
        )
    return tuple(budgets), found


def _allowed(
    given: DisruptionBudgetArgs, role: RolePlan, at: Location
) -> tuple[int, list[Finding]]:
    """Returns how many replicas may be unavailable, and the findings."""
    count = len(role.replicas)
    if role.scaled_externally:
        return _of_scaled(given, role, at)
    if given.min_available is not None:
        field = (*at, "minAvailable")
        kept = _share(given.min_available, count, math.ceil)
        if kept > count:
            return 0, [
                error(
                    OUT_OF_RANGE,
                    field,
                    f"must be at most the replicas of {role.name} ({count}), got {kept}",
                )
            ]
        allowed = count - kept
    else:
        field = (*at, "maxUnavailable")
        allowed = min(_most(given.max_unavailable, count), count)
    if allowed == 0:
        return 0, [
            warning(
                DISRUPTION_BUDGET_BLOCKS_EVICTION,
                field,
                f"allows no eviction of {role.name} (replicas: {count}): node drains and upgrades "
                "never finish; add a replica, or delete the pods by hand",
            )
        ]
    return allowed, []


def _of_scaled(
    given: DisruptionBudgetArgs, role: RolePlan, at: Location
) -> tuple[int, list[Finding]]:
    """Returns the same for a role whose replicas an autoscaler changes."""
    most = 1 if given.max_unavailable is None else given.max_unavailable
    if given.min_available is None and isinstance(most, int) and most > 0:
        return most, []
    field = "maxUnavailable" if given.min_available is None else "minAvailable"
    return 0, [
        error(
            FIELD_OUT_OF_PLACE,
            (*at, field),
            f"the replicas of {role.name} are scaled: give maxUnavailable, a count of at least 1",
        )
    ]


def _most(given: int | str | None, count: int) -> int:
    if given is None:
        return 1
    share = _share(given, count, math.floor)
    # At least 1, as with `rollout.maxUnavailable`, except for an explicit 0%.
    return max(share, 1) if isinstance(given, str) and given != "0%" else share


def _share(given: int | str, count: int, rounded: Callable[[float], int]) -> int:
    return rounded(count * int(given[:-1]) / 100) if isinstance(given, str) else given


def disruption_budget(plan: Topology, role: RolePlan, budget: BudgetPlan) -> dict[str, Any]:
    """Builds the PodDisruptionBudget of a role."""
    kept = (
        {"maxUnavailable": budget.replicas}
        if budget.min_available is None
        else {"minAvailable": budget.min_available}
    )
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(plan, budget.name, role_labels(plan, role.args)),
        "spec": {
            **kept,
            # All pods: the eviction of any pod leaves its replica unavailable.
            "selector": {"matchLabels": role_labels(plan, role.args)},
            "unhealthyPodEvictionPolicy": budget.unhealthy_pods.value,
        },
    }
