"""Checks of disruption budgets, monitors and tracing, and the list of all of operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.checks.autoscaling_checks import autoscaling_findings, ratio_findings
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.operations.monitors import find_declared_port
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.routing.routing_plan import PickerPlan
from fusioninfer_pulumi.rules.common import (
    ENGINE_WITHOUT_METRICS,
    FIELD_OUT_OF_PLACE,
    FIELD_WITHOUT_EFFECT,
    OUT_OF_RANGE,
    SET_BY_LIBRARY,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan, resolve_share

DISRUPTION_BUDGET_BLOCKS_EVICTION = Rule("disruption-budget-blocks-eviction")


def budget_findings(built: BuiltService) -> Iterator[Finding]:
    """Check the budget of each role that has one."""
    for budget in built.plan.operations.budgets:
        role = budget.role
        args = role.args.disruption_budget or built.args.disruption_budget
        if args is None or budget.replicas:
            continue
        at = (
            "disruptionBudget",
            "maxUnavailable" if args.min_available is None else "minAvailable",
        )
        field = at if role.args.disruption_budget is None else ("roles", role.position, *at)
        count = len(role.replicas)
        minimum = (
            0 if args.min_available is None else resolve_share(args.min_available, count, math.ceil)
        )
        if role.scaled_externally:
            message = f"{role.name} is autoscaled: set maxUnavailable to a count of at least 1"
            yield error(FIELD_OUT_OF_PLACE, field, message)
        elif minimum > count:
            message = f"must be at most the replicas of {role.name} ({count}), got {minimum}"
            yield error(OUT_OF_RANGE, field, message)
        else:
            yield warning(
                DISRUPTION_BUDGET_BLOCKS_EVICTION,
                field,
                f"allows no eviction of {role.name} (replicas: {count}): node drains and upgrades "
                "never finish; add a replica, or delete the pods by hand",
            )


MONITORED_TARGET_MISSING = Rule("monitored-target-missing")


def monitoring_findings(built: BuiltService) -> Iterator[Finding]:
    """Check `monitoring` and each monitor that it makes."""
    monitoring = built.plan.operations.monitoring
    if monitoring is None:
        return
    args = monitoring.args
    yield from _readers(args)
    yield from _picker_monitor(args, built.plan.picker)
    for role in monitoring.engines:
        yield from _engine_monitor(role)


def _readers(args: MonitoringArgs) -> Iterator[Finding]:
    """Check the labels of monitors, alerts and dashboards."""
    at: Location = ("monitoring",)
    own_labels = [(*at, "labels", key) for key in args.labels if key.startswith(labels.PREFIX)]
    for field, wanted in (("alerts", args.alerts), ("dashboards", args.dashboards)):
        if wanted is None:
            continue
        own_labels += [
            (*at, field, "labels", key) for key in wanted.labels if key.startswith(labels.PREFIX)
        ]
    for place in own_labels:
        yield error(SET_BY_LIBRARY, place, "is set by fusioninfer-pulumi; remove it")


def _engine_monitor(role: RolePlan) -> Iterator[Finding]:
    at, port = ("roles", role.position), role.pods.port
    engine = role.pods.command.engine
    reason = engine.metrics_off(role.pods.command) if engine is not None else None
    if reason is not None:
        message = f"monitoring gets no metrics from {role.name}: {reason}"
        yield warning(ENGINE_WITHOUT_METRICS, at, message)
    if find_declared_port(role, port) is None:
        yield error(
            MONITORED_TARGET_MISSING,
            (*at, "template" if role.args.template else "leaderTemplate"),
            f"monitoring finds pods by declared ports, and port {port} of {role.name} is not "
            "declared; add it to the container's ports "
            f"({{name: http, containerPort: {port}}}), or set monitoring.engines to false",
        )
    undeclared = [str(rank) for rank in role.pods.ports[1:] if not find_declared_port(role, rank)]
    if undeclared:
        yield warning(
            MONITORED_TARGET_MISSING,
            (*at, "template" if role.args.template else "leaderTemplate"),
            "monitoring finds pods by declared ports: the ranks on "
            f"{', '.join(undeclared)} are not scraped; set parallelism.portPerRank",
        )


def _picker_monitor(args: MonitoringArgs, picker: PickerPlan | None) -> Iterator[Finding]:
    metrics = picker.epp.args.metrics if picker is not None else MetricsMode.OFF
    if args.picker and picker is None:
        yield error(
            MONITORED_TARGET_MISSING,
            ("monitoring", "picker"),
            "the service has no endpoint picker; remove it",
        )
    elif args.picker and metrics is MetricsMode.OFF:
        yield error(
            MONITORED_TARGET_MISSING,
            ("monitoring", "picker"),
            "the endpoint picker serves no metrics; set the router's endpointPicker.metrics to "
            f"{MetricsMode.AUTHENTICATED.value}",
        )


PICKER_TRACES_WITHOUT_TLS = Rule("picker-traces-without-tls")


def tracing_findings(built: BuiltService) -> Iterator[Finding]:
    """Check that something traces, and that the endpoint picker can reach the endpoint."""
    args, picker = built.args.tracing, built.plan.picker
    if args is None:
        return
    family = picker.epp.family if picker is not None and args.picker else None
    if family is not None and args.endpoint.startswith("https://") and not family.traces_tls:
        yield error(
            PICKER_TRACES_WITHOUT_TLS,
            ("tracing", "endpoint"),
            f"{family.name} cannot send traces over TLS; use http, or set tracing.picker to false",
        )
    if family is None and not any(role.pods.traced for role in built.plan.roles):
        message = "has no effect: neither an endpoint picker nor an engine sends traces"
        yield warning(FIELD_WITHOUT_EFFECT, ("tracing",), message)


CHECKS: tuple[Callable[[BuiltService], Iterable[Finding]], ...] = (
    budget_findings,
    monitoring_findings,
    tracing_findings,
    autoscaling_findings,
    ratio_findings,
)
