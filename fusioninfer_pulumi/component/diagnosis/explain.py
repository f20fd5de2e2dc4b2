"""Explains from a snapshot of the cluster why a LeaderWorkerSet or a gang did not come up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import Cluster, read_error_text, reads_cluster
from fusioninfer_pulumi.component.diagnosis._pods import (
    Object,
    label_of,
    latest_events,
    missing_accelerators,
    name_of,
    pod_failure,
    pod_problem,
    pod_progress,
    shows_reason,
)
from fusioninfer_pulumi.component.diagnosis.read import (
    Snapshot,
    read_pods,
    read_service,
    watch_service,
)
from fusioninfer_pulumi.component.status import gang_blocked, is_available, native_condition
from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Seconds by which reading may delay the end of an update.
_READ_SECONDS = 10.0
#: The same for a failed update: some reasons are visible for a moment only.
_SERVICE_SECONDS, _WATCH_SECONDS, _WATCH_EXTRA_SECONDS = 40.0, 20.0, 10.0
#: Lines of a failure; the reasons of many replicas are mostly the same.
_MOST_LINES = 12
#: Kinds that create the pods of a LeaderWorkerSet, and report if they may not.
_CONTROLLERS = ("LeaderWorkerSet", "StatefulSet")


async def explain_failure(cluster: Cluster, service: str, names: Sequence[str]) -> list[str]:
    """Why LeaderWorkerSets of a service are not available, one line for each reason.

    Also why its gang is not placed. Never raises.
    """
    try:
        snapshot = await cluster.read(read_service, service, seconds=_SERVICE_SECONDS)
        if _is_worth_a_watch(names, snapshot):
            snapshot = await _watched(cluster, service, names, snapshot)
        lines = [
            *explain_lws(names, snapshot),
            *explain_gang(snapshot),
            *explain_queue(names, snapshot),
            *(f"not read: {unread}" for unread in snapshot.unread),
        ]
    # An error while explaining must not hide the failure itself.
    except Exception as problem:  # noqa: BLE001
        return [f"why is not known: {read_error_text(problem)}"]
    return list(dict.fromkeys(lines))[:_MOST_LINES]


def _is_worth_a_watch(names: Sequence[str], snapshot: Snapshot) -> bool:
    if not snapshot.pods and snapshot.unread:
        return False  # without rights to read pods there are none to watch them
    return not all(lws_shows_reason(name, snapshot) for name in names)


async def _watched(
    cluster: Cluster, service: str, names: Sequence[str], snapshot: Snapshot
) -> Snapshot:
    def enough(snapshot: Snapshot) -> bool:
        return all(lws_shows_reason(name, snapshot) for name in names)

    more = service, snapshot, enough, _WATCH_SECONDS
    try:
        return await cluster.read(
            watch_service, *more, seconds=_WATCH_SECONDS + _WATCH_EXTRA_SECONDS
        )
    except UnreadableError:
        return snapshot


def explain_lws(names: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Why LeaderWorkerSets are not available: one line for each reason, with its pods."""
    pods = [pod for name in names for pod in _pods_of(name, snapshot)]
    lines = _by_reason(pods, lambda pod: pod_problem(pod, snapshot.events))
    for name in names:
        events = list(_controller_events(name, snapshot.events))
        lines += events or ([] if _pods_of(name, snapshot) else [f"{name} has no pods"])
    return lines


def waiting_reason(name: str, snapshot: Snapshot) -> str:
    """What the first pod of a LeaderWorkerSet that is not ready does, briefly."""
    reasons = (pod_progress(pod) for pod in sorted(_pods_of(name, snapshot), key=name_of))
    return next(filter(None, reasons), "")


def failed_lws(revisions: Mapping[str, str | None], snapshot: Snapshot) -> dict[str, str]:
    """Why LeaderWorkerSets failed, by name; those that are only not ready yet have not.

    `revisions` are their revision labels by name.
    """
    failures = {}
    for name, revision in revisions.items():
        # LeaderWorkerSet deletes pods that have crashed, and an update deletes those of before.
        pods = [
            pod
            for pod in _pods_of(name, snapshot)
            if not pod["metadata"].get("deletionTimestamp")
            or (revision is not None and label_of(pod, labels.REVISION) == revision)
        ]
        reasons = _by_reason(pods, pod_failure)
        if reasons:
            failures[name] = "; ".join(reasons)
    return failures


