"""What is wrong with pods, from objects as the API server returns them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resource_requests import is_accelerator, pod_requests, takes_pods

Object = Mapping[str, Any]

#: Waiting reasons that only say that a container has not started yet.
_STARTING = ("ContainerCreating", "PodInitializing")
_MOST_EVENTS = 2
_MOST_CHARACTERS = 300


def name_of(manifest: Object) -> str:
    """Return the name of an object."""
    return str(manifest["metadata"]["name"])


def label_of(manifest: Object, key: str) -> str | None:
    """Return a label of an object, None where it has none of that key."""
    value = (manifest["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)


def is_bound(pod: Object) -> bool:
    """Return whether a pod has a node."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def describe_pod_problem(pod: Object, events: Sequence[Object]) -> str | None:
    """Describe what is wrong with a pod, on one line without its name; None where nothing is."""
    if _is_true(pod, "Ready"):
        return None
    reasons = list(_reasons(pod))
    if not is_bound(pod):
        return "; ".join(reasons) or "not scheduled"
    if pod["metadata"].get("deletionTimestamp"):
        reasons.append("being deleted")
    # Earlier events of the scheduler are out of date; the current ones are in the conditions.
    events = [event for event in events if event.get("reason") != "FailedScheduling"]
    reasons += latest_events(events, "Pod", name_of(pod))
    phase = (pod.get("status") or {}).get("phase") or "unknown"
    return "; ".join(dict.fromkeys(reasons)) or f"phase {phase}, not ready"


def has_visible_reason(pod: Object) -> bool:
    """Return whether a pod is ready or shows why it is not; one that was just created does not."""
    return _is_true(pod, "Ready") or any(_reasons(pod))


def describe_pod_failure(pod: Object) -> str | None:
    """Describe what keeps a pod from ever serving as it is, on one line without its name.

    None for one that serves, waits for a node, starts or runs: it may still become ready.
    """
    if _is_true(pod, "Ready") or _condition(pod, "PodScheduled").get("status") == "False":
        return None
    return "; ".join(_reasons(pod, running=False)) or None


def describe_pod_progress(pod: Object) -> str:
    """Describe what a pod that is not ready does, briefly; empty for one that is ready."""
    if _is_true(pod, "Ready"):
        return ""
    if not is_bound(pod):
        return "waits for a node"
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STARTING:
            return "pulls its image or mounts its volumes"
        if waiting.get("reason"):
            return str(waiting["reason"])
    return "starts"


def latest_events(events: Sequence[Object], kind: str, name: str) -> list[str]:
    """Messages of an object's latest events, the latest first."""
    about = {"kind": kind, "name": name}
    matching = [e for e in events if about.items() <= (e.get("involvedObject") or {}).items()]
    matching.sort(key=_time, reverse=True)
    texts = dict.fromkeys(_reason(event.get("reason"), event.get("message")) for event in matching)
    return list(texts)[:_MOST_EVENTS]


def describe_missing_accelerators(
    waiting: Sequence[Object], nodes: Sequence[Object], bound: Iterable[Object]
) -> str:
    """Return how many accelerators pods without a node (`waiting`) lack; empty where none.

    A lower bound: only the scheduler knows which node a pod may have. Labels, affinities, quotas
    and taints that people set do not count; nodes that are cordoned or not ready count as full.
    `bound` are the pods of the cluster that have not ended.
    """
    in_use: dict[str, Counter[str]] = {}
    for pod in bound:
        in_use.setdefault(str(pod["spec"].get("nodeName")), Counter()).update(_accelerators(pod))
    wanted: dict[str, list[int]] = {}
    for pod in waiting:
        for kind, count in _accelerators(pod).items():
            wanted.setdefault(kind, []).append(count)
    lines = []
    for kind, sizes in sorted(wanted.items()):
        free = []
        for node in filter(takes_pods, nodes):
            allocatable = ((node.get("status") or {}).get("allocatable") or {}).get(kind) or 0
            used = in_use.get(name_of(node), Counter())[kind]
            free.append(max(0, int(quantity.parse(allocatable)) - used))
        unplaced = _unplaced(sizes, free)
        if unplaced:
            pods = " and ".join(
                f"1 pod needs {size}" if count == 1 else f"{count} pods need {size} each"
                for size, count in sorted(Counter(sizes).items())
            )
            most = f", at most {max(free)} on one node" if any(free) else ""
            lines.append(f"{unplaced} {kind} are missing: {pods}; {sum(free)} are free{most}")
    return "; ".join(lines)


def _unplaced(sizes: Iterable[int], free: Iterable[int]) -> int:
    left, unplaced = sorted(free, reverse=True), 0
    for size in sorted(sizes, reverse=True):
        at = next((index for index, room in enumerate(left) if room >= size), None)
        if at is None:
            unplaced += size
        else:
            left[at] -= size
    return unplaced


def _accelerators(pod: Object) -> Counter[str]:
    requests = pod_requests({"spec": pod["spec"]})
    return Counter(
        {kind: int(count) for kind, count in requests.items() if is_accelerator(kind) and count}
    )


def _reasons(pod: Object, *, running: bool = True) -> Iterator[str]:
    """Yield what a pod's status says; without `running` not what its running containers say."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        yield _reason(status.get("reason") or "Failed", status.get("message"))
    scheduled = _condition(pod, "PodScheduled")
    if not is_bound(pod) and scheduled.get("status") == "False":
        yield "not scheduled, " + _reason(scheduled.get("reason"), scheduled.get("message"))
    for container in _containers(pod):
        name = f"container {container['name']}"
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        before = (container.get("lastState") or {}).get("terminated") or {}
        is_running = state.get("running") is not None
        if is_running and not running:
            continue
        if waiting.get("reason") and waiting["reason"] not in _STARTING:
            yield f"{name}: {_reason(waiting['reason'], waiting.get('message'))}"
        if ended and ended.get("exitCode"):
            yield f"{name}: {_exit(ended)}"
        elif before:
            times = container.get("restartCount") or 0
            yield f"{name}: {_exit(before)}, restarted {times} time{'' if times == 1 else 's'}"
        elif is_running and not container.get("ready"):
            yield f"{name}: is running but not ready"


def _containers(pod: Object) -> list[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _exit(ended: Mapping[str, Any]) -> str:
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    return _reason(f"exit code {ended.get('exitCode')}{reason}", ended.get("message"))


def _condition(pod: Object, kind: str) -> Mapping[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _is_true(pod: Object, kind: str) -> bool:
    return _condition(pod, kind).get("status") == "True"


def _reason(reason: Any, message: Any) -> str:
    text = " ".join(str(message or "").split())
    if len(text) > _MOST_CHARACTERS:
        text = text[: _MOST_CHARACTERS - 1] + "…"
    return ": ".join(filter(None, (str(reason or ""), text)))


def _time(event: Object) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp") or ""))
