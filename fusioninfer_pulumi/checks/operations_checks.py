"""Checks of disruption budgets, monitors, autoscalers and `prefillDecodeRatio`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingTarget,
    MetricSource,
    counts_queued_requests,
    scales_to_zero,
)
from fusioninfer_pulumi.api.field_rules import (
    FieldRule,
    check_fields,
    inapplicable_rule,
    required_rule,
)
from fusioninfer_pulumi.api.pod_template import reserved_key_findings
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.checks.routing_checks import NETWORK_POLICY
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, format_path, warning
from fusioninfer_pulumi.operations.monitors import find_declared_port
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.routing.epp import find_load_metrics
from fusioninfer_pulumi.rules.common import (
    ENGINE_WITHOUT_METRICS,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    OUT_OF_RANGE,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan

DISRUPTION_BUDGET_BLOCKS_EVICTION = Rule("disruption-budget-blocks-eviction")


def check_disruption_budgets(service: BuiltService) -> Iterator[Finding]:
    """Warn about disruption budgets that allow no eviction; reject them for autoscaled roles."""
    for budget in service.plan.operations.budgets:
        role = budget.role
        args = role.args.disruption_budget or service.args.disruption_budget
        if args is None or budget.max_unavailable:
            continue
        limit = "maxUnavailable" if args.min_available is None else "minAvailable"
        field: Location = ("disruptionBudget", limit)
        if role.args.disruption_budget is not None:
            field = ("roles", role.position, *field)
        count = len(role.replicas)
        if role.is_autoscaled:
            message = f'role "{role.name}" is autoscaled; set maxUnavailable to at least 1 instead'
            yield error(FIELD_OUT_OF_PLACE, field, message)
        else:
            message = (
                f'allows no eviction of role "{role.name}" (replicas: {count}), so node drains and '
                "upgrades never finish; add a replica, or delete the pods by hand"
            )
            yield warning(DISRUPTION_BUDGET_BLOCKS_EVICTION, field, message)


MONITORED_TARGET_MISSING = Rule("monitored-target-missing")


def check_monitoring(service: BuiltService) -> Iterator[Finding]:
    """Check `monitoring` and each of its monitors."""
    monitoring = service.plan.operations.monitoring
    if monitoring is None:
        return
    args = monitoring.args
    for field, keys in (
        ((), args.labels),
        (("alerts",), args.alerts.labels if args.alerts is not None else ()),
        (("dashboards",), args.dashboards.labels if args.dashboards is not None else ()),
    ):
        yield from reserved_key_findings(("monitoring", *field, "labels"), keys, ())
    picker = service.plan.picker
    is_off = picker is not None and picker.epp.args.metrics is MetricsMode.OFF
    yield from check_fields(
        ("monitoring",),
        args,
        FieldRule(
            "picker",
            "the service has no endpoint picker; remove it",
            when=bool(args.picker) and picker is None,
            rule=MONITORED_TARGET_MISSING,
        ),
        FieldRule(
            "picker",
            "the endpoint picker serves no metrics; set the router's endpointPicker.metrics to "
            f"{MetricsMode.AUTHENTICATED.value}",
            when=bool(args.picker) and is_off,
            rule=MONITORED_TARGET_MISSING,
        ),
    )
    for role in monitoring.scraped_roles:
        yield from _check_engine_monitor(role)


def _check_engine_monitor(role: RolePlan) -> Iterator[Finding]:
    location, port = ("roles", role.position), role.pods.port
    reason = role.pods.command.explain_missing_metrics()
    if reason is not None:
        message = f'monitoring gets no metrics from role "{role.name}": {reason}'
        yield warning(ENGINE_WITHOUT_METRICS, location, message)
    if find_declared_port(role, port) is None:
        yield error(
            MONITORED_TARGET_MISSING,
            (*location, "template" if role.args.template else "leaderTemplate"),
            f'monitoring finds pods by declared ports, and port {port} of role "{role.name}" is '
            "not declared; add it to the container's ports "
            f"({{name: http, containerPort: {port}}}), or set monitoring.engines to false",
        )


PREFILL_DECODE_RATIO_EXCEEDED = Rule("prefill-decode-ratio-exceeded")
AUTOSCALING_NEVER_WAKES = Rule("autoscaling-never-wakes")

_ENGINE_METRIC = re.compile(r"(?:vllm|sglang)[:_]\w+")
#: Label matchers in a PromQL query.
_MATCHERS = re.compile(r"\{[^}]*\}")
#: Metric names, not function names, in a PromQL query whose label matchers have been removed.
_METRIC = re.compile(r"\b\w+[_:][\w:]*(?![\w:]|\s*\()")

_SHARED_BY_GROUPS = "is one number for all serving groups, but each group is scaled separately"


def check_autoscaling(service: BuiltService) -> Iterator[Finding]:
    """Check the `autoscaling` of each role."""
    for role in service.plan.roles:
        args = role.args.autoscaling
        if args is None:
            continue
        location = ("roles", role.position, "autoscaling")
        yield from check_fields(location, args, *_list_autoscaling_rules(service, role, args))
        metrics = [
            ((*location, "metrics", index), metric) for index, metric in enumerate(args.metrics)
        ]
        has_groups = (service.args.groups or 1) > 1
        for metric_location, metric in metrics:
            is_shared = metric.query is not None or metric.source is MetricSource.EXTERNAL
            if has_groups and is_shared:
                message = f"{_SHARED_BY_GROUPS}: use engine HPA and a metric of source Pods"
                yield error(FIELD_OUT_OF_PLACE, metric_location, message)
        is_hpa = args.engine is AutoscalingEngine.HPA
        only_keda = "belongs to engine KEDA; remove it"
        only_hpa = "belongs to engine HPA; remove it"
        fields = ("prometheus", "keda", "time_to_first_token", "time_per_token")
        yield from check_fields(location, args, inapplicable_rule(fields, only_keda, when=is_hpa))
        metric_rules = (
            inapplicable_rule(("query", "unsafe_ssl"), only_keda, when=is_hpa),
            inapplicable_rule(("source", "selector"), only_hpa, when=not is_hpa),
        )
        for metric_location, metric in metrics:
            yield from check_fields(metric_location, metric, *metric_rules)
        count = role.args.replicas
        if count and not args.min_replicas <= count <= args.max_replicas:
            message = (
                "is the initial count and must be within autoscaling's bounds "
                f"({args.min_replicas} to {args.max_replicas}), got {count}"
            )
            yield error(OUT_OF_RANGE, ("roles", role.position, "replicas"), message)
        if service.plan.gang is not None and not service.plan.gang.is_native:
            yield from _check_gang_minimum(service, role, args, location)
        if args.target is not None:
            yield from _check_target(service, role, args, (*location, "target"))
        yield from _check_scaler_fields(args, location)
        yield from _check_metric_sources(service, args, location)


def _list_autoscaling_rules(
    service: BuiltService, role: RolePlan, args: AutoscalingArgs
) -> tuple[FieldRule, ...]:
    is_hpa, plan = args.engine is AutoscalingEngine.HPA, service.plan
    return (
        inapplicable_rule(
            "",
            "requires layout: PerRole: an autoscaler scales one LeaderWorkerSet, and with "
            "PerReplica each replica has its own",
            when=plan.shape.layout is not Layout.PER_ROLE,
        ),
        inapplicable_rule(
            "min_replicas",
            "must be at least 1 with engine HPA, got 0: Kubernetes accepts 0 only behind a "
            "feature gate; KEDA scales to 0",
            when=is_hpa and args.min_replicas == 0,
        ),
        inapplicable_rule(
            "", "conflicts with replicas: 0; remove one of them", when=role.args.replicas == 0
        ),
        inapplicable_rule(
            "",
            "conflicts with gangPolicy.backend Native: its PodGroup counts the pods of all "
            "replicas and autoscalers do not change it, so after a scale-down a replica that "
            "restarts is never scheduled; use backend Volcano with minRoleReplicas",
            when=plan.gang is not None and plan.gang.is_native,
        ),
        inapplicable_rule(
            "target",
            "requires one engine for all roles, vLLM or SGLang: metrics of other engines are "
            "unknown; set metrics instead",
            when=find_load_metrics(plan.roles) is None,
        ),
        inapplicable_rule(
            "target", f"{_SHARED_BY_GROUPS}; set metrics", when=(service.args.groups or 1) > 1
        ),
        inapplicable_rule(
            "target",
            "queue requires engine KEDA, because it reads metrics of the endpoint picker; use KEDA "
            "or throughput",
            when=is_hpa and args.target is AutoscalingTarget.QUEUE,
        ),
    )


def _check_target(
    service: BuiltService, role: RolePlan, args: AutoscalingArgs, location: Location
) -> Iterator[Finding]:
    """Check that Prometheus reads the engine and endpoint picker metrics that `target` needs."""
    spec = service.args
    if spec.monitoring is None or not spec.monitoring.engines:
        message = (
            "is required with autoscaling.target, because the generated queries need labels that "
            "the PodMonitors add; set monitoring: {}"
        )
        yield error(FIELD_REQUIRED, ("monitoring",), message)
    if args.engine is AutoscalingEngine.HPA and args.target is AutoscalingTarget.QUEUE:
        return  # `_list_autoscaling_rules` reports this combination
    routing = service.plan.routing
    queues_in_picker = routing is not None and routing.epp_choice.flow_control
    ttft_includes_queue = args.time_to_first_token is not None and queues_in_picker
    if counts_queued_requests(args) or ttft_includes_queue:
        yield from _check_picker_target(service, role, args, location)


def _check_picker_target(
    service: BuiltService, role: RolePlan, args: AutoscalingArgs, location: Location
) -> Iterator[Finding]:
    """Check that the endpoint picker queues requests and that Prometheus reads its metrics."""
    routing, picker = service.plan.routing, service.plan.picker
    if not service.plan.shape.has_endpoint_picker:
        missing = "a router role" if routing is None else "endpointPicker.enabled: true"
        message = (
            f"requires {missing}: the endpoint picker queues requests while no replica is ready; "
            "without it clients get an error"
        )
        yield error(FIELD_REQUIRED, location, message)
    if routing is None or picker is None:
        return
    queue_reason = f'role "{role.name}" is scaled by requests that the endpoint picker queues'
    has_metrics = picker.epp.args.metrics is not MetricsMode.OFF
    is_unmonitored = service.args.monitoring is not None and service.args.monitoring.picker is False
    yield from check_fields(
        routing.location,
        routing.router,
        FieldRule(
            "endpoint_picker_config",
            f"requires featureGates: [flowControl], because {queue_reason}",
            when=not routing.epp_choice.flow_control,
            rule=FIELD_REQUIRED,
        ),
        inapplicable_rule(
            "endpoint_picker.flow_control",
            f"cannot be false: {queue_reason}",
            when=not routing.epp_choice.flow_control and picker.epp.settings is not None,
        ),
        required_rule(
            "endpoint_picker.metrics",
            "is required: autoscaling reads the endpoint picker's queue; set Authenticated",
            when=not has_metrics,
        ),
    )
    monitoring_rule = inapplicable_rule(
        "monitoring.picker",
        "cannot be false: autoscaling reads the endpoint picker's queue",
        when=has_metrics and is_unmonitored,
    )
    yield from check_fields((), service.args, monitoring_rule)
    if routing.epp_choice.pairs_pods and counts_queued_requests(args):
        message = (
            "does not work with prefill and decode: the picker stops queueing when the first of "
            "the two is ready, and the requests fail; use latency or throughput with minReplicas "
            "of 1 or more"
        )
        yield error(FIELD_OUT_OF_PLACE, location, message)


def _check_metric_sources(
    service: BuiltService, args: AutoscalingArgs, location: Location
) -> Iterator[Finding]:
    """Check that metrics exist at zero replicas, and that NetworkPolicies allow Prometheus."""
    queries = [metric.query or metric.name or "" for metric in args.metrics]
    names_by_query = [_METRIC.findall(_MATCHERS.sub("", query)) for query in queries]
    names = [name for query_names in names_by_query for name in query_names]
    engine_metrics = [name for name in names if _ENGINE_METRIC.fullmatch(name)]
    # A query in which no name is recognized may read any metric.
    reads_only_engines = bool(names) and all(names_by_query) and engine_metrics == names
    if args.target is None and scales_to_zero(args) and reads_only_engines:
        message = (
            "come from the role's own pods, and none of them runs at zero replicas, so no replica "
            "ever starts; use target, or a metric of the endpoint picker or gateway"
        )
        yield error(AUTOSCALING_NEVER_WAKES, (*location, "metrics"), message)
    routing = service.plan.routing
    policy = None if routing is None else routing.network_policy
    # If `monitoring` is set, `check_network_policies` reports the policy.
    is_reported = service.args.monitoring is not None
    blocks_prometheus = policy is not None and not policy.metrics and not is_reported
    if routing is not None and engine_metrics and blocks_prometheus:
        message = (
            f"blocks Prometheus, so autoscaling does not see {engine_metrics[0]}; set metrics to "
            "the NetworkPolicyPeers that read metrics, or enabled: false to allow all"
        )
        yield error(NETWORK_POLICY, (*routing.location, "networkPolicy"), message)


def _check_gang_minimum(
    service: BuiltService, role: RolePlan, args: AutoscalingArgs, location: Location
) -> Iterator[Finding]:
    minima = service.args.scheduling_strategy.gang_policy.min_role_replicas or {}
    field = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", role.name)
    if role.name not in minima:
        message = (
            f"requires {format_path(field)}: without it the gang requires every replica, so an "
            "added replica that does not fit blocks all others; set it to at most minReplicas "
            f"({args.min_replicas})"
        )
        yield error(FIELD_REQUIRED, location, message)
    elif minima[role.name] > args.min_replicas:
        message = (
            f"must be at most autoscaling's minReplicas ({args.min_replicas}), got "
            f"{minima[role.name]}: with fewer replicas the gang would never be complete"
        )
        yield error(OUT_OF_RANGE, field, message)


def _check_scaler_fields(args: AutoscalingArgs, location: Location) -> Iterator[Finding]:
    """Check the fields that HPA or KEDA requires, and KEDA's idle replicas."""
    is_keda = args.engine is AutoscalingEngine.KEDA
    if is_keda and args.prometheus is None and (args.metrics or args.target is not None):
        message = "is required with engine KEDA: the address of Prometheus"
        yield error(FIELD_REQUIRED, (*location, "prometheus"), message)
    idle = args.keda.idle_replica_count if args.keda is not None else None
    if idle is not None and idle >= args.min_replicas:
        message = f"must be below minReplicas ({args.min_replicas}), got {idle}"
        yield error(OUT_OF_RANGE, (*location, "keda", "idleReplicaCount"), message)
    field = "query" if is_keda else "name"
    metric_rule = required_rule(field, f"is required with engine {args.engine.value}")
    for index, metric in enumerate(args.metrics):
        yield from check_fields((*location, "metrics", index), metric, metric_rule)


def check_prefill_decode_ratio(service: BuiltService) -> Iterator[Finding]:
    """Check the replicas against `prefillDecodeRatio`, unless a role is scaled to zero."""
    args = service.args.prefill_decode_ratio
    prefill, decode = (
        sum(role.group_replicas for role in service.plan.roles if role.component_type is kind)
        for kind in (ComponentType.PREFILLER, ComponentType.DECODER)
    )
    if args is None or prefill == 0 or decode == 0:
        return
    ratio, limit = prefill / decode, ""
    if args.max is not None and ratio > args.max:
        limit = f"at most {args.max:g}"
    elif args.min is not None and ratio < args.min:
        limit = f"at least {args.min:g}"
    if limit:
        message = f"must be {limit}, got {ratio:.3g} (prefill {prefill}, decode {decode})"
        yield error(PREFILL_DECODE_RATIO_EXCEEDED, ("prefillDecodeRatio",), message)


CHECKS: tuple[Callable[[BuiltService], Iterable[Finding]], ...] = (
    check_disruption_budgets,
    check_monitoring,
    check_autoscaling,
    check_prefill_decode_ratio,
)
