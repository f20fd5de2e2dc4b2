"""The PrometheusRule of a service; `docs/alerts.md` explains its alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.api.monitoring import AlertsArgs
from fusioninfer_pulumi.findings import DOCS_URL
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.durations import parse_duration
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_metadata
from fusioninfer_pulumi.operations.monitors import (
    REVISION,
    ROLE,
    MonitoringPlan,
    build_monitoring_object,
    build_picker_matchers,
    build_replicas_query,
    build_role_matchers,
    build_service_matchers,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan

#: The page with a section for each alert.
RUNBOOK = f"{DOCS_URL}/alerts.md"

#: Waiting requests above which endpoint pickers consider an engine saturated: the default of their
#: saturation detector (inference extension v1.5.0, `DefaultQueueDepthThreshold`).
SATURATED_QUEUE = 5
#: Number of restarts of an engine within an hour at which the alert fires. The drain or loss of a
#: node causes a single restart.
RESTARTS = 2
#: The alert fires if the prefix cache hit rate is below this fraction of the last day's hit rate.
_HIT_RATE_DROP = 0.5
#: If the last day's hit rate is below this, it is too noisy to compare with.
_MIN_HIT_RATE = 0.1
#: Prometheus template for the role of an alert's series.
_ROLE_TEMPLATE = f"{{{{ $labels.{ROLE} }}}}"
_ROLE_LABEL = {"role": _ROLE_TEMPLATE}


@dataclass(frozen=True)
class Alert:
    """One alert.

    Attributes:
        name: Name, and heading of its section in `docs/alerts.md`.
        expression: PromQL; each series that it returns is a pending alert.
        pending: Duration for which the alert is pending before it fires.
        summary: What is wrong.
        action: What to do first.
        labels: Labels of the alert in addition to the labels of the series.
    """

    name: str
    expression: str
    pending: str
    severity: str
    summary: str
    action: str
    labels: Mapping[str, str] = field(default_factory=dict)


def build_alerts(meta: ServiceMeta, monitoring: MonitoringPlan) -> Iterator[Alert]:
    """Yield the alerts about the roles, engines and endpoint picker that are monitored."""
    for role in monitoring.scraped_roles:
        yield from _build_role_alerts(meta, role, needs_gang=monitoring.shape.needs_gang)
    if monitoring.scraped_roles:
        yield from _build_engine_alerts(build_service_matchers(meta))
    if monitoring.scrapes_picker:
        yield Alert(
            name="FusionInferPickerDown",
            expression=f"absent(up{{{build_picker_matchers(meta)}}} == 1)",
            pending="5m",
            severity="critical",
            summary="No endpoint picker is up, so the gateway cannot choose replicas.",
            action=f"Check the Deployment {object_names.endpoint_picker(meta.service)}, its events "
            "and logs.",
        )


def get_min_replicas(role: RolePlan) -> int:
    """Return a role's number of replicas; if autoscalers set it, the minimum that they allow."""
    scaling = role.args.autoscaling
    if scaling is None:
        return len(role.replicas)
    idle = None if scaling.keda is None else scaling.keda.idle_replica_count
    per_lws = scaling.min_replicas if idle is None else min(idle, scaling.min_replicas)
    return per_lws * len(role.lws)


def _build_role_alerts(meta: ServiceMeta, role: RolePlan, *, needs_gang: bool) -> Iterator[Alert]:
    matchers, minimum = build_role_matchers(meta, role), get_min_replicas(role)
    ready_replicas, targets = build_replicas_query(matchers), f"up{{{matchers}}}"
    has_two_revisions = f"count(count by ({REVISION}) ({targets})) > 1"
    timeout, partition = role.rollout.timeout, role.rollout.partition
    role_label = {"role": role.name}
    # Two revisions mean that an update is restarting replicas, so alerts are suppressed. With a
    # partition, two revisions are the normal state.
    unless_updating = "" if partition else f" unless on() {has_two_revisions}"
    if minimum:
        yield Alert(
            name="FusionInferNoReplica",
            expression=f"{ready_replicas} == 0",
            pending="5m",
            severity="critical",
            summary=f"Role {role.name} has no ready replica.",
            action="Check its pods, their events and the logs of their engines.",
            labels=role_label,
        )
        yield Alert(
            name="FusionInferReplicasMissing",
            expression=f"{ready_replicas} < {minimum}{unless_updating}",
            pending=_whole_seconds(timeout),
            severity="warning",
            summary=f"Role {role.name} has had fewer than {minimum} ready replicas for longer "
            f"than rollout.timeout ({timeout}).",
            action="Check for pending pods. If a gang does not fit, none of its pods starts; see "
            "the status of its PodGroup."
            if needs_gang
            else "Check for pending pods and for engines that do not start.",
            labels=role_label,
        )
    if not partition:
        has_new_pods = f"count({targets} unless {targets} offset {_whole_seconds(timeout)})"
        yield Alert(
            name="FusionInferUpdateStalls",
            expression=f"{has_two_revisions} unless on() {has_new_pods}",
            pending="5m",
            severity="warning",
            summary=f"Role {role.name} runs pods of two revisions, and no pod has started for "
            f"{timeout}.",
            action="Run `pulumi up` again; it prints what the update waits for.",
            labels=role_label,
        )


