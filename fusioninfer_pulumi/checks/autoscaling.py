"""Checks of autoscalers, and of the ratio of prefill to decode replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingTarget,
    MetricSource,
    PrefillDecodeRatioArgs,
    asks_picker,
    wakes,
)
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.checks.routes import NETWORK_POLICY
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    info,
    path_text,
    shown,
    warning,
)
from fusioninfer_pulumi.plan.build import BuiltService
from fusioninfer_pulumi.routing.epp import load_metrics
from fusioninfer_pulumi.rules.common import (
    CLUSTER_MUST_HAVE,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    OUTPUT_NOT_ALLOWED,
    UNKNOWN_VALUE,
)
from fusioninfer_pulumi.topology.role import RolePlan

PREFILL_DECODE_RATIO_EXCEEDED = Rule(
    "prefill-decode-ratio-exceeded",
    ("error", "warning"),
    "The ratio of prefill to decode is within its bounds, at every scale.",
    remedy="Change the replicas, the autoscaling, or the bounds.",
)


AUTOSCALING_NEVER_WAKES = Rule(
    "autoscaling-never-wakes",
    "error",
    "A role that scales to zero has a metric that exists without its pods.",
    remedy="Use `target`, or a metric of the endpoint picker or of the gateway.",
)
AUTOSCALING_METRIC_UNSCOPED = Rule(
    "autoscaling-metric-unscoped",
    "warning",
    "A metric is that of one service, and not the sum over all of them.",
    remedy="Select the series of the service by a label.",
)

#: Metrics of engine pods in a query, without a match inside of a longer name.
_ENGINE_METRIC = re.compile(r"(?:vllm|sglang)[:_]\w+")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
#: What is no metric: matchers, ranges, and the labels behind a keyword.
_NO_METRIC = re.compile(
    r"\{[^}]*\}|\[[^]]*\]"
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\b\s*(?:\([^)]*\))?"
)
_KEYWORDS = frozenset({"and", "or", "unless", "offset", "bool", "start", "end", "inf", "nan"})
_NAME = re.compile(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")

#: Values that the API server accepts in `behavior`. Its schema only says string.
_SELECT_POLICIES = ("Max", "Min", "Disabled")
_POLICY_TYPES = ("Pods", "Percent")


def autoscaling_findings(built: BuiltService) -> Iterator[Finding]:
    """Checks the autoscaling of each role that has any."""
    spec = built.args
    minima = spec.scheduling_strategy.gang_policy.min_role_replicas
    for role in built.plan.roles:
        args = role.args.autoscaling
        if args is None:
            continue
        at = ("roles", role.position, "autoscaling")
        if built.plan.shape.layout is not Layout.PER_ROLE:
            yield error(
                FIELD_OUT_OF_PLACE,
                at,
                "needs layout: PerRole: an autoscaler scales one LeaderWorkerSet, and here "
                "each replica is one of its own",
            )
        yield from _replicas(role, args, at)
        if built.plan.gang is not None and built.plan.gang.native:
            yield error(
                FIELD_OUT_OF_PLACE,
                at,
                "does not go with gangPolicy.backend Native: its PodGroup counts the pods of all "
                "replicas, and no autoscaler changes it, so that after it has scaled down no "
                "replica that restarts comes back; use backend Volcano with minRoleReplicas",
            )
        elif built.plan.gangs:
            yield from _gang(role, args, minima, at)
        yield from _target(built, role, args, at)
        yield from _metrics(args, at)
        yield from _reach(args, at)
        yield from _admitted(built, args)
        yield from _behavior(args, at)
        if (spec.groups or 1) > 1:
            yield from _groups(args, at)


def _replicas(role: RolePlan, args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    if args.engine is AutoscalingEngine.HPA and args.min_replicas == 0:
        yield error(
            FIELD_OUT_OF_PLACE,
            (*at, "minReplicas"),
            "must be at least 1 with engine HPA, got 0: Kubernetes takes 0 only behind a feature "
            "gate; KEDA scales to 0",
        )
    count = role.args.replicas
    if count == 0:
        yield error(
            FIELD_OUT_OF_PLACE,
            at,
            "a parked role (replicas: 0) has nothing to scale; remove one of the two",
        )
    elif not args.min_replicas <= count <= args.max_replicas:
        yield error(
            OUT_OF_RANGE,
            ("roles", role.position, "replicas"),
            f"is what the role starts with, and must be within autoscaling's bounds "
            f"({args.min_replicas} to {args.max_replicas}), got {count}",
        )


def _groups(args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    for index, metric in enumerate(args.metrics):
        if metric.query is not None or metric.source is MetricSource.EXTERNAL:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, "metrics", index),
                "is one number for all serving groups, and the role is scaled in each of them: use "
                "engine HPA and a metric of source Pods",
            )


def _target(
    built: BuiltService, role: RolePlan, args: AutoscalingArgs, at: Location
) -> Iterator[Finding]:
    """What `target` needs: series of the engines and of the endpoint picker, with their labels."""
    if args.target is None:
        return
    where, spec = (*at, "target"), built.args
    if spec.monitoring is None or not spec.monitoring.engines:
        message = "is required with autoscaling.target, whose queries select by its labels"
        yield error(FIELD_REQUIRED, ("monitoring",), f"{message}: write monitoring: {{}}")
    if load_metrics(built.plan.roles) is None:
        yield error(
            FIELD_OUT_OF_PLACE,
            where,
            "needs one engine for all roles, vLLM or SGLang: the metrics of others are not known; "
            "write metrics",
        )
    if not isinstance(spec.namespace, str):
        message = "is part of the queries of autoscaling.target, and cannot be an Output"
        yield error(OUTPUT_NOT_ALLOWED, ("namespace",), message)
    if (spec.groups or 1) > 1:
        message = "follows one number for all serving groups, and the role is scaled in each"
        yield error(FIELD_OUT_OF_PLACE, where, f"{message}; write metrics")
    if args.engine is AutoscalingEngine.HPA and args.target is AutoscalingTarget.QUEUE:
        message = "queue follows the endpoint picker and needs engine KEDA; or use throughput"
        yield error(FIELD_OUT_OF_PLACE, where, message)
    elif asks_picker(args):
        yield from _picker_target(built, role, where)


def _picker_target(built: BuiltService, role: RolePlan, where: Location) -> Iterator[Finding]:
    """What it takes for the endpoint picker to hold requests, and for Prometheus to know it."""
    router, picker = built.plan.routing, built.plan.picker
    if not built.plan.shape.picks_endpoints:
        lacking = "a router role" if router is None else "endpointPicker.enabled: true"
        yield error(
            FIELD_REQUIRED,
            where,
            f"needs {lacking}: the endpoint picker holds requests while there is no replica; "
            "without it clients get an error",
        )
    if router is None or picker is None:
        return
    at = (*router.at, "endpointPicker")
    if not router.intent.flow_control and picker.epp.request is None:
        message = f"needs featureGates: [flowControl], as {role.name} is scaled by held requests"
        yield error(FIELD_REQUIRED, (*router.at, "endpointPickerConfig"), message)
    elif not router.intent.flow_control:
        message = f"cannot be false: {role.name} is scaled by the requests that the picker holds"
        yield error(FIELD_OUT_OF_PLACE, (*at, "flowControl"), message)
    monitoring = built.args.monitoring
    if picker.epp.args.metrics is MetricsMode.OFF:
        message = "is required: autoscaling follows requests that the picker holds; Authenticated"
        yield error(FIELD_REQUIRED, (*at, "metrics"), message)
    elif monitoring is not None and monitoring.picker is False:
        message = "cannot be false: autoscaling follows requests that the picker holds"
        yield error(FIELD_OUT_OF_PLACE, ("monitoring", "picker"), message)
    if router.intent.pairs:
        yield error(
            FIELD_OUT_OF_PLACE,
            where,
            "cannot hold requests for prefill and decode: they are let through when the first of "
            "the two serves, and fail; use latency or throughput with minReplicas of 1 or more",
        )


def _reach(args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    """Metrics of all services, and those that are gone with the pods that they shall wake."""
    asleep = bool(args.metrics) and args.target is None and wakes(args)
    for index, metric in enumerate(args.metrics):
        names: tuple[str, ...] = (metric.name or "",)
        scoped = bool(metric.selector)
        if args.engine is AutoscalingEngine.KEDA:
            names, scoped = _metric_names(metric.query or "")
        elif metric.source is not MetricSource.EXTERNAL:
            continue
        asleep = asleep and bool(names) and all(map(_ENGINE_METRIC.fullmatch, names))
        if names and not scoped:
            yield warning(
                AUTOSCALING_METRIC_UNSCOPED,
                (*at, "metrics", index),
                f"selects no series: {names[0]} of every service counts; select by a label, such "
                'as {fusioninfer_io_service="NAME"}, which monitoring sets',
            )
    if asleep:
        yield error(
            AUTOSCALING_NEVER_WAKES,
            (*at, "metrics"),
            "are metrics of the role's own pods, and at zero replicas there are none: nothing "
            "starts the first one; use target, or a metric of the endpoint picker or gateway",
        )


def _admitted(built: BuiltService, args: AutoscalingArgs) -> Iterator[Finding]:
    """Metrics of the engines that NetworkPolicies hide from Prometheus.

    With `monitoring` the policies themselves are checked.
    """
    routing = built.plan.routing
    policy = None if routing is None else routing.network_policy
    if routing is None or policy is None or policy.metrics or built.args.monitoring is not None:
        return
    names = [
        name for m in args.metrics for name in (m.name or "", *_metric_names(m.query or "")[0])
    ]
    read = next(filter(_ENGINE_METRIC.fullmatch, names), None)
    if read is not None:
        yield error(
            NETWORK_POLICY,
            (*routing.at, "networkPolicy"),
            f"keeps out Prometheus, so that autoscaling does not see {read}; set metrics to the "
            "NetworkPolicyPeers that read metrics; enabled: false lets everybody in",
        )


def _metric_names(query: str) -> tuple[tuple[str, ...], bool]:
    """The metrics that a PromQL query names, and whether it selects any series by a label."""
    text = _QUOTED.sub('""', query)
    names = (name for name in _NAME.findall(_NO_METRIC.sub(" ", text)))
    scoped = re.search(r"\{[^}]*[=!]", text) is not None
    return tuple(name for name in names if name.lower() not in _KEYWORDS), scoped


def _gang(
    role: RolePlan, args: AutoscalingArgs, minima: Mapping[str, int] | None, at: Location
) -> Iterator[Finding]:
    field = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", role.name)
    if minima is None or role.name not in minima:
        yield error(
            FIELD_REQUIRED,
            at,
            f"needs {path_text(field)}: without it the gang needs every replica, and one more "
            f"would hold back all of them until there is room; give at most minReplicas "
            f"({args.min_replicas})",
        )
    elif minima[role.name] > args.min_replicas:
        yield error(
            OUT_OF_RANGE,
            field,
            f"must be at most autoscaling's minReplicas ({args.min_replicas}), got "
            f"{minima[role.name]}: with fewer replicas the gang would never be complete",
        )


def _behavior(args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    """What no schema says of how fast replicas are added and removed."""
    for direction, rules in (args.behavior or {}).items():
        if not isinstance(rules, Mapping):
            continue
        where = (*at, "behavior", direction)
        yield from _choice((*where, "selectPolicy"), rules, _SELECT_POLICIES)
        yield from _seconds((*where, "stabilizationWindowSeconds"), rules, 0, 3600)
        policies = rules.get("policies")
        for index, item in enumerate(policies if isinstance(policies, (list, tuple)) else ()):
            if isinstance(item, Mapping):
                here = (*where, "policies", index)
                yield from _choice((*here, "type"), item, _POLICY_TYPES)
                yield from _seconds((*here, "periodSeconds"), item, 1, 1800)


def _choice(at: Location, rules: Mapping[str, Any], choices: Sequence[str]) -> Iterator[Finding]:
    value = rules.get(str(at[-1]))
    if isinstance(value, str) and value not in choices:
        yield error(UNKNOWN_VALUE, at, f"must be one of {', '.join(choices)}, got {shown(value)}")


def _seconds(at: Location, rules: Mapping[str, Any], least: int, most: int) -> Iterator[Finding]:
    value = rules.get(str(at[-1]))
    if isinstance(value, int) and not least <= value <= most:
        message = f"must be an integer from {least} to {most}, got {value}"
        yield error(OUT_OF_RANGE, at, message)


def _metrics(args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    keda = args.engine is AutoscalingEngine.KEDA
    if keda and args.prometheus is None:
        yield error(
            FIELD_REQUIRED,
            (*at, "prometheus"),
            "is required with engine KEDA: the address for its queries",
        )
    if not keda and args.prometheus is not None:
        yield error(FIELD_OUT_OF_PLACE, (*at, "prometheus"), "belongs to engine KEDA; remove it")
    yield from _keda(args, at)
    # Those of `target` are external ones.
    apis = {"external.metrics.k8s.io"} if args.target is not None and not keda else set()
    for index, metric in enumerate(args.metrics):
        where = (*at, "metrics", index)
        if keda:
            if metric.query is None:
                yield error(FIELD_REQUIRED, (*where, "query"), "is required with engine KEDA")
            if metric.source is not None:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*where, "source"),
                    "belongs to engine HPA; remove it",
                )
            if metric.selector:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*where, "selector"),
                    "belongs to engine HPA; remove it",
                )
            continue
        if metric.unsafe_ssl:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*where, "unsafeSsl"),
                "belongs to engine KEDA; remove it",
            )
        if metric.name is None:
            yield error(FIELD_REQUIRED, (*where, "name"), "is required with engine HPA")
        elif "/" in metric.name or "%" in metric.name:
            message = f"must be the name of a metric, without / and %, got {shown(metric.name)}"
            yield error(INVALID_FORMAT, (*where, "name"), message)
        if metric.query is not None:
            yield error(FIELD_OUT_OF_PLACE, (*where, "query"), "belongs to engine KEDA; remove it")
        external = metric.source is MetricSource.EXTERNAL
        apis.add(f"{'external' if external else 'custom'}.metrics.k8s.io")
    if apis:
        yield info(
            CLUSTER_MUST_HAVE,
            (*at, "metrics"),
            f"the cluster has to serve {' and '.join(sorted(apis))}, as prometheus-adapter does",
        )


def _keda(args: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    if args.keda is None:
        return
    if args.engine is not AutoscalingEngine.KEDA:
        yield error(FIELD_OUT_OF_PLACE, (*at, "keda"), "belongs to engine KEDA; remove it")
    idle = args.keda.idle_replica_count
    if idle is not None and idle >= args.min_replicas:
        yield error(
            OUT_OF_RANGE,
            (*at, "keda", "idleReplicaCount"),
            f"must be below minReplicas ({args.min_replicas}), got {idle}",
        )


_RATIO = ("prefillDecodeRatio",)


def ratio_findings(built: BuiltService) -> Iterator[Finding]:
    """Yields findings of replicas outside `prefillDecodeRatio`.

    An error for the replicas now, a warning for what autoscalers may reach. Parked roles are not
    compared.
    """
    args, roles = built.args.prefill_decode_ratio, built.plan.roles
    if args is None:
        return
    prefill = [role for role in roles if role.component_type is ComponentType.PREFILLER]
    decode = [role for role in roles if role.component_type is ComponentType.DECODER]
    if not prefill or not decode:
        yield error(
            FIELD_OUT_OF_PLACE,
            _RATIO,
            "needs roles of prefiller and decoder; remove it",
        )
        return
    now = (
        sum(role.group_replicas for role in prefill),
        sum(role.group_replicas for role in decode),
    )
    if 0 in now:
        return
    beyond = _beyond(args, *now)
    if beyond:
        yield error(PREFILL_DECODE_RATIO_EXCEEDED, _RATIO, f"must be {beyond}, got {_ratio(*now)}")
        return
    for few, many in ((True, False), (False, True)):
        far = (_bound(prefill, fewest=few), _bound(decode, fewest=many))
        beyond = _beyond(args, *far) if 0 not in far else None
        if beyond:
            yield warning(
                PREFILL_DECODE_RATIO_EXCEEDED,
                _RATIO,
                f"must be {beyond}; autoscaling may bring it to {_ratio(*far)}",
            )


def _bound(roles: Sequence[RolePlan], *, fewest: bool) -> int:
    """Returns the fewest replicas that autoscalers leave, or the most that they create."""
    total = 0
    for role in roles:
        scaled = role.args.autoscaling
        if scaled is None:
            total += role.group_replicas
        else:
            total += scaled.min_replicas if fewest else scaled.max_replicas
    return total


def _beyond(args: PrefillDecodeRatioArgs, prefill: int, decode: int) -> str | None:
    if args.max is not None and prefill / decode > args.max:
        return f"at most {args.max:g}"
    if args.min is not None and prefill / decode < args.min:
        return f"at least {args.min:g}"
    return None


def _ratio(prefill: int, decode: int) -> str:
    return f"{prefill / decode:.3g} (prefill {prefill}, decode {decode})"
