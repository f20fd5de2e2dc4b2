"""Monitors of engines and the endpoint picker, PromQL for their series, and dashboards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.monitoring import DashboardsArgs, MonitoringArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.pods.pod_metadata import get_role_labels
from fusioninfer_pulumi.routing.routing_plan import Routing, build_router_meta
from fusioninfer_pulumi.topology.role_plan import RolePlan

# Path of Prometheus' ServiceAccount token in Prometheus' pods.
_PROMETHEUS_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


class MonitoringPlan(NamedTuple):
    """The monitors, alerts and dashboards of one service.

    Attributes:
        scraped_roles: Roles whose engines are scraped; empty if `monitoring.engines` is false.
        scrapes_picker: Whether the endpoint picker is scraped.
        may_be_envoy_gateway: Whether the service has a route, and the gateway may be Envoy Gateway.
            The gateway dashboard shows Envoy Gateway's metrics.
    """

    args: MonitoringArgs
    shape: ServiceShape
    scraped_roles: tuple[RolePlan, ...]
    scrapes_picker: bool
    may_be_envoy_gateway: bool = False

    @property
    def extra_pod_labels(self) -> list[str]:
        """Pod labels that are copied into the engines' series only for alerts and dashboards."""
        has_readers = self.args.alerts is not None or self.args.dashboards is not None
        return [labels.REVISION] if has_readers else []


def plan_monitoring(
    args: MonitoringArgs, shape: ServiceShape, roles: Sequence[RolePlan], routing: Routing | None
) -> MonitoringPlan:
    """Return the monitors of a service."""
    picker = routing.picker if routing is not None else None
    metrics = picker.epp.args.metrics if picker is not None else MetricsMode.OFF
    return MonitoringPlan(
        args=args,
        shape=shape,
        scraped_roles=tuple(role for role in roles if args.engines and role.replicas),
        scrapes_picker=metrics is not MetricsMode.OFF and args.picker is not False,
        may_be_envoy_gateway=routing is not None
        and routing.route is not None
        and routing.implementation.may_be_envoy_gateway,
    )


def find_declared_port(role: RolePlan, port: int) -> Mapping[str, Any] | None:
    """Return the leader's `ports` entry for a port, preferably the engine container's, or None."""
    leader = role.pods.leader
    containers = [*leader.spec["containers"], *(leader.spec.get("initContainers") or ())]
    for container in (leader.container, *containers):
        for entry in container.get("ports") or ():
            if isinstance(entry, Mapping) and entry.get("containerPort") == port:
                return entry
    return None


def build_monitors(
    meta: ServiceMeta, routing: Routing | None, monitoring: MonitoringPlan
) -> Iterator[Manifest]:
    """Yield a PodMonitor for each role's engines, and the endpoint picker's ServiceMonitor."""
    for role in monitoring.scraped_roles:
        yield _build_pod_monitor(meta, role, monitoring)
    if not monitoring.scrapes_picker or routing is None or routing.picker is None:
        return
    token = monitoring.args.picker_token
    endpoint: Manifest = {"port": object_names.EPP_METRICS_PORT, "path": "/metrics"}
    is_authenticated = routing.picker.epp.args.metrics is MetricsMode.AUTHENTICATED
    if is_authenticated and token is not None:
        credentials = {"name": token.name, "key": token.key}
        endpoint["authorization"] = {"type": "Bearer", "credentials": credentials}
    elif is_authenticated:
        endpoint["bearerTokenFile"] = _PROMETHEUS_TOKEN
    selector = {labels.SERVICE: meta.service, labels.COMPONENT_TYPE: ComponentType.ROUTER.value}
    endpoints = [_set_interval(monitoring, endpoint)]
    spec = {"selector": {"matchLabels": selector}, "endpoints": endpoints}
    router_meta = build_router_meta(meta, routing.router.name)
    object_meta = build_metadata(router_meta, object_names.epp_monitor(meta.service))
    yield build_monitoring_object("ServiceMonitor", object_meta, monitoring.args, spec)


def _build_pod_monitor(meta: ServiceMeta, role: RolePlan, monitoring: MonitoringPlan) -> Manifest:
    pods, role_labels = role.pods, get_role_labels(meta, role.args)
    name = (find_declared_port(role, pods.port) or {}).get("name")
    other_ports = (port for port in pods.ports[1:] if find_declared_port(role, port))
    ports: list[Manifest] = [
        {"port": name} if isinstance(name, str) else {"portNumber": pods.port},
        *({"portNumber": port} for port in other_ports),
    ]
    sidecar = pods.kv.sidecar if pods.kv is not None else None
    server = pods.command if sidecar is None else sidecar
    common: Manifest = {"path": monitoring.args.path}
    if server.serves_https:
        common |= {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}}
    spec = {
        "selector": {"matchLabels": {**role_labels, labels.LWS_WORKER_INDEX: "0"}},
        "podTargetLabels": [
            labels.SERVICE,
            labels.COMPONENT_TYPE,
            labels.ROLE_NAME,
            monitoring.shape.layout.replica_label,
            *([] if monitoring.shape.groups is None else [labels.GROUP_INDEX]),
            *monitoring.extra_pod_labels,
        ],
        "podMetricsEndpoints": [_set_interval(monitoring, {**port, **common}) for port in ports],
    }
    object_meta = build_metadata(
        meta, object_names.engine_monitor(meta.service, role.name), role_labels
    )
    return build_monitoring_object("PodMonitor", object_meta, monitoring.args, spec)


