"""What keeps a running service running: PodDisruptionBudgets and monitors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from fusioninfer_pulumi import labels, names
from fusioninfer_pulumi.manifests.autoscaler import autoscaler
from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.manifests.pod_template import role_labels
from fusioninfer_pulumi.manifests.routing.common import router_metadata
from fusioninfer_pulumi.plan.day_two.records import BudgetPlan, EngineMonitor, MonitoringPlan
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.topology import replica_label
from fusioninfer_pulumi.spec.role import ComponentType

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
    built = router_metadata(plan, router, names.picker_monitor(plan.service))
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
