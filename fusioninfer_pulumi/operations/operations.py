"""Everything that operates a service: plan and objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.operations.autoscaling import (
    AutoscalerPlan,
    autoscaler,
    autoscalers,
    ratio_findings,
)
from fusioninfer_pulumi.operations.disruption_budget import (
    BudgetPlan,
    disruption_budget,
    disruption_budgets,
)
from fusioninfer_pulumi.operations.monitoring import MonitoringPlan, monitoring_plan, monitors
from fusioninfer_pulumi.pods.tracing import picker_findings
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.gang import GangPlan, required_replicas
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class OperationsPlan:
    """What operates a service that runs.

    Attributes:
        budgets: Disruption budgets, one for each role that asks for it.
        monitoring: The monitors, None where none are asked for.
        autoscalers: One for each set that is scaled.
    """

    budgets: tuple[BudgetPlan, ...] = ()
    monitoring: MonitoringPlan | None = None
    autoscalers: tuple[AutoscalerPlan, ...] = ()


def operations_plan(
    service: str,
    args: InferenceServiceArgs,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
    gang: GangPlan | None,
) -> tuple[OperationsPlan, list[Finding]]:
    """Plans disruption budgets, monitors and autoscalers, and checks what these put into pods.

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
    family = router.picker.family if router is not None else None
    traced = any(role.pods.traced for role in roles)
    found += picker_findings(args.tracing, family, has_roles=traced)
    scaled, said = autoscalers(args, roles, gang_scheduled=gang is not None)
    found += said
    found += ratio_findings(args.prefill_decode_ratio, roles)
    return OperationsPlan(budgets, monitoring, scaled), found


def operations(
    plan: Topology, router: RouterPlan | None, planned: OperationsPlan
) -> Iterator[dict[str, Any]]:
    """Builds the disruption budgets, role by role, then autoscalers and monitors."""
    roles = {role.name: role for role in plan.roles}
    for budget in planned.budgets:
        yield disruption_budget(plan, roles[budget.role], budget)
    for scaled in planned.autoscalers:
        yield autoscaler(plan, scaled)
    if planned.monitoring is not None:
        yield from monitors(plan, router, planned.monitoring)
