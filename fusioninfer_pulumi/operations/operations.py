"""Plans and objects of disruption budgets, autoscalers, monitors, alerts and dashboards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.operations.alerts import alerts, prometheus_rule
from fusioninfer_pulumi.operations.autoscalers import AutoscalerPlan, autoscaler, autoscalers
from fusioninfer_pulumi.operations.dashboards import boards, dashboards_config_map
from fusioninfer_pulumi.operations.disruption_budgets import (
    BudgetPlan,
    disruption_budget,
    disruption_budgets,
)
from fusioninfer_pulumi.operations.monitors import MonitoringPlan, monitors, plan_monitoring
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.role_plan import RolePlan


@dataclass(frozen=True)
class OperationsPlan:
    """Disruption budgets, monitors and autoscalers of a service."""

    budgets: tuple[BudgetPlan, ...] = ()
    monitoring: MonitoringPlan | None = None
    autoscalers: tuple[AutoscalerPlan, ...] = ()


def plan_operations(
    service: str,
    args: InferenceServiceArgs,
    shape: ServiceShape,
    roles: Sequence[RolePlan],
    routing: Routing | None,
) -> OperationsPlan:
    """Return the plan of disruption budgets, monitors and autoscalers."""
    epp = routing.picker.epp if routing is not None and routing.picker is not None else None
    return OperationsPlan(
        budgets=disruption_budgets(roles, args.disruption_budget),
        monitoring=None
        if args.monitoring is None
        else plan_monitoring(args.monitoring, shape, roles, routing),
        autoscalers=autoscalers(service, args.namespace, roles, epp),
    )


def operations(
    meta: ServiceMeta, routing: Routing | None, planned: OperationsPlan
) -> Iterator[dict[str, Any]]:
    """Yield the disruption budgets, role by role, then the autoscalers and monitors."""
    for budget in planned.budgets:
        yield disruption_budget(meta, budget)
    for scaled in planned.autoscalers:
        yield autoscaler(meta, scaled)
    if planned.monitoring is not None:
        monitoring = planned.monitoring
        yield from monitors(meta, routing, monitoring)
        chosen = list(alerts(meta, monitoring)) if monitoring.args.alerts is not None else []
        if chosen:
            yield prometheus_rule(meta, monitoring, chosen)
        if monitoring.args.dashboards is not None and boards(monitoring):
            yield dashboards_config_map(meta, monitoring)
