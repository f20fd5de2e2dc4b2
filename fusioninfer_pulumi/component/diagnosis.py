"""Reads a service's pods, events and PodGroups, and explains why replicas failed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import Cluster, describe_read_error, reads_cluster
from fusioninfer_pulumi.component.pod_problems import (
    Object,
    describe_missing_accelerators,
    describe_pod_failure,
    describe_pod_problem,
    describe_pod_progress,
    has_visible_reason,
    is_bound,
    label_of,
    latest_events,
    name_of,
)
from fusioninfer_pulumi.component.status import explain_unplaced_gang, is_available
from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import API_VERSION, NATIVE_API_VERSION

#: Seconds by which reading may delay the end of an update.
_READ_SECONDS = 10.0
#: The same for a failed update: some reasons are visible for a moment only.
_SERVICE_SECONDS, _WATCH_SECONDS, _WATCH_EXTRA_SECONDS = 40.0, 20.0, 10.0
#: Lines of a failure; the reasons of many replicas are mostly the same.
_MOST_LINES = 12
#: More pods than this are not counted against the nodes: it would take too long.
_MOST_PODS = 20_000
#: LeaderWorkerSet says as a normal event that it deletes a group whose container has restarted.
_EVENTS = ("type=Warning", "type=Normal,reason=RecreateGroup")
_HOLD_A_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class Snapshot:
    """Pods, events and PodGroups of one service, and the nodes around them.

    Attributes:
        nodes: All nodes, None where they were not read.
        bound: Pods of any namespace that hold a node, None where they were not read.
        unread: What could not be read, and why.
        workloads: Kueue's Workloads of the namespace, where pods wait for one.
    """

    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    nodes: Sequence[Object] | None = None
    bound: Sequence[Object] | None = None
    unread: Sequence[str] = ()
    workloads: Sequence[Object] = ()

    def pods_of(self, lws: str) -> list[Object]:
        """Return the pods of a LeaderWorkerSet."""
        return [pod for pod in self.pods if label_of(pod, labels.LWS_NAME) == lws]


def read_service(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> Snapshot:
    """Return a service's pods, their warnings, its PodGroups, and the nodes around them.

    `kubeconfig` is a path or text; it and `context` are None for what kubectl would use. What one
    has no rights to read is in `unread`. Raises UnreadableError where nothing can be read.
    """
    api = KubernetesApi(kubeconfig, context)
    pods = api.objects("v1", "Pod", namespace, labelSelector=_selector(service)) or []
    events = [
        event
        for fields in _EVENTS
        for event in api.objects("v1", "Event", namespace, fieldSelector=fields) or ()
    ]
    native = any(pod["spec"].get("schedulingGroup") for pod in pods)
    version = NATIVE_API_VERSION if native else API_VERSION
    groups = api.objects(version, "PodGroup", namespace, labelSelector=_selector(service)) or []
    nodes = bound = None
    if not all(map(is_bound, pods)):
        nodes = api.objects("v1", "Node")
    if nodes is not None:
        bound = api.objects("v1", "Pod", most=_MOST_PODS, fieldSelector=_HOLD_A_NODE)
    # Kueue's Workloads, asked for only where one of the pods waits for Kueue.
    gates = [gate for pod in pods for gate in pod["spec"].get("schedulingGates") or ()]
    waits = any(gate["name"] == labels.KUEUE_GATE for gate in gates)
    workloads = api.objects("kueue.x-k8s.io", "Workload", namespace) if waits else None
    return Snapshot(pods, events, groups, nodes, bound, tuple(api.unread), workloads or ())


def read_pods(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> Snapshot:
    """Return a service's pods alone; raises UnreadableError if they cannot be read."""
    api = KubernetesApi(kubeconfig, context)
    pods = api.objects("v1", "Pod", namespace, labelSelector=_selector(service)) or ()
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return Snapshot(pods)


