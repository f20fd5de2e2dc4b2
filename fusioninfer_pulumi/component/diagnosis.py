"""Explains from pods, events and PodGroups why replicas are pending or failed."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import (
    Cluster,
    describe_read_error,
    is_pulumi_update,
)
from fusioninfer_pulumi.component.status import (
    count_ready_replicas,
    explain_unscheduled_gang,
    find_condition,
    is_available,
)
from fusioninfer_pulumi.findings import summarize_names
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import API_VERSION, NATIVE_API_VERSION

#: Timeouts of the reads that explain a failed update. They are long because the library watches for
#: reasons that are visible only briefly.
_READ_SERVICE_SECONDS, _WATCH_SECONDS, _WATCH_MARGIN_SECONDS = 40.0, 20.0, 10.0
#: Interval between reads of pods while an update waits.
_POD_INTERVAL_SECONDS = 10.0
#: Maximum lines of an explanation.
_MAX_LINES = 12
#: Field selectors of events. LeaderWorkerSet reports that it recreates a group in a normal event.
_EVENT_SELECTORS = ("type=Warning", "type=Normal,reason=RecreateGroup")
#: Waiting reasons of containers that are starting as expected.
_STARTING_REASONS = ("ContainerCreating", "PodInitializing")
_MAX_EVENTS = 2
_MAX_CHARACTERS = 300
_PODS = ("v1", "Pod")

Object = Mapping[str, Any]


def get_name(manifest: Object) -> str:
    """Return an object's `metadata.name`."""
    return str(manifest["metadata"]["name"])


def is_bound(pod: Object) -> bool:
    """Return whether a pod is assigned to a node."""
    return bool(lookup(pod, "spec", "nodeName"))


@dataclass(frozen=True)
class PodSnapshot:
    """Pods and PodGroups of one service, and events of its namespace.

    Attributes:
        unread: Failed reads and their reasons.
        workloads: All Kueue Workloads of the namespace; empty if no pod waits for Kueue.
    """

    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    unread: Sequence[str] = ()
    workloads: Sequence[Object] = ()

    def find_pods(self, lws: str) -> list[Object]:
        """Return the pods of a LeaderWorkerSet."""
        path = ("metadata", "labels", labels.LWS_NAME)
        return [pod for pod in self.pods if lookup(pod, *path) == lws]


def read_service(api: KubernetesApi, namespace: str, service: str) -> PodSnapshot:
    """Read a service's pods and PodGroups, and events that may explain their state.

    Forbidden reads are listed in `unread`. Raises UnreadableError if the cluster does not respond.
    """
    pods = api.list_objects("v1", "Pod", namespace, labelSelector=_format_selector(service)) or []
    events = [
        event
        for selector in _EVENT_SELECTORS
        for event in api.list_objects("v1", "Event", namespace, fieldSelector=selector) or ()
    ]
    is_native = any(pod["spec"].get("schedulingGroup") for pod in pods)
    version = NATIVE_API_VERSION if is_native else API_VERSION
    pod_groups = (
        api.list_objects(version, "PodGroup", namespace, labelSelector=_format_selector(service))
        or []
    )
    gates = [gate for pod in pods for gate in pod["spec"].get("schedulingGates") or ()]
    has_kueue = any(gate["name"] == labels.KUEUE_GATE for gate in gates)
    workloads = api.list_objects("kueue.x-k8s.io", "Workload", namespace) if has_kueue else None
    return PodSnapshot(pods, events, pod_groups, tuple(api.unread), workloads or ())


def watch_service(
    api: KubernetesApi,
    namespace: str,
    service: str,
    initial: PodSnapshot,
    is_explained: Callable[[PodSnapshot], bool],
    seconds: float,
) -> PodSnapshot:
    """Watch a service's pods, because a crashed pod may be gone at the next read.

    Return `initial` with updated pods: each pod's last state in which it was ready or showed why it
    was not, even if it is deleted now; otherwise its current state. A reason may be visible only
    briefly, because LeaderWorkerSet deletes a group's pods as soon as one of their containers has
    restarted. Watching ends when `is_explained` returns true or after `seconds`.
    """
    pods = {get_name(pod): pod for pod in initial.pods}
    snapshot = initial
    selector = _format_selector(service)
    watch = api.watch("v1", "Pod", namespace, seconds=seconds, labelSelector=selector)
    with contextlib.closing(watch) as changes:
        for event_type, pod in changes:
            old = pods.get(get_name(pod))
            if is_ready_or_explained(pod) or old is None or not is_ready_or_explained(old):
                pods[get_name(pod)] = pod
            if event_type == "DELETED" and not is_ready_or_explained(pods[get_name(pod)]):
                del pods[get_name(pod)]
            snapshot = replace(initial, pods=list(pods.values()))
            if is_explained(snapshot):
                break
    return snapshot