def lws_shows_reason(name: str, snapshot: Snapshot) -> bool:
    """Whether the pods of a LeaderWorkerSet, or events, show why it is not available.

    LeaderWorkerSet deletes the pods of a group as soon as one of their containers has restarted;
    the reason is then visible for a moment only.
    """
    pods = _pods_of(name, snapshot)
    if not pods:
        # The event that a group is created again is no warning, and gives no reason.
        warnings = [event for event in snapshot.events if event.get("type") == "Warning"]
        return any(_controller_events(name, warnings))
    return all(shows_reason(pod) for pod in pods)


def explain_gang(snapshot: Snapshot) -> list[str]:
    """Why pods of a service have no node: the scheduler's messages and missing accelerators."""
    waiting = [pod for pod in snapshot.pods if not (pod.get("spec") or {}).get("nodeName")]
    if not waiting:
        return []
    lines = []
    for group in snapshot.pod_groups:
        message = _latest_refusal(group)
        if message:
            lines.append(f"PodGroup {name_of(group)}: {message}")
    if snapshot.nodes is not None and snapshot.bound is not None:
        short = missing_accelerators(waiting, snapshot.nodes, snapshot.bound)
        if short:
            lines.append(short)
    return lines


def explain_queue(names: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Why Kueue has not admitted replicas of LeaderWorkerSets, one line for each reason."""
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


async def failed_replicas(
    component: pulumi.Resource,
    plan: ServicePlan,
    live: Mapping[str, Mapping[str, Any] | None],
    *,
    yaml_only: bool,
) -> dict[str, str]:
    """Why replicas failed just now, by name of their LeaderWorkerSet; never raises.

    LeaderWorkerSets do not say so, but their pods do. Only pods of those that are not available are
    read. Nothing in a preview and where files are written; nothing, with a log line, where the
    cluster cannot be read. `live` has them by name.
    """
    revisions = {name: _revision(state) for name, state in live.items() if not is_available(state)}
    if yaml_only or not revisions or not reads_cluster():
        return {}
    try:
        cluster = Cluster(component, plan.namespace)
        pods = await cluster.read(read_pods, plan.service, seconds=_READ_SECONDS)
        return failed_lws(revisions, pods)
    # Any error: the status then says less, as it does without rights.
    except Exception as problem:  # noqa: BLE001
        message = f"whether replicas fail was not read: {read_error_text(problem)}"
        pulumi.log.info(message, component)
        return {}


def _pods_of(name: str, snapshot: Snapshot) -> list[Object]:
    return [pod for pod in snapshot.pods if label_of(pod, labels.LWS_NAME) == name]


def _by_reason(pods: Sequence[Object], reason_of: Callable[[Object], str | None]) -> list[str]:
    """One line for each reason, with the pods that share it."""
    reasons: dict[str, list[str]] = {}
    for pod in sorted(pods, key=name_of):
        cause = reason_of(pod)
        if cause is not None:
            reasons.setdefault(cause, []).append(name_of(pod))
    return [f"pod {listed(names, most=1)}: {reason}" for reason, names in reasons.items()]


def _latest_refusal(group: Mapping[str, Any]) -> str:
    """The scheduler's latest message, empty once the gang has been placed."""
    if "schedulingPolicy" in (group.get("spec") or {}):
        # It stays true once the gang was placed, whatever waits later.
        placed = native_condition(group).get("status") == "True"
        return "" if placed else gang_blocked(group) or "the scheduler has not looked at it"
    status = group.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase == "Running":
        # Volcano never takes Unschedulable back; a running gang may lack single pods all the same.
        return ""
    refused = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True"
    ]
    latest: Mapping[str, Any] = max(
        reversed(refused),
        key=lambda condition: str(condition.get("lastTransitionTime")),
        default={},
    )
    message = " ".join(str(latest.get("message") or "").split())
    return f"phase {phase}" + (f", {message}" if message else "")


def _controller_events(name: str, events: Sequence[Object]) -> Iterator[str]:
    # Workers have a StatefulSet of their own, with the number of their group.
    object_name = re.compile(rf"{re.escape(name)}(-\d+)?")
    subjects = {
        (str(about.get("kind")), str(about.get("name")))
        for event in events
        if (about := event.get("involvedObject")) and object_name.fullmatch(str(about.get("name")))
    }
    for kind, subject in sorted(subjects):
        if kind in _CONTROLLERS:
            for text in latest_events(events, kind, subject):
                yield f"{kind} {subject}: {text}"


def _revision(state: Mapping[str, Any] | None) -> str | None:
    metadata = (state or {}).get("metadata") or {}
    revision: str | None = (metadata.get("labels") or {}).get(labels.REVISION)
    return revision
