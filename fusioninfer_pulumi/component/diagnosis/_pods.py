"""Problems of pods, from objects as the API server returns them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resources import is_accelerator, pod_requests, takes_pods

Object = Mapping[str, Any]

#: Waiting reasons that only say that a container has not started yet.
_STARTING = ("ContainerCreating", "PodInitializing")
_MOST_EVENTS = 2
_MOST_CHARACTERS = 300


def name_of(manifest: Object) -> str:
    """Name of an object."""
    return str(manifest["metadata"]["name"])


def label_of(manifest: Object, key: str) -> str | None:
    """A label of an object, None where it has none of that key."""
    value = (manifest["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)


def pod_problem(pod: Object, events: Sequence[Object]) -> str | None:
    """What is wrong with a pod, on one line without its name; None where nothing is."""
    status = pod.get("status") or {}
    if _condition(status, "Ready").get("status") == "True":
        return None
    reasons = list(_reasons(pod, status))
    if (pod.get("spec") or {}).get("nodeName"):
        # Earlier events of the scheduler are out of date; the current ones are in the conditions.
        events = [event for event in events if event.get("reason") != "FailedScheduling"]
        reasons += [
            text for text in latest_events(events, "Pod", name_of(pod)) if text not in reasons
        ]
    return "; ".join(reasons) if reasons else f"phase {status.get('phase') or 'unknown'}, not ready"


def shows_reason(pod: Object) -> bool:
    """Whether a pod shows why it does not serve; one that was just created does not."""
    status = pod.get("status") or {}
    return (
        status.get("phase") == "Failed"
        or _condition(status, "Ready").get("status") == "True"
        or _condition(status, "PodScheduled").get("status") == "False"
        or any(text for container in _containers(status) for text in _container(container))
    )


def pod_progress(pod: Object) -> str:
    """What a pod that is not ready does, briefly; empty for one that is ready."""
    status = pod.get("status") or {}
    if _condition(status, "Ready").get("status") == "True":
        return ""
    if not (pod.get("spec") or {}).get("nodeName"):
        return "waits for a node"
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STARTING:
            return "pulls its image or mounts its volumes"
        if waiting.get("reason"):
            return str(waiting["reason"])
    return "starts"


def pod_failure(pod: Object) -> str | None:
    """What keeps a pod from ever serving as it is, on one line without its name.

    None for one that serves, waits for a node, starts or runs: it may still become ready.
    """
    status = pod.get("status") or {}
    if _condition(status, "Ready").get("status") == "True":
        return None
    reasons = []
    if status.get("phase") == "Failed":
        reasons.append(_reason_text(status.get("reason") or "Failed", status.get("message")))
    for container in _containers(status):
        if (container.get("state") or {}).get("running") is None:
            reasons += _container(container)
    return "; ".join(reasons) or None


def latest_events(events: Sequence[Object], kind: str, name: str) -> list[str]:
    """Messages of an object's latest events, the latest first."""
    matching = [
        event
        for event in events
        if (event.get("involvedObject") or {}).get("kind") == kind
        and (event.get("involvedObject") or {}).get("name") == name
    ]
    matching.sort(key=_time, reverse=True)
    texts = dict.fromkeys(
        _reason_text(event.get("reason"), event.get("message")) for event in matching
    )
    return list(texts)[:_MOST_EVENTS]


def missing_accelerators(
    waiting: Sequence[Object], nodes: Sequence[Object], bound: Iterable[Object]
) -> str:
    """How many accelerators pods without a node (`waiting`) lack; empty where none.

    A lower bound: only the scheduler knows which node a pod may have. Labels, affinities, quotas
    and taints that people set do not count; nodes that are cordoned or not ready count as full.
    """
    in_use: dict[str, Counter[str]] = {}
    for pod in bound:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            on = in_use.setdefault(str(pod["spec"].get("nodeName")), Counter())
            on.update(_accelerators(pod))
    wanted: dict[str, Counter[int]] = {}
    for pod in waiting:
        for kind, count in _accelerators(pod).items():
            wanted.setdefault(kind, Counter())[count] += 1
    shortages = (
        _shortage(kind, sizes, _free(kind, nodes, in_use)) for kind, sizes in sorted(wanted.items())
    )
    return "; ".join(filter(None, shortages))


def _reasons(pod: Object, status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("phase") == "Failed":
        yield _reason_text(status.get("reason") or "Failed", status.get("message"))
    scheduled = _condition(status, "PodScheduled")
    if not (pod.get("spec") or {}).get("nodeName"):
        if scheduled.get("status") == "False":
            yield "not scheduled, " + _reason_text(
                scheduled.get("reason"), scheduled.get("message")
            )
        else:
            yield "not scheduled"
        return
    for container in _containers(status):
        yield from _container(container)
    if pod["metadata"].get("deletionTimestamp"):
        yield "being deleted"


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    name = f"container {container['name']}"
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    before = (container.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") and waiting["reason"] not in _STARTING:
        yield f"{name}: {_reason_text(waiting['reason'], waiting.get('message'))}"
    if ended and ended.get("exitCode"):
        yield f"{name}: {_exit(ended)}"
    elif before:
        times = container.get("restartCount") or 0
        yield f"{name}: {_exit(before)}, restarted {times} time{'' if times == 1 else 's'}"
    elif state.get("running") is not None and not container.get("ready"):
        yield f"{name}: runs and is not ready"


def _exit(ended: Mapping[str, Any]) -> str:
    reason = ended.get("reason")
    text = f"exit code {ended.get('exitCode')}" + (f" ({reason})" if reason else "")
    message = _shortened(ended.get("message"))
    return f"{text}: {message}" if message else text


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next(
        (condition for condition in status.get("conditions") or () if condition["type"] == kind), {}
    )


def _reason_text(reason: Any, message: Any) -> str:
    return ": ".join(filter(None, (str(reason or ""), _shortened(message))))


def _shortened(message: Any) -> str:
    text = " ".join(str(message or "").split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _time(event: Object) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp") or ""))


def _shortage(kind: str, sizes: Counter[int], free: list[int]) -> str:
    left, unplaced = sorted(free, reverse=True), 0
    for size, count in sorted(sizes.items(), reverse=True):
        for _ in range(count):
            at = next((index for index, room in enumerate(left) if room >= size), None)
            if at is None:
                unplaced += size
            else:
                left[at] -= size
    if not unplaced:
        return ""
    pods = " and ".join(
        f"{count} pod{'' if count == 1 else 's'} of {size}" for size, count in sorted(sizes.items())
    )
    rooms = Counter(room for room in free if room)
    spare = ", ".join(
        f"{room} on {'a node' if count == 1 else f'each of {count} nodes'}"
        for room, count in sorted(rooms.items(), reverse=True)
    )
    return f"{unplaced} {kind} are missing: {pods} wait for a node, {sum(free)} are free" + (
        f" ({spare})" if spare else ""
    )


def _free(kind: str, nodes: Sequence[Object], in_use: dict[str, Counter[str]]) -> list[int]:
    free = []
    for node in nodes:
        allocatable = ((node.get("status") or {}).get("allocatable") or {}).get(kind)
        if allocatable is None or not takes_pods(node):
            continue
        used = in_use.get(name_of(node), Counter())[kind]
        free.append(max(0, int(quantity.parse(allocatable)) - used))
    return free


def _accelerators(pod: Object) -> Counter[str]:
    requests = pod_requests({"spec": pod["spec"]})
    return Counter(
        {
            kind: int(count)
            for kind, count in requests.items()
            if is_accelerator(kind) and count >= Decimal(1)
        }
    )
