"""PodMonitors of engines and the ServiceMonitor of the endpoint picker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.pods.scheduling import role_labels
from fusioninfer_pulumi.routing.router import RouterPlan, router_meta
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT, SET_BY_LIBRARY
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology

MONITORED_TARGET_MISSING = Rule(
    "monitored-target-missing",
    ("error", "warning"),
    "What is monitored exists, and serves metrics on a declared port.",
    remedy="Correct it as the message says.",
)
MONITORING_ENGINE_WITHOUT_METRICS = Rule(
    "monitoring-engine-without-metrics",
    ("warning", "info"),
    "Engines that are scraped are known, and serve metrics.",
    remedy="Turn the engine's metrics on.",
)

MONITORING_CERTIFICATE_UNCHECKED = Rule(
    "monitoring-certificate-unchecked",
    "info",
    "The certificate of an engine is checked when it is scraped.",
    remedy="Nothing, if you accept it.",
)
MONITORING_PICKER_TOKEN_DEFAULT = Rule(
    "monitoring-picker-token-default",
    "info",
    "Prometheus may read the picker's metrics.",
    remedy="Set `pickerToken`, or give its ServiceAccount the right.",
)

Manifest = dict[str, Any]

_API = "monitoring.coreos.com/v1"
#: Pod labels that Prometheus copies to metrics, with dots, slashes and dashes as underscores.
_TARGET_LABELS = [labels.SERVICE, labels.COMPONENT_TYPE, labels.ROLE_NAME]
# Path of Prometheus' own ServiceAccount token in its pods.
_OWN_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path


@dataclass(frozen=True)
class EngineMonitor:
    """The PodMonitor of one role.

    Attributes:
        port_name: Name of the serving port in the pods, None without a name.
        rank_ports: Ports of further ranks that have their own.
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
        picker_token: Whether the endpoint picker requires a token for its metrics.
    """

    args: MonitoringArgs
    engines: tuple[EngineMonitor, ...]
    picker: bool


def monitoring_plan(
    service: str,
    args: MonitoringArgs | None,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
) -> tuple[MonitoringPlan | None, list[Finding]]:
    """Returns the monitors of a service, None without `monitoring`, and the findings."""
    if args is None:
        return None, []
    found = list(_label_findings(args))
    monitors: list[EngineMonitor] = []
    for role in roles if args.engines else ():
        if not role.replicas:
            continue
        monitor, more = _engine(service, role)
        monitors.append(monitor)
        found += more
    metrics = router.epp.metrics if router is not None else MetricsMode.OFF
    found += _picker(args, router, metrics)
    picker = metrics is not MetricsMode.OFF and args.picker is not False
    if not found and not args.engines and not picker:
        found.append(
            warning(
                MONITORING_ENGINE_WITHOUT_METRICS,
                ("monitoring",),
                "scrapes nothing: neither engines nor a picker",
            )
        )
    return MonitoringPlan(args, tuple(monitors), picker), found


def _label_findings(args: MonitoringArgs) -> Iterator[Finding]:
    for key in args.labels:
        if key.startswith(labels.PREFIX):
            yield error(
                SET_BY_LIBRARY,
                ("monitoring", "labels", key),
                "is set by fusioninfer-pulumi; remove it",
            )


def _engine(service: str, role: RolePlan) -> tuple[EngineMonitor, list[Finding]]:
    port = role.serving.port
    at = ("roles", role.position)
    declared = _declared(role, port)
    found = list(_without_metrics(role, at))
    https = _https(role)
    if declared is None:
        found.append(
            error(
                MONITORED_TARGET_MISSING,
                (*at, "template" if role.args.template else "leaderTemplate"),
                f"monitoring finds pods by the ports that containers declare, and {port}, on which "
                f"{role.name} serves, is not declared; add it to the container's ports "
                f"({{name: http, containerPort: {port}}}), or set monitoring.engines to false",
            )
        )
    if https:
        found.append(
            info(
                MONITORING_CERTIFICATE_UNCHECKED,
                ("monitoring", "engines"),
                f"the certificate of {role.name} is not checked: pods are scraped by address",
            )
        )
    ranks = [port for port in role.serving.ports[1:] if _declared(role, port) is not None]
    if declared is not None and len(ranks) < len(role.serving.ports) - 1:
        undeclared = [port for port in role.serving.ports[1:] if port not in ranks]
        found.append(
            warning(
                MONITORED_TARGET_MISSING,
                (*at, "template" if role.args.template else "leaderTemplate"),
                f"monitoring finds pods by the ports that containers declare: the ranks on "
                f"{', '.join(map(str, undeclared))} are not scraped; set parallelism.portPerRank",
            )
        )
    name = declared.get("name") if declared else None
    monitor = EngineMonitor(
        role=role.name,
        name=names.engine_monitor(service, role.name),
        port_name=name if isinstance(name, str) else None,
        port=port,
        rank_ports=tuple(ranks),
        https=https,
    )
    return monitor, found


def _declared(role: RolePlan, port: int) -> Mapping[str, Any] | None:
    """Returns the leader's container port of that number, None if no container declares it."""
    leader = role.pods.leader
    others = [*leader.spec["containers"], *(leader.spec.get("initContainers") or ())]
    for container in (leader.container, *others):
        for given in container.get("ports") or ():
            if isinstance(given, Mapping) and given.get("containerPort") == port:
                return given
    return None