async def explain_failure(cluster: Cluster, service: str, names: Sequence[str]) -> list[str]:
    """Explain why LeaderWorkerSets of a service are not available, one line for each reason.

    The reasons include messages of the scheduler and of Kueue. This function never raises.
    """

    def is_explained(snapshot: PodSnapshot) -> bool:
        return all(is_lws_explained(name, snapshot) for name in names)

    try:
        snapshot = await cluster.read(read_service, service, seconds=_READ_SERVICE_SECONDS)
        # Credentials that cannot list pods usually cannot watch them.
        if not is_explained(snapshot) and (snapshot.pods or not snapshot.unread):
            arguments = service, snapshot, is_explained, _WATCH_SECONDS
            seconds = _WATCH_SECONDS + _WATCH_MARGIN_SECONDS
            with contextlib.suppress(UnreadableError):
                snapshot = await cluster.read(watch_service, *arguments, seconds=seconds)
        lines = [
            *explain_lws(names, snapshot),
            *explain_gang(snapshot),
            *explain_queue(names, snapshot),
            *(f"not read: {unread}" for unread in snapshot.unread),
        ]
    except Exception as exc:  # noqa: BLE001  # no error may hide the failure itself
        return [f"the reason is unknown: {describe_read_error(exc)}"]
    return list(dict.fromkeys(lines))[:_MAX_LINES]


def explain_lws(names: Sequence[str], snapshot: PodSnapshot) -> list[str]:
    """Explain why LeaderWorkerSets are not available: one line for each reason, with pod names."""
    pods = [pod for name in names for pod in snapshot.find_pods(name)]
    lines = _group_by_reason(pods, lambda pod: describe_pod_problem(pod, snapshot.events))
    for name in names:
        events = list(_list_lws_events(name, snapshot.events))
        lines += events
        if not events and not snapshot.find_pods(name):
            lines.append(f"{name} has no pods")
    return lines


def explain_gang(snapshot: PodSnapshot) -> list[str]:
    """Return the scheduler's messages about PodGroups, or none if all pods have a node."""
    if all(map(is_bound, snapshot.pods)):
        return []
    problems = {get_name(group): explain_unscheduled_gang(group) for group in snapshot.pod_groups}
    return [f"PodGroup {name}: {problem}" for name, problem in problems.items() if problem]


