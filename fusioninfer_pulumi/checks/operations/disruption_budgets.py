"""Checks of disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.operations.disruption_budget import BudgetPlan, kept_replicas
from fusioninfer_pulumi.plan.build import BuiltService
from fusioninfer_pulumi.rules.common import FIELD_OUT_OF_PLACE, OUT_OF_RANGE
from fusioninfer_pulumi.topology.role import RolePlan

DISRUPTION_BUDGET_BLOCKS_EVICTION = Rule(
    "disruption-budget-blocks-eviction",
    "warning",
    "A disruption budget allows an eviction.",
    remedy="Add a replica, or delete the pods by hand in a drain.",
    source="https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
)


def budget_findings(built: BuiltService) -> Iterator[Finding]:
    """Checks the budget of each role that has one."""
    plan, spec = built.plan, built.args
    roles = {role.name: role for role in plan.roles}
    for budget in plan.operations.budgets:
        role = roles[budget.role]
        args = role.args.disruption_budget or spec.disruption_budget
        at: Location = ("disruptionBudget",)
        if role.args.disruption_budget is not None:
            at = ("roles", role.position, *at)
        if args is not None:
            yield from _eviction_findings(budget, args, role, at)


def _eviction_findings(
    budget: BudgetPlan, args: DisruptionBudgetArgs, role: RolePlan, at: Location
) -> Iterator[Finding]:
    if budget.replicas:
        return
    field = (*at, "maxUnavailable" if args.min_available is None else "minAvailable")
    count = len(role.replicas)
    kept = 0 if args.min_available is None else kept_replicas(args.min_available, count)
    if role.scaled_externally:
        message = (
            f"the replicas of {role.name} are scaled: give maxUnavailable, a count of at least 1"
        )
        yield error(FIELD_OUT_OF_PLACE, field, message)
    elif kept > count:
        message = f"must be at most the replicas of {role.name} ({count}), got {kept}"
        yield error(OUT_OF_RANGE, field, message)
    else:
        yield warning(
            DISRUPTION_BUDGET_BLOCKS_EVICTION,
            field,
            f"allows no eviction of {role.name} (replicas: {count}): node drains and upgrades "
            "never finish; add a replica, or delete the pods by hand",
        )
