"""Plans everything of a service that only matters once it runs."""

from __future__ import annotations

from collections.abc import Sequence

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.day_two.disruption import disruption_budgets
from fusioninfer_pulumi.plan.day_two.monitoring import monitoring_plan
from fusioninfer_pulumi.plan.day_two.records import DayTwoPlan
from fusioninfer_pulumi.plan.gang import required_replicas
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.spec.service import InferenceServiceArgs


def day_two_plan(
    service: str,
    args: InferenceServiceArgs,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
    *,
    gang_scheduled: bool,
) -> tuple[DayTwoPlan, list[Finding]]:
    """Plans disruption budgets and monitors.

    Args:
        service: Name of the service.
        args: Its spec.
        roles: Its serving roles.
        router: Its router, None without one.
        gang_scheduled: Whether its pods are a gang.

    Returns:
        The plan, and what is to be said.
    """
    minima = args.scheduling_strategy.gang_policy.min_role_replicas
    needed = required_replicas(roles, minima if gang_scheduled else None)
    budgets, found = disruption_budgets(
        service,
        roles,
        args.disruption_budget,
        [role.name for role in roles if needed[role.name] < role.group_replicas],
    )
    monitoring, said = monitoring_plan(service, args.monitoring, roles, router)
    return DayTwoPlan(budgets, monitoring), [*found, *said]