def explain_queue(names: Sequence[str], snapshot: PodSnapshot) -> list[str]:
    """Explain why Kueue has not admitted replicas of LeaderWorkerSets, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for workload in snapshot.workloads:
        owners = {owner["name"] for owner in workload["metadata"].get("ownerReferences") or ()}
        condition = find_condition(workload.get("status") or {}, "QuotaReserved")
        if condition.get("status") == "False":
            waiting = reasons.setdefault(str(condition.get("message") or ""), [])
            waiting += sorted(owners & set(names))
    return [
        f"Kueue has not admitted LeaderWorkerSet {summarize_names(waiting, limit=1)}: {reason}"
        for reason, waiting in reasons.items()
        if waiting
    ]


def is_lws_explained(name: str, snapshot: PodSnapshot) -> bool:
    """Return whether each pod of a LeaderWorkerSet is ready or shows why it is not.

    If the LeaderWorkerSet has no pods, return whether a warning explains that.
    """
    pods = snapshot.find_pods(name)
    # The normal event RecreateGroup does not contain the reason.
    warnings = [event for event in snapshot.events if event.get("type") == "Warning"]
    return all(map(is_ready_or_explained, pods)) if pods else any(_list_lws_events(name, warnings))


class Progress:
    """Shows the progress of an update as a line that Pulumi replaces."""

    def __init__(self, component: pulumi.Resource, plan: ServicePlan, cluster: Cluster) -> None:
        """Prepare the progress of an update; the reasons are read from `cluster`."""
        self._component, self._plan, self._cluster = component, plan, cluster
        self._pods, self._next_read = PodSnapshot(), time.monotonic() + _POD_INTERVAL_SECONDS
        self._lws_name, self._waiting_since = "", 0.0
        self._logged_lines: set[str] = set()
        self._last_line = ""

    async def show(self, live: Mapping[str, Any], lws_name: str) -> None:
        """Show how many replicas are available, and what one LeaderWorkerSet waits for."""
        now = time.monotonic()
        if lws_name != self._lws_name:
            self._lws_name, self._waiting_since = lws_name, now
        if now >= self._next_read:
            self._next_read = now + _POD_INTERVAL_SECONDS
            # If the pods cannot be read, the line keeps the previous reasons.
            with contextlib.suppress(UnreadableError):
                pods = await self._cluster.read_objects(self._plan.service, _PODS)
                self._pods = PodSnapshot(list(pods.values()))
        minutes = int((now - self._waiting_since) // 60)
        self.show_line(format_progress(self._plan, live, lws_name, self._pods, minutes))

    def log_once(self, line: str) -> None:
        """Log a permanent line, once per update."""
        if line not in self._logged_lines:
            self._logged_lines.add(line)
            pulumi.log.info(line, self._component)

    def show_line(self, line: str) -> None:
        """Show an ephemeral line if it differs from the previous one."""
        if line != self._last_line:
            self._last_line = line
            pulumi.log.info(line, self._component, ephemeral=True)


def format_progress(
    plan: ServicePlan, live: Mapping[str, Any], lws_name: str, snapshot: PodSnapshot, minutes: int
) -> str:
    """Return a line such as `decode 1/2 available; pod svc-decode-1-0: phase Pending; for 3m`.

    The line contains the first reason why pods of `lws_name` are not ready, and the `minutes` for
    which the update has waited for them.
    """
    counts = ", ".join(
        f"{role.name} {sum(count_ready_replicas(lws, live.get(lws.name)) for lws in role.lws)}"
        f"/{len(role.replicas)}"
        for role in plan.roles
    )
    reasons = _group_by_reason(
        snapshot.find_pods(lws_name), lambda pod: describe_pod_problem(pod, ())
    )
    waiting = [f"for {minutes}m"] if minutes else []
    return "; ".join([f"{counts} available", *reasons[:1], *waiting])


async def read_lws_failures(
    component: pulumi.Resource,
    plan: ServicePlan,
    live: Mapping[str, Mapping[str, Any] | None],
    *,
    is_render_only: bool,
) -> dict[str, str]:
    """Read the pods of unavailable LeaderWorkerSets, and explain why they failed, by name.

    `live` maps names to LeaderWorkerSets. The result is empty in previews, if `is_render_only`, and
    on an error, which is logged.
    """
    revisions = {
        name: lookup(state, "metadata", "labels", labels.REVISION)
        for name, state in live.items()
        if not is_available(state)
    }
    if is_render_only or not revisions or not is_pulumi_update():
        return {}
    try:
        pods = await Cluster(component, plan.namespace).read_objects(plan.service, _PODS)
        return find_lws_failures(revisions, PodSnapshot(list(pods.values())))
    except Exception as exc:  # noqa: BLE001  # the status may be less specific, but must not fail
        message = f"cannot read why replicas are not available: {describe_read_error(exc)}"
        pulumi.log.info(message, component)
        return {}


def find_lws_failures(revisions: Mapping[str, str | None], snapshot: PodSnapshot) -> dict[str, str]:
    """Explain why LeaderWorkerSets failed, by name; pods that may become ready are not failures.

    `revisions` maps each LeaderWorkerSet to its revision label.
    """
    failures = {}
    for name, revision in revisions.items():
        # Pods of the current revision count even while they are being deleted, because they are
        # deleted only after a crash. Pods of other revisions are deleted by the update.
        pods = [
            pod
            for pod in snapshot.find_pods(name)
            if not pod["metadata"].get("deletionTimestamp")
            or (
                revision is not None
                and lookup(pod, "metadata", "labels", labels.REVISION) == revision
            )
        ]
        reasons = _group_by_reason(pods, describe_pod_failure)
        if reasons:
            failures[name] = "; ".join(reasons)
    return failures


def _format_selector(service: str) -> str:
    return f"{labels.SERVICE}={service}"


def _group_by_reason(
    pods: Sequence[Object], find_reason: Callable[[Object], str | None]
) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for pod in sorted(pods, key=get_name):
        reason = find_reason(pod)
        if reason is not None:
            reasons.setdefault(reason, []).append(get_name(pod))
    return [f"pod {summarize_names(names, limit=1)}: {reason}" for reason, names in reasons.items()]


def _list_lws_events(name: str, events: Sequence[Object]) -> Iterator[str]:
    """Yield the latest events of a LeaderWorkerSet and its StatefulSets."""
    # The workers' StatefulSet is named after the LeaderWorkerSet and the group index.
    name_pattern = re.compile(rf"{re.escape(name)}(-\d+)?")
    objects = (event.get("involvedObject") or {} for event in events)
    kinds_and_names = {(str(item.get("kind")), str(item.get("name"))) for item in objects}
    for kind, object_name in sorted(kinds_and_names):
        if kind in ("LeaderWorkerSet", "StatefulSet") and name_pattern.fullmatch(object_name):
            for text in find_latest_events(events, kind, object_name):
                yield f"{kind} {object_name}: {text}"


def describe_pod_problem(pod: Object, events: Sequence[Object]) -> str | None:
    """Describe on one line why a pod is not ready; None if it is ready."""
    if _is_ready(pod):
        return None
    reasons = list(_find_reasons(pod))
    if not is_bound(pod):
        return "; ".join(reasons) or "not scheduled"
    if pod["metadata"].get("deletionTimestamp"):
        reasons.append("being deleted")
    # The scheduler's current message is in the conditions; its events may be outdated.
    events = [event for event in events if event.get("reason") != "FailedScheduling"]
    reasons += find_latest_events(events, "Pod", get_name(pod))
    phase = (pod.get("status") or {}).get("phase") or "unknown"
    # A pod with a node stays Pending until the kubelet can start its containers.
    activity = "pulling images or mounting volumes" if phase == "Pending" else "not ready"
    return "; ".join(dict.fromkeys(reasons)) or f"phase {phase}, {activity}"


def is_ready_or_explained(pod: Object) -> bool:
    """Return whether a pod is ready, or its status shows why it is not."""
    return _is_ready(pod) or any(_find_reasons(pod))


def describe_pod_failure(pod: Object) -> str | None:
    """Describe on one line why a pod failed.

    Return None if the pod is ready, or if it may become ready: it waits for a node, starts or runs.
    """
    scheduled = find_condition(pod.get("status") or {}, "PodScheduled")
    if _is_ready(pod) or scheduled.get("status") == "False":
        return None
    return "; ".join(_find_reasons(pod, include_running=False)) or None


def find_latest_events(events: Sequence[Object], kind: str, name: str) -> list[str]:
    """Return the messages of an object's latest events, the latest first."""
    reference = {"kind": kind, "name": name}
    matching = [
        event
        for event in events
        if reference.items() <= (event.get("involvedObject") or {}).items()
    ]
    matching.sort(key=_get_event_time, reverse=True)
    texts = dict.fromkeys(
        _format_reason(event.get("reason"), event.get("message")) for event in matching
    )
    return list(texts)[:_MAX_EVENTS]


