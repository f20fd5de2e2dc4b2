"""Checks of monitors, alerts and dashboards: what they read exists."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.operations.monitoring import EngineMonitor, declared_port
from fusioninfer_pulumi.plan.build import BuiltService
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.rules.common import (
    ENGINE_WITHOUT_METRICS,
    FIELD_WITHOUT_EFFECT,
    OUTPUT_NOT_ALLOWED,
    SET_BY_LIBRARY,
)
from fusioninfer_pulumi.topology.role import RolePlan

MONITORED_TARGET_MISSING = Rule(
    "monitored-target-missing",
    ("error", "warning"),
    "What is monitored exists, and serves metrics on a declared port.",
    remedy="Correct it as the message says.",
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


def monitoring_findings(built: BuiltService) -> Iterator[Finding]:
    """Checks `monitoring` and each monitor that it makes."""
    monitoring = built.plan.operations.monitoring
    if monitoring is None:
        return
    args, roles = monitoring.args, {role.name: role for role in built.plan.roles}
    of_labels, of_picker = list(_labels(args)), list(_picker(args, built.plan.router))
    yield from of_labels
    for monitor in monitoring.engines:
        yield from _engine(monitor, roles[monitor.role])
    yield from of_picker
    yield from _readers(built, args)
    if not (args.engines or monitoring.picker or of_labels or of_picker):
        yield warning(
            ENGINE_WITHOUT_METRICS,
            ("monitoring",),
            "scrapes nothing: neither engines nor a picker",
        )


def _readers(built: BuiltService, args: MonitoringArgs) -> Iterator[Finding]:
    """Checks what alerts and dashboards are made of."""
    monitoring = built.plan.operations.monitoring
    scraped = {monitor.role for monitor in monitoring.engines} if monitoring is not None else set()
    strange = [
        role.name
        for role in built.plan.roles
        if role.name in scraped
        and (engine := role.serving.command.engine) is not None
        and not engine.has_panels()
    ]
    for field, wanted in (("alerts", args.alerts), ("dashboards", args.dashboards)):
        if wanted is None:
            continue
        at = ("monitoring", field)
        if is_output(built.plan.namespace):
            yield error(
                OUTPUT_NOT_ALLOWED,
                at,
                "its queries name the service's namespace, which must be a plain value for that, "
                "got a pulumi Output",
            )
        if strange:
            yield info(
                ENGINE_WITHOUT_METRICS,
                at,
                f"shows of {', '.join(strange)} which replicas serve: its queries of requests read "
                "vLLM's metrics",
            )
        for key in wanted.labels:
            if key.startswith(labels.PREFIX):
                message = "is set by fusioninfer-pulumi; remove it"
                yield error(SET_BY_LIBRARY, (*at, "labels", key), message)


def _labels(args: MonitoringArgs) -> Iterator[Finding]:
    for key in args.labels:
        if key.startswith(labels.PREFIX):
            message = "is set by fusioninfer-pulumi; remove it"
            yield error(SET_BY_LIBRARY, ("monitoring", "labels", key), message)


def _engine(monitor: EngineMonitor, role: RolePlan) -> Iterator[Finding]:
    at, port = ("roles", role.position), monitor.port
    yield from _without_metrics(role, at)
    if declared_port(role, port) is None:
        yield error(
            MONITORED_TARGET_MISSING,
            (*at, "template" if role.args.template else "leaderTemplate"),
            f"monitoring finds pods by the ports that containers declare, and {port}, on which "
            f"{role.name} serves, is not declared; add it to the container's ports "
            f"({{name: http, containerPort: {port}}}), or set monitoring.engines to false",
        )
    undeclared = [str(rank) for rank in role.serving.ports[1:] if rank not in monitor.rank_ports]
    if undeclared:
        yield warning(
            MONITORED_TARGET_MISSING,
            (*at, "template" if role.args.template else "leaderTemplate"),
            "monitoring finds pods by the ports that containers declare: the ranks on "
            f"{', '.join(undeclared)} are not scraped; set parallelism.portPerRank",
        )
    if monitor.https:
        yield info(
            MONITORING_CERTIFICATE_UNCHECKED,
            ("monitoring", "engines"),
            f"the certificate of {role.name} is not checked: pods are scraped by address",
        )


def _without_metrics(role: RolePlan, at: Location) -> Iterator[Finding]:
    """Yields findings about engines that serve no metrics, or may not."""
    engine = role.serving.command.engine
    reason = engine.metrics_off(role.serving.command) if engine is not None else None
    if reason is not None:
        yield warning(
            ENGINE_WITHOUT_METRICS,
            at,
            f"monitoring gets no metrics from {role.name}: {reason}",
        )
    elif engine is None:
        yield info(
            ENGINE_WITHOUT_METRICS,
            at,
            f"the program of {role.name} is unknown: monitoring assumes that it serves metrics",
        )


def _picker(args: MonitoringArgs, router: RouterPlan | None) -> Iterator[Finding]:
    metrics = router.epp.metrics if router is not None else MetricsMode.OFF
    if args.picker and router is None:
        yield error(
            MONITORED_TARGET_MISSING,
            ("monitoring", "picker"),
            "the service has no endpoint picker; remove it",
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