def watch_service(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    service: str,
    known: Snapshot,
    enough: Callable[[Snapshot], bool],
    seconds: float,
) -> Snapshot:
    """Watch a service's pods: what a crashed pod shows may be gone at the next read.

    Returns `known` with each pod as it was when it last showed a reason, or as it is; unchanged
    where one has no right to watch. It ends when `enough` says so or after `seconds`.
    """
    api = KubernetesApi(kubeconfig, context)
    pods = {name_of(pod): pod for pod in known.pods}
    snapshot = known
    selector = _selector(service)
    watch = api.changes("v1", "Pod", namespace, seconds=seconds, labelSelector=selector)
    with contextlib.closing(watch) as changes:
        for kind, pod in changes:
            before = pods.get(name_of(pod))
            if has_visible_reason(pod) or before is None or not has_visible_reason(before):
                pods[name_of(pod)] = pod
            if kind == "DELETED" and not has_visible_reason(pods[name_of(pod)]):
                del pods[name_of(pod)]
            snapshot = replace(known, pods=list(pods.values()))
            if enough(snapshot):
                break
    return snapshot


async def explain_failure(cluster: Cluster, service: str, names: Sequence[str]) -> list[str]:
    """Explain why LeaderWorkerSets of a service are not available, one line for each reason.

    Also why its gang is not placed. Never raises.
    """

    def enough(snapshot: Snapshot) -> bool:
        return all(has_lws_reason(name, snapshot) for name in names)

    try:
        snapshot = await cluster.read(read_service, service, seconds=_SERVICE_SECONDS)
        # Without rights to read pods there are none to watch them.
        if not enough(snapshot) and (snapshot.pods or not snapshot.unread):
            more = service, snapshot, enough, _WATCH_SECONDS
            seconds = _WATCH_SECONDS + _WATCH_EXTRA_SECONDS
            with contextlib.suppress(UnreadableError):
                snapshot = await cluster.read(watch_service, *more, seconds=seconds)
        lines = [
            *explain_lws(names, snapshot),
            *explain_gang(snapshot),
            *explain_queue(names, snapshot),
            *(f"not read: {unread}" for unread in snapshot.unread),
        ]
    # An error while explaining must not hide the failure itself.
    except Exception as problem:  # noqa: BLE001
        return [f"why is not known: {describe_read_error(problem)}"]
    return list(dict.fromkeys(lines))[:_MOST_LINES]


