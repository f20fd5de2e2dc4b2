"""Plans everything of a service that only matters once it runs."""

from __future__ import annotations

from collections.abc import Sequence

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.day_two.autoscaling import autoscalers
from fusioninfer_pulumi.plan.day_two.disruption import disruption_budgets
from fusioninfer_pulumi.plan.day_two.monitoring import monitoring_plan
from fusioninfer_pulumi.plan.day_two.ratio import ratio_findings
from fusioninfer_pulumi.plan.day_two.records import DayTwoPlan
from fusioninfer_pulumi.plan.day_two.spread import spread_findings
from fusioninfer_pulumi.plan.day_two.startup import startup_findings
from fusioninfer_pulumi.plan.day_two.tracing import picker_findings
from fusioninfer_pulumi.plan.gang import required_replicas
from fusioninfer_pulumi.plan.records import GangPlan, RolePlan
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.spec.service import InferenceServiceArgs


def day_two_plan(
    service: str,
    args: InferenceServiceArgs,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
    gang: GangPlan | None,
) -> tuple[DayTwoPlan, list[Finding]]:
    """Plans disruption budgets, monitors and autoscalers, and checks what day two puts into pods.

    Args:
        service: Name of the service.
        args: Its spec.
        roles: Its serving roles.
        router: Its router, None without one.
        gang: The gang, None where its pods are scheduled one by one.

    Returns:
        The plan, and what is to be said.
    """
    minima = args.scheduling_strategy.gang_policy.min_role_replicas
    needed = required_replicas(roles, minima if gang is not None else None)
    budgets, found = disruption_budgets(
        service,
        roles,
        args.disruption_budget,
        [role.name for role in roles if needed[role.name] < role.group_replicas],
    )
    monitoring, said = monitoring_plan(service, args.monitoring, roles, router)
    found += said
    for role in roles:
        found += startup_findings(role, args.rollout, args.wait)
        found += spread_findings(role, gang)
    family = router.picker.family if router is not None else None
    found += picker_findings(args.tracing, family, has_roles=any(role.env for role in roles))
    scaled, said = autoscalers(args, roles, gang_scheduled=gang is not None)
    found += said
    found += ratio_findings(args.prefill_decode_ratio, roles)
    return DayTwoPlan(budgets, monitoring, scaled), found
