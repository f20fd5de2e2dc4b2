"""Plans disruption budgets, autoscalers, monitors, alerts and dashboards, and builds them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.availability import DisruptionBudgetArgs, UnhealthyPods
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_metadata, build_object
from fusioninfer_pulumi.operations.alerts import build_prometheus_rule
from fusioninfer_pulumi.operations.autoscalers import (
    AutoscalerPlan,
    build_autoscaler,
    plan_autoscalers,
)
from fusioninfer_pulumi.operations.monitors import (
    MonitoringPlan,
    build_dashboards_config_map,
    build_monitors,
    list_dashboards,
    plan_monitoring,
)
from fusioninfer_pulumi.pods.pod_metadata import get_role_labels
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.role_plan import RolePlan, resolve_share


class BudgetPlan(NamedTuple):
    """The PodDisruptionBudget of one role.

    Attributes:
        max_unavailable: Replicas that evictions may make unavailable at a time.
    """

    role: RolePlan
    max_unavailable: int
    unhealthy_pods: UnhealthyPods


def plan_disruption_budgets(
    roles: Sequence[RolePlan], common: DisruptionBudgetArgs | None
) -> tuple[BudgetPlan, ...]:
    """Return a budget for each role that has replicas and a `disruptionBudget`.

    `common` is the service's `disruptionBudget`, for roles that do not set their own.
    """
    budgets = []
    for role in roles:
        args = role.args.disruption_budget or common
        if role.replicas and args is not None:
            max_unavailable = _resolve_max_unavailable(args, role)
            budgets.append(BudgetPlan(role, max_unavailable, args.unhealthy_pods))
    return tuple(budgets)


def _resolve_max_unavailable(args: DisruptionBudgetArgs, role: RolePlan) -> int:
    """Return how many replicas evictions may make unavailable at a time."""
    count = len(role.replicas)
    maximum = 1 if args.max_unavailable is None else args.max_unavailable
    if role.is_autoscaled:
        if args.min_available is not None or isinstance(maximum, str):
            return 0  # unknown without a number of replicas; a check rejects it
        return maximum
    if args.min_available is not None:
        return max(count - resolve_share(args.min_available, count, math.ceil), 0)
    share = resolve_share(maximum, count, math.floor)
    # As in `rollout.maxUnavailable`, a percentage above 0% allows at least one replica.
    if isinstance(maximum, str) and maximum != "0%":
        share = max(share, 1)
    return min(share, count)


def build_disruption_budget(meta: ServiceMeta, budget: BudgetPlan) -> dict[str, Any]:
    """Build the PodDisruptionBudget of a role."""
    role = budget.role
    # An autoscaler changes the number of pods, so a fixed minAvailable would be wrong.
    if role.is_autoscaled:
        limit = {"maxUnavailable": budget.max_unavailable}
    else:
        # In the worst case, each evicted pod belongs to a different replica.
        limit = {"minAvailable": role.total_pods - budget.max_unavailable}
    name = object_names.disruption_budget(meta.service, role.name)
    spec = {
        **limit,
        # All pods, because evicting any pod makes its replica unavailable.
        "selector": {"matchLabels": get_role_labels(meta, role.args)},
        "unhealthyPodEvictionPolicy": budget.unhealthy_pods.value,
    }
    object_meta = build_metadata(meta, name, get_role_labels(meta, role.args))
    return build_object("policy/v1", "PodDisruptionBudget", object_meta, spec=spec)


class OperationsPlan(NamedTuple):
    """Disruption budgets, autoscalers and monitoring of a service."""

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
    """Plan the disruption budgets, autoscalers and monitoring of a service."""
    epp = routing.picker.epp if routing is not None and routing.picker is not None else None
    monitoring = None
    if args.monitoring is not None:
        monitoring = plan_monitoring(args.monitoring, shape, roles, routing)
    return OperationsPlan(
        budgets=plan_disruption_budgets(roles, args.disruption_budget),
        monitoring=monitoring,
        autoscalers=plan_autoscalers(service, args.namespace, roles, epp),
    )


def build_operations(
    meta: ServiceMeta, routing: Routing | None, plan: OperationsPlan
) -> Iterator[dict[str, Any]]:
    """Yield the disruption budgets, autoscalers, monitors, alerts and dashboards of a service."""
    for budget in plan.budgets:
        yield build_disruption_budget(meta, budget)
    for autoscaler in plan.autoscalers:
        yield build_autoscaler(meta, autoscaler)
    monitoring = plan.monitoring
    if monitoring is None:
        return
    yield from build_monitors(meta, routing, monitoring)
    if monitoring.args.alerts is not None and (
        monitoring.scraped_roles or monitoring.scrapes_picker
    ):
        yield build_prometheus_rule(meta, monitoring, monitoring.args.alerts)
    if monitoring.args.dashboards is not None and list_dashboards(monitoring):
        yield build_dashboards_config_map(meta, monitoring, monitoring.args.dashboards)