def explain_lws(names: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Explain why LeaderWorkerSets are not available: one line for each reason, with its pods."""
    pods = [pod for name in names for pod in snapshot.pods_of(name)]
    lines = _by_reason(pods, lambda pod: describe_pod_problem(pod, snapshot.events))
    for name in names:
        events = list(_controller_events(name, snapshot.events))
        lines += events or ([] if snapshot.pods_of(name) else [f"{name} has no pods"])
    return lines


def explain_gang(snapshot: Snapshot) -> list[str]:
    """Explain why pods have no node: the scheduler's messages and missing accelerators."""
    waiting = [pod for pod in snapshot.pods if not is_bound(pod)]
    if not waiting:
        return []
    problems = {name_of(group): explain_unplaced_gang(group) for group in snapshot.pod_groups}
    lines = [f"PodGroup {name}: {problem}" for name, problem in problems.items() if problem]
    if snapshot.nodes is not None and snapshot.bound is not None:
        lines.append(describe_missing_accelerators(waiting, snapshot.nodes, snapshot.bound))
    return list(filter(None, lines))


def explain_queue(names: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Explain why Kueue has not admitted replicas of LeaderWorkerSets, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for workload in snapshot.workloads:
        owners = {owner["name"] for owner in workload["metadata"].get("ownerReferences") or ()}
        for condition in (workload.get("status") or {}).get("conditions") or ():
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                waiting = reasons.setdefault(str(condition.get("message") or ""), [])
                waiting += sorted(owners & set(names))
    return [
        f"LeaderWorkerSet {listed(waiting, most=1)}: waits in the LocalQueue of Kueue: {reason}"
        for reason, waiting in reasons.items()
        if waiting
    ]


def has_lws_reason(name: str, snapshot: Snapshot) -> bool:
    """Return whether the pods of a LeaderWorkerSet, or events, show why it is not available.

    LeaderWorkerSet deletes the pods of a group as soon as one of their containers has restarted;
    the reason is then visible for a moment only.
    """
    pods = snapshot.pods_of(name)
    # The event that a group is created again is not a warning and has no reason.
    warnings = [event for event in snapshot.events if event.get("type") == "Warning"]
    return all(map(has_visible_reason, pods)) if pods else any(_controller_events(name, warnings))


def describe_waiting(name: str, snapshot: Snapshot) -> str:
    """Describe what the first pod of a LeaderWorkerSet that is not ready does, briefly."""
    reasons = map(describe_pod_progress, sorted(snapshot.pods_of(name), key=name_of))
    return next(filter(None, reasons), "")


async def find_failed_replicas(
    component: pulumi.Resource,
    plan: ServicePlan,
    live: Mapping[str, Mapping[str, Any] | None],
    *,
    yaml_only: bool,
) -> dict[str, str]:
    """Explain why replicas failed just now, by name of their LeaderWorkerSet; never raises.

    LeaderWorkerSets do not say so, but their pods do. Only pods of those that are not available are
    read. Nothing in a preview and where files are written; nothing, with a log line, where the
    cluster cannot be read. `live` has them by name.
    """
    revisions = {
        name: label_of({"metadata": (state or {}).get("metadata") or {}}, labels.REVISION)
        for name, state in live.items()
        if not is_available(state)
    }
    if yaml_only or not revisions or not reads_cluster():
        return {}
    try:
        cluster = Cluster(component, plan.namespace)
        pods = await cluster.read(read_pods, plan.service, seconds=_READ_SECONDS)
        return find_failed_lws(revisions, pods)
    # Any error: the status then says less, as it does without rights.
    except Exception as problem:  # noqa: BLE001
        message = f"failures of replicas were not read: {describe_read_error(problem)}"
        pulumi.log.info(message, component)
        return {}


def find_failed_lws(revisions: Mapping[str, str | None], snapshot: Snapshot) -> dict[str, str]:
    """Explain why LeaderWorkerSets failed, by name; those that are only not ready yet have not.

    `revisions` are their revision labels by name.
    """
    failures = {}
    for name, revision in revisions.items():
        # LeaderWorkerSet deletes pods that have crashed, and an update deletes those of before.
        pods = [
            pod
            for pod in snapshot.pods_of(name)
            if not pod["metadata"].get("deletionTimestamp")
            or (revision is not None and label_of(pod, labels.REVISION) == revision)
        ]
        reasons = _by_reason(pods, describe_pod_failure)
        if reasons:
            failures[name] = "; ".join(reasons)
    return failures


def _selector(service: str) -> str:
    return f"{labels.SERVICE}={service}"


def _by_reason(pods: Sequence[Object], reason_of: Callable[[Object], str | None]) -> list[str]:
    """One line for each reason, with the pods that share it."""
    reasons: dict[str, list[str]] = {}
    for pod in sorted(pods, key=name_of):
        cause = reason_of(pod)
        if cause is not None:
            reasons.setdefault(cause, []).append(name_of(pod))
    return [f"pod {listed(names, most=1)}: {reason}" for reason, names in reasons.items()]


def _controller_events(name: str, events: Sequence[Object]) -> Iterator[str]:
    """Yield what the controllers that create the pods of a LeaderWorkerSet report."""
    # Workers belong to another StatefulSet, named after the LeaderWorkerSet and the group index.
    object_name = re.compile(rf"{re.escape(name)}(-\d+)?")
    about = (event.get("involvedObject") or {} for event in events)
    subjects = {(str(subject.get("kind")), str(subject.get("name"))) for subject in about}
    for kind, subject in sorted(subjects):
        if kind in ("LeaderWorkerSet", "StatefulSet") and object_name.fullmatch(subject):
            for text in latest_events(events, kind, subject):
                yield f"{kind} {subject}: {text}"
