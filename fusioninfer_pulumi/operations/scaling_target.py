"""What `autoscaling.target` follows: metrics of the engines and of the endpoint picker, and values.

Every number is one of the whole service, shared by the replicas: it measures the demand, and pods
that load their model change nothing of it. Roles of prefill and decode follow the same numbers, by
values in the ratio of their replicas, so that they keep it.

Values:
    Requests in flight: 100 for each replica. The endpoint pickers' concurrency detector takes that
        for the room of an engine (v1.5.0 `saturationdetector/concurrency`).
    Requests that wait: 5, and KV cache in use: 0.8. Above either of them the pickers' utilization
        detector takes an engine for full (v1.2.1 to llm-d v0.10.0, `QueueDepthThreshold`,
        `KVCacheUtilThreshold`). Google's guide to autoscaling of LLMs begins with 3 to 5 in a
        queue, and advises it for throughput, and the batch size for latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    AutoscalingTarget,
    MetricSource,
    asks_picker,
    wakes,
)
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.routing.epp import load_metrics
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan

IN_FLIGHT, WAITING, KV_CACHE = 100.0, 5.0, 0.8
#: Where the KV cache of a request is while it is decoded.
_DECODES = (ComponentType.WORKER, ComponentType.DECODER)


def target_metrics(
    service: str,
    namespace: Any,
    role: RolePlan,
    roles: Sequence[RolePlan],
    router: RouterPlan | None,
) -> tuple[AutoscalingMetricArgs, ...]:
    """Returns what a role follows for its `target`; nothing without one, or where it is unknown.

    They are queries of KEDA, or external metrics of a HorizontalPodAutoscaler.

    Args:
        service: Name of the service.
        namespace: Its namespace.
        role: The role that is scaled.
        roles: All roles that run pods.
        router: The router.
    """
    args, load = role.args.autoscaling, load_metrics(roles)
    if args is None or args.target is None or load is None or not isinstance(namespace, str):
        return ()
    decoding = [other for other in roles if other.component_type in _DECODES]
    # The number of the service for one replica of this role, if all roles keep their ratio.
    share = sum(other.group_replicas for other in decoding) / (role.group_replicas or 1)
    if args.engine is AutoscalingEngine.HPA:
        return tuple(_external(service, args, share))
    engine = f'namespace="{namespace}",{_label(labels.SERVICE)}="{service}"'
    decodes = "|".join(kind.value for kind in _DECODES)
    picker = f'namespace="{namespace}",service="{names.endpoint_picker(service)}"'
    queries = {
        "in-flight": f"{_sum(load.running, engine)} + {_sum(load.waiting, engine)}",
        "waiting": _sum(load.waiting, engine),
        "kv-cache": _sum(load.kv_cache, f'{engine},{_label(labels.COMPONENT_TYPE)}=~"{decodes}"'),
    }
    if wakes(args):
        # Without pods there are no such series, and a query without a result is an error.
        queries = {name: f"({query}) or vector(0)" for name, query in queries.items()}
    if asks_picker(args):
        if router is None or router.epp.family.flow_control is None:
            return ()
        flow = router.epp.family.flow_control
        held, running = (f"({_sum(name, picker)} or vector(0))" for name in flow)
        # Nothing, and not zero, where the picker is not read: replicas stay as they are.
        read = f"and on() (max(up{{{picker}}}) == 1)"
        waiting = f"({_sum(load.waiting, engine)} or vector(0))"
        queries["waiting"] = f"({held} + {waiting}) {read}"
        queries["in-flight"] = f"({held} + {running}) {read}"
    return tuple(
        AutoscalingMetricArgs(name=name, query=queries[name], target=f"{value * share:.4g}")
        for name, value in _values(args).items()
    )


def _values(args: AutoscalingArgs) -> dict[str, float]:
    """What is followed, and its value for each replica that decodes."""
    value = args.target_requests
    if args.target is AutoscalingTarget.LATENCY:
        return {"in-flight": value or IN_FLIGHT}
    # Without the second one replicas go when the queue is empty, and it grows again.
    values = {"waiting": value or WAITING, "kv-cache": KV_CACHE}
    return {**values, "in-flight": IN_FLIGHT} if wakes(args) else values


#: What prometheus-adapter has to call them; `docs/prometheus-adapter.yaml` has its rules.
EXTERNAL = {
    "in-flight": "fusioninfer_requests_in_flight",
    "waiting": "fusioninfer_requests_waiting",
    "kv-cache": "fusioninfer_kv_cache_usage",
}


def _external(service: str, args: AutoscalingArgs, share: float) -> Iterator[AutoscalingMetricArgs]:
    for name, value in _values(args).items():
        if name in EXTERNAL:
            yield AutoscalingMetricArgs(
                name=EXTERNAL[name],
                source=MetricSource.EXTERNAL,
                selector={_label(labels.SERVICE): service},
                target=f"{value * share:.4g}",
            )


def _sum(metric: str, matchers: str) -> str:
    return f"sum({metric}{{{matchers}}})"


def _label(key: str) -> str:
    """A pod's label as Prometheus calls it."""
    return key.replace(".", "_").replace("/", "_").replace("-", "_")
