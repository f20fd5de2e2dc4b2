"""Monitors of engines and picker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.engines import observability, table
from fusioninfer_pulumi.engines.serving_container import serving_container
from fusioninfer_pulumi.findings import Finding, error, info, join, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.operations.records import EngineMonitor, MonitoringPlan
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan


def monitoring_plan(
    service: str,
    args: MonitoringArgs | None,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
) -> tuple[MonitoringPlan | None, list[Finding]]:
    """Plans the monitors of a service.

    Args:
        service: Name of the service.
        args: What the user asked for, None for nothing.
        roles: The serving roles.
        router: The router, None without one.

    Returns:
        The monitors, None where none are asked for, and what is to be said.
    """
    if args is None:
        return None, []
    found = list(_asked(args))
    monitors: list[EngineMonitor] = []
    for role in roles if args.engines else ():
        if not role.replicas:
            continue
        monitor, said = _engine(service, role)
        monitors.append(monitor)
        found += said
    metrics = router.picker.metrics if router is not None else MetricsMode.OFF
    found += _picker(args, router, metrics)
    picker = metrics is not MetricsMode.OFF and args.picker is not False
    if not found and not args.engines and not picker:
        found.append(warning("monitoring", "scrapes nothing: neither engines nor a picker"))
    return (
        MonitoringPlan(args, tuple(monitors), picker, metrics is MetricsMode.AUTHENTICATED),
        found,
    )


def _asked(args: MonitoringArgs) -> Iterator[Finding]:
    for key in args.labels:
        if key.startswith(labels.PREFIX):
            yield error(
                join("monitoring", "labels", key), "is set by fusioninfer-pulumi; remove it"
            )


def _engine(service: str, role: RolePlan) -> tuple[EngineMonitor, list[Finding]]:
    port = role.serving.port
    at = join("roles", role.position)
    declared = _declared(role, port)
    found = list(_silent(role, at))
    https = _https(role)
    if declared is None:
        found.append(
            error(
                f"{at}.template" if role.args.template else f"{at}.leaderTemplate",
                f"monitoring finds pods by the ports that containers declare, and {port}, on which "
                f"{role.name} serves, is not declared; add it to the container's ports "
                f"({{name: http, containerPort: {port}}}), or set monitoring.engines to false",
            )
        )
    if https:
        found.append(
            info(
                "monitoring.engines",
                f"the certificate of {role.name} is not checked: pods are scraped by address",
            )
        )
    name = declared.get("name") if declared else None
    monitor = EngineMonitor(
        role=role.name,
        name=names.engine_monitor(service, role.name),
        port_name=name if isinstance(name, str) else None,
        port=port,
        https=https,
    )
    return monitor, found


def _declared(role: RolePlan, port: int) -> Mapping[str, Any] | None:
    """The leader's container port of that number, None where no container declares it."""
    sidecar = role.wiring.sidecar if role.wiring is not None else None
    if sidecar is not None and sidecar.port == port:
        return {"name": names.SIDECAR_PORT, "containerPort": port}
    own = serving_container(role.leader_template, role.args.container)
    spec = role.leader_template["spec"]
    others = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in (own, *others):
        for given in container.get("ports") or ():
            if isinstance(given, Mapping) and given.get("containerPort") == port:
                return given
    return None


def _https(role: RolePlan) -> bool:
    sidecar = role.wiring.sidecar if role.wiring is not None else None
    if sidecar is not None and sidecar.port == role.serving.port:
        return sidecar.https
    return table.serves_https(role.serving.command)


def _silent(role: RolePlan, at: str) -> Iterator[Finding]:
    """What an engine that keeps its numbers to itself is told."""
    reason = observability.silent_metrics(role.serving.command)
    if reason is not None:
        yield warning(at, f"monitoring reads nothing of {role.name}: {reason}")
    elif role.serving.command.engine is None:
        yield info(
            at, f"the program of {role.name} is not known: monitoring takes it to serve metrics"
        )


def _picker(
    args: MonitoringArgs, router: RouterPlan | None, metrics: MetricsMode
) -> Iterator[Finding]:
    if args.picker and router is None:
        yield error("monitoring.picker", "the service has no router; remove it")
    elif args.picker and metrics is MetricsMode.OFF:
        yield error(
            "monitoring.picker",
            "the picker serves no metrics; set endpointPicker.metrics of the router to "
            f"{MetricsMode.AUTHENTICATED.value}",
        )
    if args.picker_token is None:
        if metrics is MetricsMode.AUTHENTICATED and args.picker is not False:
            yield info(
                "monitoring.pickerToken",
                "is not given: Prometheus shows the picker the token of its own ServiceAccount, "
                "which may then need `get` on the URL /metrics",
            )
    elif metrics is not MetricsMode.AUTHENTICATED or args.picker is False:
        yield warning(
            "monitoring.pickerToken",
            "has no effect: only a picker whose metrics are Authenticated asks for a token",
        )
