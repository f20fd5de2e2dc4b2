"""Everything that operates a service: plan and objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology import replica_label
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.operations.autoscaling import autoscaler, autoscalers, ratio_findings
from fusioninfer_pulumi.operations.disruption_budget import disruption_budgets
from fusioninfer_pulumi.operations.monitoring import monitoring_plan
from fusioninfer_pulumi.operations.records import (
    BudgetPlan,
    DayTwoPlan,
    EngineMonitor,
    MonitoringPlan,
)
from fusioninfer_pulumi.pods.build import role_labels
from fusioninfer_pulumi.pods.health import startup_findings
from fusioninfer_pulumi.pods.scheduling import spread_findings
from fusioninfer_pulumi.pods.tracing import picker_findings
from fusioninfer_pulumi.routing.router import RouterPlan, router_meta
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, required_replicas
from fusioninfer_pulumi.topology.role import RolePlan


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


Manifest = dict[str, Any]

POLICY_API = "policy/v1"
MONITORING_API = "monitoring.coreos.com/v1"

#: Labels of pods that their metrics get too, with dots, slashes and dashes as underscores.
_TARGET_LABELS = [labels.SERVICE, labels.COMPONENT_TYPE, labels.ROLE_NAME]
# Prometheus's own token, where the operator mounts it.
_OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


def day_two(plan: ServicePlan) -> Iterator[Manifest]:
    """Builds the disruption budgets, role by role, then autoscalers and monitors."""
    roles = {role.name: role for role in plan.roles}
    for budget in plan.day_two.budgets:
        yield _budget(plan, roles[budget.role], budget)
    yield from map(partial(autoscaler, plan), plan.day_two.autoscalers)
    monitoring = plan.day_two.monitoring
    if monitoring is None:
        return
    for monitor in monitoring.engines:
        yield _pod_monitor(plan, roles[monitor.role], monitoring, monitor)
    if monitoring.picker and plan.router is not None:
        yield _service_monitor(plan, plan.router, monitoring)


def _budget(plan: ServicePlan, role: RolePlan, budget: BudgetPlan) -> Manifest:
    kept = (
        {"maxUnavailable": budget.replicas}
        if budget.min_available is None
        else {"minAvailable": budget.min_available}
    )
    return {
        "apiVersion": POLICY_API,
        "kind": "PodDisruptionBudget",
        "metadata": metadata(plan, budget.name, role_labels(plan, role)),
        "spec": {
            **kept,
            # All pods: whichever is evicted takes its replica down.
            "selector": {"matchLabels": role_labels(plan, role)},
            "unhealthyPodEvictionPolicy": budget.unhealthy_pods.value,
        },
    }


def _of_groups(plan: ServicePlan) -> list[str]:
    return [] if plan.groups is None else [labels.GROUP_INDEX]


def _pod_monitor(
    plan: ServicePlan, role: RolePlan, monitoring: MonitoringPlan, monitor: EngineMonitor
) -> Manifest:
    port: Manifest = (
        {"portNumber": monitor.port} if monitor.port_name is None else {"port": monitor.port_name}
    )
    tls = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if monitor.https else {}
    return {
        "apiVersion": MONITORING_API,
        "kind": "PodMonitor",
        "metadata": _chosen(metadata(plan, monitor.name, role_labels(plan, role)), monitoring),
        "spec": {
            "selector": {"matchLabels": {**role_labels(plan, role), labels.LWS_WORKER_INDEX: "0"}},
            "podTargetLabels": [*_TARGET_LABELS, replica_label(plan.layout), *_of_groups(plan)],
            "podMetricsEndpoints": [
                {**port, "path": monitoring.args.path, **tls, **_pace(monitoring)}
            ],
        },
    }


def _service_monitor(plan: ServicePlan, router: RouterPlan, monitoring: MonitoringPlan) -> Manifest:
    token = monitoring.args.picker_token
    shown: Manifest = {}
    if monitoring.picker_token and token is not None:
        credentials = {"name": token.name, "key": token.key}
        shown = {"authorization": {"type": "Bearer", "credentials": credentials}}
    elif monitoring.picker_token:
        shown = {"bearerTokenFile": _OWN_TOKEN}
    built = metadata(router_meta(plan, router.name), names.picker_monitor(plan.service))
    port = {"port": names.PICKER_METRICS_PORT, "path": "/metrics"}
    return {
        "apiVersion": MONITORING_API,
        "kind": "ServiceMonitor",
        "metadata": _chosen(built, monitoring),
        "spec": {
            "selector": {
                "matchLabels": {
                    labels.SERVICE: plan.service,
                    labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
                }
            },
            "endpoints": [{**port, **shown, **_pace(monitoring)}],
        },
    }


def _chosen(built: Manifest, monitoring: MonitoringPlan) -> Manifest:
    return {**built, "labels": {**monitoring.args.labels, **built["labels"]}}


def _pace(monitoring: MonitoringPlan) -> Manifest:
    given = {
        "interval": monitoring.args.interval,
        "scrapeTimeout": monitoring.args.scrape_timeout,
    }
    return {key: value for key, value in given.items() if value is not None}