def _https(role: RolePlan) -> bool:
    sidecar = role.pods.kv.sidecar if role.pods.kv is not None else None
    if sidecar is not None and sidecar.port == role.serving.port:
        return sidecar.https
    return role.serving.command.serves_https


def _without_metrics(role: RolePlan, at: Location) -> Iterator[Finding]:
    """Yields findings about engines that serve no metrics, or may not."""
    engine = role.serving.command.engine
    reason = engine.metrics_off(role.serving.command) if engine is not None else None
    if reason is not None:
        yield warning(
            MONITORING_ENGINE_WITHOUT_METRICS,
            at,
            f"monitoring gets no metrics from {role.name}: {reason}",
        )
    elif engine is None:
        yield info(
            MONITORING_ENGINE_WITHOUT_METRICS,
            at,
            f"the program of {role.name} is unknown: monitoring assumes that it serves metrics",
        )


def _picker(
    args: MonitoringArgs, router: RouterPlan | None, metrics: MetricsMode
) -> Iterator[Finding]:
    if args.picker and router is None:
        yield error(
            MONITORED_TARGET_MISSING,
            ("monitoring", "picker"),
            "the service has no router; remove it",
        )
    elif args.picker and metrics is MetricsMode.OFF:
        yield error(
            MONITORED_TARGET_MISSING,
            ("monitoring", "picker"),
            "the picker serves no metrics; set endpointPicker.metrics of the router to "
            f"{MetricsMode.AUTHENTICATED.value}",
        )
    if args.picker_token is None:
        if metrics is MetricsMode.AUTHENTICATED and args.picker is not False:
            yield info(
                MONITORING_PICKER_TOKEN_DEFAULT,
                ("monitoring", "pickerToken"),
                "not set: Prometheus sends the token of its own ServiceAccount, which may need "
                "`get` on the URL /metrics",
            )
    elif metrics is not MetricsMode.AUTHENTICATED or args.picker is False:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            ("monitoring", "pickerToken"),
            "has no effect: only a picker whose metrics are Authenticated asks for a token",
        )


def monitors(
    plan: Topology, router: RouterPlan | None, monitoring: MonitoringPlan
) -> Iterator[Manifest]:
    """Yields a PodMonitor for each engine, and the endpoint picker's ServiceMonitor."""
    roles = {role.name: role for role in plan.roles}
    for monitor in monitoring.engines:
        yield _pod_monitor(plan, roles[monitor.role], monitoring, monitor)
    if monitoring.picker and router is not None:
        yield _service_monitor(plan, router, monitoring)


def _pod_monitor(
    plan: Topology, role: RolePlan, monitoring: MonitoringPlan, monitor: EngineMonitor
) -> Manifest:
    port: Manifest = (
        {"portNumber": monitor.port} if monitor.port_name is None else {"port": monitor.port_name}
    )
    ports = [port, *({"portNumber": number} for number in monitor.rank_ports)]
    own = role_labels(plan, role.args)
    grouped = [] if plan.groups is None else [labels.GROUP_INDEX]
    tls = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if monitor.https else {}
    return {
        "apiVersion": _API,
        "kind": "PodMonitor",
        "metadata": _chosen(metadata(plan, monitor.name, own), monitoring),
        "spec": {
            "selector": {"matchLabels": {**own, labels.LWS_WORKER_INDEX: "0"}},
            "podTargetLabels": [*_TARGET_LABELS, plan.layout.replica_label, *grouped],
            "podMetricsEndpoints": [
                {**each, "path": monitoring.args.path, **tls, **_scraping(monitoring)}
                for each in ports
            ],
        },
    }


def _service_monitor(plan: Topology, router: RouterPlan, monitoring: MonitoringPlan) -> Manifest:
    token = monitoring.args.picker_token
    shown: Manifest = {}
    if router.epp.metrics is MetricsMode.AUTHENTICATED and token is not None:
        credentials = {"name": token.name, "key": token.key}
        shown = {"authorization": {"type": "Bearer", "credentials": credentials}}
    elif router.epp.metrics is MetricsMode.AUTHENTICATED:
        shown = {"bearerTokenFile": _OWN_TOKEN}
    built = metadata(router_meta(plan, router.name), names.epp_monitor(plan.service))
    port = {"port": names.EPP_METRICS_PORT, "path": "/metrics"}
    return {
        "apiVersion": _API,
        "kind": "ServiceMonitor",
        "metadata": _chosen(built, monitoring),
        "spec": {
            "selector": {
                "matchLabels": {
                    labels.SERVICE: plan.service,
                    labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
                }
            },
            "endpoints": [{**port, **shown, **_scraping(monitoring)}],
        },
    }


def _chosen(built: Manifest, monitoring: MonitoringPlan) -> Manifest:
    return {**built, "labels": {**monitoring.args.labels, **built["labels"]}}


def _scraping(monitoring: MonitoringPlan) -> Manifest:
    given = {
        "interval": monitoring.args.interval,
        "scrapeTimeout": monitoring.args.scrape_timeout,
    }
    return {key: value for key, value in given.items() if value is not None}
