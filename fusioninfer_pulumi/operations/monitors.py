"""PodMonitors of engines, the ServiceMonitor of the endpoint picker, and their series in PromQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.pods.pod_metadata import role_labels
from fusioninfer_pulumi.routing.routing_plan import Routing, router_meta
from fusioninfer_pulumi.topology.role_plan import RolePlan
from fusioninfer_pulumi.topology.service_topology import Topology

# Path of Prometheus' own ServiceAccount token in its pods.
_OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


@dataclass(frozen=True)
class EngineMonitor:
    """The PodMonitor of one role.

    Attributes:
        port_name: Name of the serving port in the pods, None without a name.
        rank_ports: Declared ports of further ranks that have their own.
    """

    role: str
    name: str
    port_name: str | None
    port: int
    rank_ports: tuple[int, ...]
    https: bool


@dataclass(frozen=True)
class MonitoringPlan:
    """The monitors of one service.

    Attributes:
        picker: Whether the endpoint picker is scraped.
        gateway: Whether the gateway may have the metrics of Envoy Gateway, which the dashboard of
            the gateway reads.
    """

    args: MonitoringArgs
    engines: tuple[EngineMonitor, ...]
    picker: bool
    gateway: bool = False

    @property
    def more_labels(self) -> list[str]:
        """Pod labels that only alerts and dashboards need."""
        args = self.args
        return [labels.REVISION] if args.alerts is not None or args.dashboards is not None else []


def plan_monitoring(
    service: str,
    args: MonitoringArgs,
    roles: Sequence[RolePlan],
    routing: Routing | None,
) -> MonitoringPlan:
    """Return the monitors of a service."""
    picker = routing.picker if routing is not None else None
    metrics = picker.epp.args.metrics if picker is not None else MetricsMode.OFF
    routed = routing is not None and routing.route is not None
    return MonitoringPlan(
        args=args,
        engines=tuple(_engine(service, role) for role in roles if args.engines and role.replicas),
        picker=metrics is not MetricsMode.OFF and args.picker is not False,
        gateway=routed and routing is not None and routing.implementation.is_envoy_gateway,
    )


def _engine(service: str, role: RolePlan) -> EngineMonitor:
    port = role.pods.port
    name = (find_declared_port(role, port) or {}).get("name")
    sidecar = role.pods.kv.sidecar if role.pods.kv is not None else None
    https = role.pods.command.serves_https
    return EngineMonitor(
        role=role.name,
        name=object_names.engine_monitor(service, role.name),
        port_name=name if isinstance(name, str) else None,
        port=port,
        rank_ports=tuple(rank for rank in role.pods.ports[1:] if find_declared_port(role, rank)),
        https=sidecar.https if sidecar is not None and sidecar.port == port else https,
    )


def find_declared_port(role: RolePlan, port: int) -> Mapping[str, Any] | None:
    """Return the leader's container port of that number, None if no container declares it."""
    leader = role.pods.leader
    containers = [*leader.spec["containers"], *(leader.spec.get("initContainers") or ())]
    for container in (leader.container, *containers):
        for entry in container.get("ports") or ():
            if isinstance(entry, Mapping) and entry.get("containerPort") == port:
                return entry
    return None


def monitors(
    plan: Topology, routing: Routing | None, monitoring: MonitoringPlan
) -> Iterator[Manifest]:
    """Yield a PodMonitor for each engine, and the endpoint picker's ServiceMonitor."""
    roles = {role.name: role for role in plan.roles}
    for monitor in monitoring.engines:
        yield _pod_monitor(plan, roles[monitor.role], monitoring, monitor)
    if monitoring.picker and routing is not None and routing.picker is not None:
        metrics = routing.picker.epp.args.metrics
        yield _service_monitor(plan, router_meta(plan, routing.name), metrics, monitoring)


def _pod_monitor(
    plan: Topology, role: RolePlan, monitoring: MonitoringPlan, monitor: EngineMonitor
) -> Manifest:
    port: Manifest = (
        {"portNumber": monitor.port} if monitor.port_name is None else {"port": monitor.port_name}
    )
    ports = [port, *({"portNumber": number} for number in monitor.rank_ports)]
    own_labels = role_labels(plan, role.args)
    grouped = [] if plan.groups is None else [labels.GROUP_INDEX]
    tls = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if monitor.https else {}
    path = monitoring.args.path
    return _monitor(
        "PodMonitor",
        metadata(plan, monitor.name, own_labels),
        monitoring,
        {**own_labels, labels.LWS_WORKER_INDEX: "0"},
        {"podMetricsEndpoints": [{**port, "path": path, **tls} for port in ports]},
        podTargetLabels=[
            *(labels.SERVICE, labels.COMPONENT_TYPE, labels.ROLE_NAME),
            plan.shape.layout.replica_label,
            *grouped,
            *monitoring.more_labels,
        ],
    )


def _service_monitor(
    plan: Topology, meta: ServiceMeta, metrics: MetricsMode, monitoring: MonitoringPlan
) -> Manifest:
    token = monitoring.args.picker_token
    shown: Manifest = {}
    if metrics is MetricsMode.AUTHENTICATED and token is not None:
        credentials = {"name": token.name, "key": token.key}
        shown = {"authorization": {"type": "Bearer", "credentials": credentials}}
    elif metrics is MetricsMode.AUTHENTICATED:
        shown = {"bearerTokenFile": _OWN_TOKEN}
    built = metadata(meta, object_names.epp_monitor(plan.service))
    port = {"port": object_names.EPP_METRICS_PORT, "path": "/metrics"}
    router = {labels.SERVICE: plan.service, labels.COMPONENT_TYPE: ComponentType.ROUTER.value}
    return _monitor("ServiceMonitor", built, monitoring, router, {"endpoints": [{**port, **shown}]})


def _monitor(
    kind: str,
    built: Manifest,
    monitoring: MonitoringPlan,
    selector: Mapping[str, str],
    endpoints: Mapping[str, Sequence[Manifest]],
    **spec: Any,
) -> Manifest:
    args = monitoring.args
    times = {"interval": args.interval, "scrapeTimeout": args.scrape_timeout}
    known = {key: value for key, value in times.items() if value is not None}
    ((field, ports),) = endpoints.items()
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": kind,
        "metadata": {**built, "labels": {**args.labels, **built["labels"]}},
        "spec": {
            "selector": {"matchLabels": selector},
            **spec,
            field: [{**port, **known} for port in ports],
        },
    }


def series_label(label: str) -> str:
    """Return the name that Prometheus makes of a pod's label."""
    return "".join(letter if letter.isalnum() else "_" for letter in label)


#: Series label with the role.
ROLE = series_label(labels.ROLE_NAME)
#: Series label with the revision of the pod's template.
REVISION = series_label(labels.REVISION)


def service_selector(plan: Topology) -> str:
    """Return the matchers of all engines of a service."""
    return f'namespace="{plan.namespace}", {series_label(labels.SERVICE)}="{plan.service}"'


def role_selector(plan: Topology, role: RolePlan) -> str:
    """Return the matchers of the engines of one role."""
    return f'{service_selector(plan)}, {ROLE}="{role.name}"'


def picker_selector(plan: Topology) -> str:
    """Return the matchers of the endpoint picker, whose job is named after its Service."""
    return f'namespace="{plan.namespace}", job="{object_names.endpoint_picker(plan.service)}"'


def replicas_up(selector: str) -> str:
    """Return the number of replicas whose leader answers on every port; 0 without any series."""
    return f"(count(min by (pod) (up{{{selector}}}) == 1) or vector(0))"
