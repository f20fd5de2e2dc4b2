"""Autoscalers of roles, with the metrics and target values of `autoscaling.target`.

Every metric is summed over the service, and the autoscaler divides it by the replicas, so pods that
are still loading their model do not affect it. Prefill and decode roles use the same metrics. Their
target values are in inverse proportion to their replicas, so that scaling keeps the ratio of
prefill to decode replicas.

Target values per decode replica:
    Requests in flight: 100, an engine's default capacity in the endpoint pickers' concurrency
        detector (v1.5.0 `saturationdetector/concurrency`).
    Waiting requests: 5, and KV cache usage: 0.8. Above either value the pickers' utilization
        detector considers an engine saturated (v1.2.1 to llm-d v0.10.0, `QueueDepthThreshold`,
        `KVCacheUtilThreshold`). Google's guide to autoscaling LLMs starts with a queue of 3 to 5,
        and recommends the queue for throughput, the batch size for latency.
    Latency goals: 1, because the metric is a number of replicas: replicas x latency / goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    AutoscalingTarget,
    MetricSource,
    counts_queued_requests,
    scales_to_zero,
)
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.operations.monitors import get_series_label
from fusioninfer_pulumi.pods.pod_metadata import get_role_labels
from fusioninfer_pulumi.routing.epp import EppPlan, find_load_metrics
from fusioninfer_pulumi.topology.leader_worker_set import API_VERSION, KIND
from fusioninfer_pulumi.topology.role_plan import RolePlan


class AutoscalerPlan(NamedTuple):
    """The autoscaler of one LeaderWorkerSet.

    Attributes:
        name: Name of the LeaderWorkerSet and of the autoscaler.
        target_metrics: Metrics for the role's `target`; empty if there are none.
    """

    role: RolePlan
    name: str
    args: AutoscalingArgs
    target_metrics: tuple[AutoscalingMetricArgs, ...] = ()


def plan_autoscalers(
    service: str, namespace: Any, roles: Sequence[RolePlan], epp: EppPlan | None
) -> tuple[AutoscalerPlan, ...]:
    """Return an autoscaler for each LeaderWorkerSet of a scaled role."""
    return tuple(
        AutoscalerPlan(
            role,
            lws.name,
            role.args.autoscaling,
            build_target_metrics(service, namespace, role, roles, epp),
        )
        for role in roles
        if role.args.autoscaling is not None
        for lws in role.lws
    )


def build_autoscaler(meta: ServiceMeta, plan: AutoscalerPlan) -> Manifest:
    """Build a HorizontalPodAutoscaler or a ScaledObject."""
    args = plan.args
    annotated = replace(meta, annotations={**meta.annotations, **args.annotations})
    object_meta = build_metadata(annotated, plan.name, get_role_labels(meta, plan.role.args))
    target = {"apiVersion": API_VERSION, "kind": KIND, "name": plan.name}
    behavior = {"behavior": args.behavior} if args.behavior is not None else {}
    if args.engine is AutoscalingEngine.KEDA:
        advanced = {"advanced": {"horizontalPodAutoscalerConfig": behavior}} if behavior else {}
        keda_fields = args.keda.model_dump(by_alias=True, exclude_none=True) if args.keda else {}
        user_triggers = keda_fields.pop("triggers", ())
        spec = {
            "scaleTargetRef": target,
            "minReplicaCount": args.min_replicas,
            "maxReplicaCount": args.max_replicas,
            **keda_fields,
            **advanced,
            "triggers": [
                # With ignoreNullValues false, a query without a result is an error, which leaves
                # the replicas unchanged. By default KEDA treats a missing result as zero.
                *(_make_trigger(args, m, ignoreNullValues="false") for m in plan.target_metrics),
                *(_make_trigger(args, metric) for metric in args.metrics),
                *user_triggers,
            ],
        }
        return build_object("keda.sh/v1alpha1", "ScaledObject", object_meta, spec=spec)
    spec = {
        "scaleTargetRef": target,
        "minReplicas": args.min_replicas,
        "maxReplicas": args.max_replicas,
        **behavior,
        "metrics": [_make_metric(metric) for metric in (*plan.target_metrics, *args.metrics)],
    }
    return build_object("autoscaling/v2", "HorizontalPodAutoscaler", object_meta, spec=spec)


def _make_metric(metric: AutoscalingMetricArgs) -> Manifest:
    identifier: Manifest = {"name": metric.name}
    if metric.selector:
        identifier["selector"] = {"matchLabels": dict(metric.selector)}
    target = {"type": "AverageValue", "averageValue": metric.target}
    source = {"metric": identifier, "target": target}
    if metric.source is MetricSource.EXTERNAL:
        return {"type": "External", "external": source}
    return {"type": "Pods", "pods": source}


def _make_trigger(args: AutoscalingArgs, metric: AutoscalingMetricArgs, **more: str) -> Manifest:
    settings = {
        "serverAddress": args.prometheus or "",
        "query": metric.query,
        "threshold": metric.target,
    }
    if metric.unsafe_ssl:
        settings["unsafeSsl"] = "true"
    name = {} if metric.name is None else {"name": metric.name}
    return {
        "type": "prometheus",
        **name,
        "metricType": "AverageValue",
        "metadata": {**settings, **more},
    }


#: Target values per decode replica; see the module's docstring.
IN_FLIGHT, WAITING, KV_CACHE = 100.0, 5.0, 0.8
#: Component types whose pods decode.
_DECODE_TYPES = (ComponentType.WORKER, ComponentType.DECODER)


def build_target_metrics(
    service: str, namespace: Any, role: RolePlan, roles: Sequence[RolePlan], epp: EppPlan | None
) -> tuple[AutoscalingMetricArgs, ...]:
    """Return the metrics for a role's `target`: KEDA queries, or external metrics for an HPA.

    The result is empty if `target` is not set, or if its metrics or the namespace are unknown.
    `roles` are all roles that run pods.
    """
    args, load = role.args.autoscaling, find_load_metrics(roles)
    if args is None or args.target is None or load is None or not isinstance(namespace, str):
        return ()
    decoding = [other for other in roles if other.component_type in _DECODE_TYPES]
    # Target values are per decode replica; this factor converts them to this role's replicas.
    factor = sum(other.group_replicas for other in decoding) / (role.group_replicas or 1)
    if args.engine is AutoscalingEngine.HPA:
        return tuple(
            AutoscalingMetricArgs(
                name=EXTERNAL[name],
                source=MetricSource.EXTERNAL,
                selector={get_series_label(labels.SERVICE): service},
                target=f"{value * factor:.4g}",
            )
            for name, value in _compute_target_values(args).items()
            if name in EXTERNAL
        )
    # PromQL label matchers of all engines, of engines that decode, and of the endpoint picker.
    engines = f'namespace="{namespace}",{get_series_label(labels.SERVICE)}="{service}"'
    types = "|".join(component_type.value for component_type in _DECODE_TYPES)
    decoders = f'{engines},{get_series_label(labels.COMPONENT_TYPE)}=~"{types}"'
    picker = f'namespace="{namespace}",service="{object_names.endpoint_picker(service)}"'
    queries = {
        "in-flight": f"{_sum(load.running, engines)} + {_sum(load.waiting, engines)}",
        "waiting": _sum(load.waiting, engines),
        "kv-cache": _sum(load.kv_cache, decoders),
    }
    decode_replicas = f"count(count by (pod) ({load.running}{{{decoders}}}))"
    # For each latency goal, the metric that measures it and the matchers of its series.
    latencies = {"first-token": (load.ttft, engines), "per-token": (load.itl, engines)}
    flow = epp.family.flow_control_metrics if epp is not None else None
    if epp is not None and epp.args.metrics is not MetricsMode.OFF and flow and flow.ttft:
        # Requests of a negative priority may wait. Requests without streaming have no first token.
        latencies["first-token"] = (flow.ttft, f'{picker},streaming="true",priority!~"-.*"')
    for name, goal in args.latency_goals.items():
        queries[name] = _build_latency_query(decode_replicas, *latencies[name], float(goal))
    if scales_to_zero(args):
        # Without pods these series do not exist, and a query without a result is an error.
        queries = {name: f"({query}) or vector(0)" for name, query in queries.items()}
    if counts_queued_requests(args):
        if flow is None:
            return ()
        gauges = (flow.queued, flow.running)
        queued, running = (f"({_sum(gauge, picker)} or vector(0))" for gauge in gauges)
        # If the picker is not scraped, the query has no result, so that replicas stay unchanged.
        if_scraped = f"and on() (max(up{{{picker}}}) == 1)"
        waiting = f"({_sum(load.waiting, engines)} or vector(0))"
        queries["waiting"] = f"({queued} + {waiting}) {if_scraped}"
        queries["in-flight"] = f"({queued} + {running}) {if_scraped}"
    return tuple(
        AutoscalingMetricArgs(name=name, query=queries[name], target=f"{value * factor:.4g}")
        for name, value in _compute_target_values(args).items()
    )


def _compute_target_values(args: AutoscalingArgs) -> dict[str, float]:
    """Return the target value per decode replica of each metric."""
    if args.target is AutoscalingTarget.LATENCY:
        goals = dict.fromkeys(args.latency_goals, 1.0)
        # Latency goals replace the requests in flight, but without pods there is no latency.
        if goals and not scales_to_zero(args):
            return goals
        return {"in-flight": args.target_requests or IN_FLIGHT, **goals}
    # With the queue alone, replicas would be removed whenever it is empty, and then it would grow.
    values = {"waiting": args.target_requests or WAITING, "kv-cache": KV_CACHE}
    if scales_to_zero(args):
        values["in-flight"] = IN_FLIGHT
    return values


#: Names of the external metrics, as in prometheus-adapter's rules (`docs/prometheus-adapter.yaml`).
EXTERNAL = {
    "in-flight": "fusioninfer_requests_in_flight",
    "waiting": "fusioninfer_requests_waiting",
    "kv-cache": "fusioninfer_kv_cache_usage",
}


def _build_latency_query(replicas: str, metric: str, matchers: str, goal: float) -> str:
    """Return the query for the number of replicas that meet a latency goal in seconds.

    The result is at least four fifths of the replicas, rounded down, even without requests. It is
    at most twice the replicas, because latency grows faster than load. `replicas` is the query for
    the number of replicas, without pods that still load the model.
    """
    buckets = f"sum by (le) (rate({metric}_bucket{{{matchers}}}[2m]))"
    latency = f"(histogram_quantile(0.9, {buckets}) > 0 or vector(0))"
    needed = f"{replicas} * clamp_max({latency} / {goal:g}, 2)"
    return f"clamp_min({needed}, scalar(floor({replicas} * 0.8)))"


def _sum(metric: str, matchers: str) -> str:
    return f"sum({metric}{{{matchers}}})"
