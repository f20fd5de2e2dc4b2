"""The PrometheusRule of a service; `docs/alerts.md` explains its alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.durations import seconds
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, metadata
from fusioninfer_pulumi.operations.monitors import (
    REVISION,
    ROLE,
    MonitoringPlan,
    monitoring_object,
    picker_selector,
    replicas_up,
    role_selector,
    service_selector,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan

#: The page that explains every alert.
RUNBOOK = "https://github.com/fusioninfer/fusioninfer-pulumi/blob/main/docs/alerts.md"

#: Waiting requests of an engine above which endpoint pickers take it for saturated: the default of
#: their saturation detector (inference extension v1.5.0, `DefaultQueueDepthThreshold`).
SATURATED_QUEUE = 5
#: Restarts of one replica in an hour: one may be a drain or a node that was lost.
RESTARTS = 2
#: Prefix hits count as fallen below this share of what they were over a day, if that was at least
#: the second share: less is noise.
_FALLEN, _WORTH = 0.5, 0.1
#: The role of an alert's series, in Prometheus's templates.
_OF_ROLE = {"role": f"{{{{ $labels.{ROLE} }}}}"}
_ROLE_NAME = f"role {{{{ $labels.{ROLE} }}}}"


@dataclass(frozen=True)
class Alert:
    """One alert.

    Attributes:
        name: Also the heading of its section in `docs/alerts.md`.
        expression: PromQL; the alert is pending for each series that it returns.
        hold: How long that has to last until the alert fires.
        labels: Labels that its series do not have.
        summary: What is wrong.
        action: What to do first.
    """

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    action: str
    labels: Mapping[str, str] = field(default_factory=dict)


def alerts(meta: ServiceMeta, monitoring: MonitoringPlan) -> Iterator[Alert]:
    """Yield the alerts of a service; without monitors of engines, those of the picker alone."""
    for role in monitoring.engines:
        yield from _of_role(meta, role, needs_gang=monitoring.shape.needs_gang)
    if monitoring.engines:
        yield from _of_engines(service_selector(meta))
    if monitoring.picker:
        yield Alert(
            "FusionInferPickerDown",
            f"absent(up{{{picker_selector(meta)}}} == 1)",
            "5m",
            "critical",
            "No endpoint picker answers: the gateway cannot choose replicas.",
            f"Look at the Deployment {object_names.endpoint_picker(meta.service)}, its events and "
            "logs.",
        )


def least_replicas(role: RolePlan) -> int:
    """Return the least number of replicas of a role: an autoscaler may remove the others."""
    scaling = role.args.autoscaling
    if scaling is None:
        return len(role.replicas)
    idle = None if scaling.keda is None else scaling.keda.idle_replica_count
    least = scaling.min_replicas if idle is None else min(idle, scaling.min_replicas)
    return least * len(role.lws)


def _of_role(meta: ServiceMeta, role: RolePlan, *, needs_gang: bool) -> Iterator[Alert]:
    serving = replicas_up(role_selector(meta, role))
    rollout, least = role.rollout, least_replicas(role)
    timeout, partition = rollout.timeout, rollout.partition
    named = {"role": role.name}
    if least:
        yield Alert(
            "FusionInferNoReplica",
            f"{serving} == 0",
            "5m",
            "critical",
            f"No replica of role {role.name} serves.",
            "Look at its pods, their events and the logs of their engines.",
            named,
        )
        # An update that moves on takes replicas down in turn.
        mixed = f"count(count by ({REVISION}) (up{{{role_selector(meta, role)}}})) > 1"
        yield Alert(
            "FusionInferReplicasMissing",
            f"{serving} < {least}" + ("" if partition else f" unless on() {mixed}"),
            _whole(timeout),
            "warning",
            f"Fewer than {least} replicas of role {role.name} serve, for longer than a start "
            f"may take ({timeout}).",
            "Look for pending pods: a gang that does not fit starts no pod, which its PodGroup "
            "says."
            if needs_gang
            else "Look for pending pods and for engines that do not start.",
            named,
        )
    if not partition:
        selector = role_selector(meta, role)
        targets = f"up{{{selector}}}"
        started = f"count({targets} unless {targets} offset {_whole(timeout)})"
        yield Alert(
            "FusionInferUpdateStalls",
            f"count(count by ({REVISION}) ({targets})) > 1 unless on() {started}",
            "5m",
            "warning",
            f"Role {role.name} runs pods of two revisions, and no pod is new since {timeout}.",
            "Run `pulumi up` again, which says what it waits for.",
            named,
        )


def _of_engines(selector: str) -> Iterator[Alert]:
    yield Alert(
        "FusionInferQueueGrows",
        f"avg by ({ROLE}) (vllm:num_requests_waiting{{{selector}}}) > {SATURATED_QUEUE}",
        "10m",
        "warning",
        f"More than {SATURATED_QUEUE} requests wait for each engine of {_ROLE_NAME}.",
        "Add replicas, or limit what clients send.",
        _OF_ROLE,
    )
    yield Alert(
        "FusionInferKvCacheFull",
        f"sum by ({ROLE}) (rate(vllm:num_preemptions_total{{{selector}}}[5m])) > 0",
        "10m",
        "warning",
        f"The KV cache of {_ROLE_NAME} is full: engines preempt requests and compute them again.",
        "Add replicas, lower --max-num-seqs, or give engines more memory.",
        _OF_ROLE,
    )
    hits = f"vllm:prefix_cache_hits_total{{{selector}}}"
    queries = f"vllm:prefix_cache_queries_total{{{selector}}}"
    recent = _ratio(hits, queries, "[30m]")
    before = _ratio(hits, queries, "[1d] offset 30m")
    yield Alert(
        "FusionInferPrefixHitsFall",
        f"{recent} < {_FALLEN} * ({before} >= {_WORTH})",
        "30m",
        "info",
        f"Half as many prompt tokens of {_ROLE_NAME} are in its KV cache as over the last day.",
        "Compare what clients send, and whether the picker still sends equal prefixes to one "
        "replica.",
        _OF_ROLE,
    )
    replica = f"{ROLE}, pod, {REVISION}"
    # A pod that is made again has another address. A container that restarts keeps it; engines with
    # several API servers, those of data parallel ranks, do not say when they were started.
    addresses = f"max by ({replica}) (count by ({replica}, endpoint) (count_over_time("
    addresses += f"up{{{selector}}}[1h])))"
    started = f"max by ({replica}) (changes(process_start_time_seconds{{{selector}}}[1h]))"
    reset = f"max by ({replica}) (resets(vllm:prompt_tokens_total{{{selector}}}[1h]))"
    yield Alert(
        "FusionInferEngineRestarts",
        f"{addresses} - 1 + ({started} or {reset} or 0 * {addresses}) >= {RESTARTS}",
        "0s",
        "warning",
        "The engine of {{ $labels.pod }} restarted {{ $value }} times within an hour.",
        "Read the log of its previous container: `kubectl logs --previous`.",
        _OF_ROLE,
    )


def _ratio(hits: str, queries: str, window: str) -> str:
    return " / ".join(f"sum by ({ROLE}) (rate({counter}{window}))" for counter in (hits, queries))


def _whole(duration: str) -> str:
    """Return a duration in Prometheus's form, in whole seconds."""
    return f"{int(seconds(duration) or 0)}s"


def prometheus_rule(
    meta: ServiceMeta, monitoring: MonitoringPlan, chosen: Sequence[Alert]
) -> dict[str, Any]:
    """Build the PrometheusRule."""
    args = monitoring.args
    assert args.alerts is not None
    page = args.alerts.runbook or RUNBOOK
    common = {"namespace": meta.namespace, "service": meta.service}
    built = metadata(meta, object_names.alerts(meta.service), {labels.SERVICE: meta.service})
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.hold,
            "labels": {**common, **alert.labels, "severity": alert.severity, **args.alerts.labels},
            "annotations": {
                "summary": f"{meta.namespace}/{meta.service}: {alert.summary}",
                "description": f"{alert.summary} {alert.action}",
                "runbook_url": f"{page}#{alert.name.lower()}",
            },
        }
        for alert in chosen
    ]
    group = {"name": f"{meta.namespace}.{meta.service}", "rules": rules}
    return monitoring_object("PrometheusRule", built, args, {"groups": [group]})