def _set_interval(monitoring: MonitoringPlan, endpoint: Manifest) -> Manifest:
    args = monitoring.args
    times = {"interval": args.interval, "scrapeTimeout": args.scrape_timeout}
    return endpoint | {key: value for key, value in times.items() if value is not None}


def build_monitoring_object(
    kind: str, object_meta: Manifest, args: MonitoringArgs, spec: Mapping[str, Any]
) -> Manifest:
    """Return an object of the Prometheus operator, with labels by which Prometheus selects it."""
    labeled_meta = {**object_meta, "labels": {**args.labels, **object_meta["labels"]}}
    return build_object("monitoring.coreos.com/v1", kind, labeled_meta, spec=spec)


def get_series_label(label: str) -> str:
    """Return the name of a pod's label in Prometheus' series."""
    return "".join(character if character.isalnum() else "_" for character in label)


#: Series label with the role.
ROLE = get_series_label(labels.ROLE_NAME)
#: Series label with the revision of the pod's template.
REVISION = get_series_label(labels.REVISION)


def build_service_matchers(meta: ServiceMeta) -> str:
    """Return PromQL label matchers for all engines of a service."""
    return f'namespace="{meta.namespace}", {get_series_label(labels.SERVICE)}="{meta.service}"'


def build_role_matchers(meta: ServiceMeta, role: RolePlan) -> str:
    """Return PromQL label matchers for the engines of one role."""
    return f'{build_service_matchers(meta)}, {ROLE}="{role.name}"'


def build_picker_matchers(meta: ServiceMeta) -> str:
    """Return PromQL label matchers for the endpoint picker; its `job` is its Service's name."""
    return f'namespace="{meta.namespace}", job="{object_names.endpoint_picker(meta.service)}"'


def build_replicas_query(matchers: str) -> str:
    """Return PromQL for the number of replicas whose leader is up on every port; 0 if none is."""
    return f"(count(min by (pod) (up{{{matchers}}}) == 1) or vector(0))"


#: Label by which the sidecar of Grafana's Helm chart selects ConfigMaps with dashboards.
GRAFANA_LABELS = {"grafana_dashboard": "1"}
#: Placeholder in the panels' queries; PromQL that counts the GPUs of ready replicas replaces it.
_GPUS = "$gpus"
#: Maximum length of a uid in Grafana.
_UID_LENGTH = 40


def list_dashboards(monitoring: MonitoringPlan) -> list[str]:
    """Return the names of the dashboards of a service; empty if nothing is monitored."""
    names = ["service", "replicas"] if monitoring.scraped_roles else []
    if monitoring.scrapes_picker:
        names.append("picker")
    if names and monitoring.may_be_envoy_gateway:
        names.append("gateway")
    return names


def render_dashboards(meta: ServiceMeta, monitoring: MonitoringPlan) -> dict[str, str]:
    """Return the dashboards of a service as JSON by file name.

    File names contain the service, because Grafana's sidecar writes the files of all ConfigMaps
    into one folder.
    """
    return {
        f"{meta.namespace}.{meta.service}.{name}.json": _fill_dashboard(meta, monitoring, name)
        for name in list_dashboards(monitoring)
    }


def build_dashboards_config_map(
    meta: ServiceMeta, monitoring: MonitoringPlan, args: DashboardsArgs
) -> Manifest:
    """Build the ConfigMap that Grafana's sidecar reads."""
    if args.folder is not None:
        meta = replace(meta, annotations={**meta.annotations, "grafana_folder": args.folder})
    more_labels = {**(args.labels or GRAFANA_LABELS), labels.SERVICE: meta.service}
    object_meta = build_metadata(meta, object_names.dashboards(meta.service), more_labels)
    return build_object("v1", "ConfigMap", object_meta, data=render_dashboards(meta, monitoring))


def _fill_dashboard(meta: ServiceMeta, monitoring: MonitoringPlan, name: str) -> str:
    text = (DIRECTORY / "dashboards" / f"{name}.json").read_text(encoding="utf-8")
    board = json.loads(text)
    constants = {"namespace": meta.namespace, "service": meta.service}
    for variable in board["templating"]["list"]:
        if variable["type"] == "constant":
            variable["query"] = constants[variable["name"]]
    gpus = " + ".join(
        f"{build_replicas_query(build_role_matchers(meta, role))} * {role.replica_accelerators}"
        for role in monitoring.scraped_roles
        if role.replica_accelerators
    )
    if not gpus:
        board["panels"] = [panel for panel in board["panels"] if _GPUS not in json.dumps(panel)]
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            target["expr"] = target["expr"].replace(_GPUS, gpus)
    board["title"] = f"{meta.namespace}/{meta.service}: {name}"
    # The uid is stable across updates, and unique to the service and dashboard.
    digest = hashlib.sha256(f"{meta.namespace}/{meta.service}/{name}".encode()).hexdigest()
    board["uid"] = f"fusioninfer-{digest}"[:_UID_LENGTH]
    return json.dumps(board, indent=1, sort_keys=True) + "\n"
