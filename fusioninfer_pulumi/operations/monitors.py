"""PodMonitors of engines, the ServiceMonitor of the endpoint picker, and their series in PromQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, build_object, metadata
from fusioninfer_pulumi.pods.pod_metadata import role_labels
from fusioninfer_pulumi.routing.routing_plan import Routing, router_meta
from fusioninfer_pulumi.topology.role_plan import RolePlan

# Path of Prometheus' own ServiceAccount token in its pods.
_OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


@dataclass(frozen=True)
class MonitoringPlan:
    """The monitors of one service.

    Attributes:
        engines: Roles whose engines are scraped.
        picker: Whether the endpoint picker is scraped.
        gateway: Whether the gateway may have the metrics of Envoy Gateway, which the dashboard of
            the gateway reads.
    """

    args: MonitoringArgs
    shape: ServiceShape
    engines: tuple[RolePlan, ...]
    picker: bool
    gateway: bool = False

    @property
    def more_labels(self) -> list[str]:
        """Pod labels that only alerts and dashboards need."""
        args = self.args
        return [labels.REVISION] if args.alerts is not None or args.dashboards is not None else []


def plan_monitoring(
    args: MonitoringArgs,
    shape: ServiceShape,
    roles: Sequence[RolePlan],
    routing: Routing | None,
) -> MonitoringPlan:
    """Return the monitors of a service."""
    picker = routing.picker if routing is not None else None
    metrics = picker.epp.args.metrics if picker is not None else MetricsMode.OFF
    routed = routing is not None and routing.route is not None
    return MonitoringPlan(
        args=args,
        shape=shape,
        engines=tuple(role for role in roles if args.engines and role.replicas),
        picker=metrics is not MetricsMode.OFF and args.picker is not False,
        gateway=routed and routing is not None and routing.implementation.is_envoy_gateway,
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
    meta: ServiceMeta, routing: Routing | None, monitoring: MonitoringPlan
) -> Iterator[Manifest]:
    """Yield a PodMonitor for each engine, and the endpoint picker's ServiceMonitor."""
    for role in monitoring.engines:
        yield _pod_monitor(meta, role, monitoring)
    if monitoring.picker and routing is not None and routing.picker is not None:
        metrics = routing.picker.epp.args.metrics
        yield _service_monitor(router_meta(meta, routing.name), metrics, monitoring)


def _pod_monitor(meta: ServiceMeta, role: RolePlan, monitoring: MonitoringPlan) -> Manifest:
    pods, own_labels = role.pods, role_labels(meta, role.args)
    name = (find_declared_port(role, pods.port) or {}).get("name")
    ranks = (rank for rank in pods.ports[1:] if find_declared_port(role, rank))
    ports: list[Manifest] = [
        {"port": name} if isinstance(name, str) else {"portNumber": pods.port},
        *({"portNumber": rank} for rank in ranks),
    ]
    sidecar = pods.kv.sidecar if pods.kv is not None else None
    is_sidecar = sidecar is not None and sidecar.port == pods.port
    https = sidecar.https if sidecar is not None and is_sidecar else pods.command.serves_https
    tls = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if https else {}
    grouped = [] if monitoring.shape.groups is None else [labels.GROUP_INDEX]
    path = monitoring.args.path
    return _monitor(
        "PodMonitor",
        metadata(meta, object_names.engine_monitor(meta.service, role.name), own_labels),
        monitoring,
        {**own_labels, labels.LWS_WORKER_INDEX: "0"},
        {"podMetricsEndpoints": [{**port, "path": path, **tls} for port in ports]},
        podTargetLabels=[
            *(labels.SERVICE, labels.COMPONENT_TYPE, labels.ROLE_NAME),
            monitoring.shape.layout.replica_label,
            *grouped,
            *monitoring.more_labels,
        ],
    )


def _service_monitor(
    meta: ServiceMeta, metrics: MetricsMode, monitoring: MonitoringPlan
) -> Manifest:
    token = monitoring.args.picker_token
    shown: Manifest = {}
    if metrics is MetricsMode.AUTHENTICATED and token is not None:
        credentials = {"name": token.name, "key": token.key}
        shown = {"authorization": {"type": "Bearer", "credentials": credentials}}
    elif metrics is MetricsMode.AUTHENTICATED:
        shown = {"bearerTokenFile": _OWN_TOKEN}
    built = metadata(meta, object_names.epp_monitor(meta.service))
    port = {"port": object_names.EPP_METRICS_PORT, "path": "/metrics"}
    router = {labels.SERVICE: meta.service, labels.COMPONENT_TYPE: ComponentType.ROUTER.value}
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
    spec = {"selector": {"matchLabels": selector}, **spec}
    spec[field] = [{**port, **known} for port in ports]
    return monitoring_object(kind, built, args, spec)


def monitoring_object(
    kind: str, built: Manifest, args: MonitoringArgs, spec: Mapping[str, Any]
) -> Manifest:
    """Return an object of the Prometheus operator, with the labels by which it finds it."""
    named = {**built, "labels": {**args.labels, **built["labels"]}}
    return build_object("monitoring.coreos.com/v1", kind, named, spec=spec)


def series_label(label: str) -> str:
    """Return the name that Prometheus makes of a pod's label."""
    return "".join(letter if letter.isalnum() else "_" for letter in label)


#: Series label with the role.
ROLE = series_label(labels.ROLE_NAME)
#: Series label with the revision of the pod's template.
REVISION = series_label(labels.REVISION)


def service_selector(meta: ServiceMeta) -> str:
    """Return the matchers of all engines of a service."""
    return f'namespace="{meta.namespace}", {series_label(labels.SERVICE)}="{meta.service}"'


def role_selector(meta: ServiceMeta, role: RolePlan) -> str:
    """Return the matchers of the engines of one role."""
    return f'{service_selector(meta)}, {ROLE}="{role.name}"'


def picker_selector(meta: ServiceMeta) -> str:
    """Return the matchers of the endpoint picker, whose job is named after its Service."""
    return f'namespace="{meta.namespace}", job="{object_names.endpoint_picker(meta.service)}"'


def replicas_up(selector: str) -> str:
    """Return the number of replicas whose leader answers on every port; 0 without any series."""
    return f"(count(min by (pod) (up{{{selector}}}) == 1) or vector(0))"