def _find_reasons(pod: Object, *, include_running: bool = True) -> Iterator[str]:
    """Yield why a pod is not ready; without `include_running`, skip running containers."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        yield _format_reason(status.get("reason") or "Failed", status.get("message"))
    scheduled = find_condition(status, "PodScheduled")
    if not is_bound(pod) and scheduled.get("status") == "False":
        yield "not scheduled, " + _format_reason(scheduled.get("reason"), scheduled.get("message"))
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for container in containers:
        name = f"container {container['name']}"
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        last_terminated = (container.get("lastState") or {}).get("terminated") or {}
        is_running = state.get("running") is not None
        if is_running and not include_running:
            continue
        if waiting.get("reason") and waiting["reason"] not in _STARTING_REASONS:
            yield f"{name}: {_format_reason(waiting['reason'], waiting.get('message'))}"
        if terminated and terminated.get("exitCode"):
            yield f"{name}: {_format_exit(terminated)}"
        elif last_terminated:
            times = container.get("restartCount") or 0
            restarts = f"restarted {times} time{'' if times == 1 else 's'}"
            yield f"{name}: {_format_exit(last_terminated)}, {restarts}"
        elif is_running and not container.get("ready"):
            yield f"{name}: running but not ready"


def _format_exit(terminated: Mapping[str, Any]) -> str:
    reason = f" ({terminated['reason']})" if terminated.get("reason") else ""
    text = f"exit code {terminated.get('exitCode')}{reason}"
    return _format_reason(text, terminated.get("message"))


def _is_ready(pod: Object) -> bool:
    return find_condition(pod.get("status") or {}, "Ready").get("status") == "True"


def _format_reason(reason: Any, message: Any) -> str:
    text = " ".join(str(message or "").split())
    if len(text) > _MAX_CHARACTERS:
        text = text[: _MAX_CHARACTERS - 1] + "…"
    return ": ".join(filter(None, (str(reason or ""), text)))


def _get_event_time(event: Object) -> str:
    times = (
        event.get("lastTimestamp"),
        lookup(event, "series", "lastObservedTime"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return str(next(filter(None, times), ""))