def _build_engine_alerts(matchers: str) -> Iterator[Alert]:
    yield Alert(
        name="FusionInferQueueGrows",
        expression=f"avg by ({ROLE}) (vllm:num_requests_waiting{{{matchers}}}) > {SATURATED_QUEUE}",
        pending="10m",
        severity="warning",
        summary=f"More than {SATURATED_QUEUE} requests per engine of role {_ROLE_TEMPLATE} are "
        "waiting.",
        action="Add replicas, or limit the requests of clients.",
        labels=_ROLE_LABEL,
    )
    yield Alert(
        name="FusionInferKvCacheFull",
        expression=f"sum by ({ROLE}) (rate(vllm:num_preemptions_total{{{matchers}}}[5m])) > 0",
        pending="10m",
        severity="warning",
        summary=f"The KV cache of role {_ROLE_TEMPLATE} is full: engines preempt requests and "
        "compute them again.",
        action="Add replicas, lower --max-num-seqs, or give engines more memory.",
        labels=_ROLE_LABEL,
    )
    hits = f"vllm:prefix_cache_hits_total{{{matchers}}}"
    queries = f"vllm:prefix_cache_queries_total{{{matchers}}}"
    recent = _ratio(hits, queries, "[30m]")
    before = _ratio(hits, queries, "[1d] offset 30m")
    yield Alert(
        name="FusionInferPrefixHitsFall",
        expression=f"{recent} < {_HIT_RATE_DROP} * ({before} >= {_MIN_HIT_RATE})",
        pending="30m",
        severity="info",
        summary=f"The prefix cache hit rate of role {_ROLE_TEMPLATE} is less than half of the last "
        "day's.",
        action="Check whether clients send different prompts, and whether the endpoint picker "
        "still routes requests with the same prefix to the same replica.",
        labels=_ROLE_LABEL,
    )
    pod_labels = f"{ROLE}, pod, {REVISION}"
    # Recreated pods have new addresses. A restarted container keeps its address; its start time
    # changes. Engines with multiple API servers (data parallel ranks) have no start time, but a
    # counter that was reset to 0. If both are missing, only recreated pods count (`0 *`).
    addresses_by_port = f"count by ({pod_labels}, endpoint) (count_over_time(up{{{matchers}}}[1h]))"
    addresses = f"max by ({pod_labels}) ({addresses_by_port})"
    starts = f"max by ({pod_labels}) (changes(process_start_time_seconds{{{matchers}}}[1h]))"
    resets = f"max by ({pod_labels}) (resets(vllm:prompt_tokens_total{{{matchers}}}[1h]))"
    yield Alert(
        name="FusionInferEngineRestarts",
        expression=f"{addresses} - 1 + ({starts} or {resets} or 0 * {addresses}) >= {RESTARTS}",
        pending="0s",
        severity="warning",
        summary="The engine of {{ $labels.pod }} restarted {{ $value }} times within an hour.",
        action="Read `kubectl logs --previous`, or the pod's events if the pod was recreated.",
        labels=_ROLE_LABEL,
    )


def _ratio(hits: str, queries: str, window: str) -> str:
    return " / ".join(f"sum by ({ROLE}) (rate({counter}{window}))" for counter in (hits, queries))


def _whole_seconds(duration: str) -> str:
    return f"{int(parse_duration(duration) or 0)}s"


def build_prometheus_rule(
    meta: ServiceMeta, monitoring: MonitoringPlan, args: AlertsArgs
) -> dict[str, Any]:
    """Build the PrometheusRule."""
    page = args.runbook or RUNBOOK
    common = {"namespace": meta.namespace, "service": meta.service}
    object_meta = build_metadata(
        meta, object_names.alerts(meta.service), {labels.SERVICE: meta.service}
    )
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.pending,
            "labels": {**common, **alert.labels, "severity": alert.severity, **args.labels},
            "annotations": {
                "summary": f"{meta.namespace}/{meta.service}: {alert.summary}",
                "description": f"{alert.summary} {alert.action}",
                "runbook_url": f"{page}#{alert.name.lower()}",
            },
        }
        for alert in build_alerts(meta, monitoring)
    ]
    group = {"name": f"{meta.namespace}.{meta.service}", "rules": rules}
    spec = {"groups": [group]}
    return build_monitoring_object("PrometheusRule", object_meta, monitoring.args, spec)
