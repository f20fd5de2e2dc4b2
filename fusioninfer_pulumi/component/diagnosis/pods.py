"""What was read of a cluster to explain a failure: plain objects, as the API server has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resources import is_accelerator, pod_requests, takes_pods

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """Objects around one service.

    Attributes:
        pods: The pods of its replicas.
        events: Warnings of its namespace, and what LeaderWorkerSet says of groups that it deletes.
        pod_groups: Its PodGroups.
        nodes: All nodes, None where they were not read.
        bound: Pods of any namespace that hold a node, None where they were not read.
        unread: What could not be read, and why.
    """

    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    nodes: Sequence[Object] | None = None
    bound: Sequence[Object] | None = None
    unread: Sequence[str] = ()


def name_of(each: Object) -> str:
    """Name of an object."""
    return str(each["metadata"]["name"])


def label_of(each: Object, key: str) -> str | None:
    """A label of an object, None where it has none of that key."""
    value = (each["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)


#: Waiting reasons that only say that a container has not started yet.
_STARTING = ("ContainerCreating", "PodInitializing")
_MOST_EVENTS = 2
_MOST_CHARACTERS = 300


def trouble(pod: Object, events: Sequence[Object]) -> str | None:
    """Tells what is wrong with a pod.

    Args:
        pod: The pod.
        events: Events of its namespace.

    Returns:
        One line, without the pod's name; None where nothing is wrong.
    """
    status = pod.get("status") or {}
    if _condition(status, "Ready").get("status") == "True":
        return None
    told = list(_reasons(pod, status))
    if (pod.get("spec") or {}).get("nodeName"):
        # What schedulers said before is no news, and what they say now is in the conditions.
        events = [each for each in events if each.get("reason") != "FailedScheduling"]
        told += [text for text in recent(events, "Pod", name_of(pod)) if text not in told]
    return "; ".join(told) if told else f"phase {status.get('phase') or 'unknown'}, not ready"


def is_told(pod: Object) -> bool:
    """Whether a pod shows why it does not serve; one that was just made anew does not."""
    status = pod.get("status") or {}
    return (
        status.get("phase") == "Failed"
        or _condition(status, "Ready").get("status") == "True"
        or _condition(status, "PodScheduled").get("status") == "False"
        or any(text for each in _containers(status) for text in _container(each))
    )


def failing(pod: Object) -> str | None:
    """Tells what keeps a pod from ever serving as it is.

    Args:
        pod: The pod.

    Returns:
        One line, without the pod's name; None for one that serves, waits for a node, starts or
        runs: it may still come.
    """
    status = pod.get("status") or {}
    if _condition(status, "Ready").get("status") == "True":
        return None
    told = []
    if status.get("phase") == "Failed":
        told.append(_said(status.get("reason") or "Failed", status.get("message")))
    for each in _containers(status):
        if (each.get("state") or {}).get("running") is None:
            told += _container(each)
    return "; ".join(told) or None


def recent(events: Sequence[Object], kind: str, name: str) -> list[str]:
    """What was said last about an object, the latest first."""
    own = [
        each
        for each in events
        if (each.get("involvedObject") or {}).get("kind") == kind
        and (each.get("involvedObject") or {}).get("name") == name
    ]
    own.sort(key=_when, reverse=True)
    told = dict.fromkeys(_said(each.get("reason"), each.get("message")) for each in own)
    return list(told)[:_MOST_EVENTS]


def _reasons(pod: Object, status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("phase") == "Failed":
        yield _said(status.get("reason") or "Failed", status.get("message"))
    scheduled = _condition(status, "PodScheduled")
    if not (pod.get("spec") or {}).get("nodeName"):
        if scheduled.get("status") == "False":
            yield "not scheduled, " + _said(scheduled.get("reason"), scheduled.get("message"))
        else:
            yield "not scheduled"
        return
    for each in _containers(status):
        yield from _container(each)
    if pod["metadata"].get("deletionTimestamp"):
        yield "being deleted"


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _container(each: Mapping[str, Any]) -> Iterator[str]:
    name = f"container {each['name']}"
    state = each.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    before = (each.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") and waiting["reason"] not in _STARTING:
        yield f"{name}: {_said(waiting['reason'], waiting.get('message'))}"
    if ended and ended.get("exitCode"):
        yield f"{name}: {_exit(ended)}"
    elif before:
        times = each.get("restartCount") or 0
        yield f"{name}: {_exit(before)}, restarted {times} time{'' if times == 1 else 's'}"
    elif state.get("running") is not None and not each.get("ready"):
        yield f"{name}: runs and is not ready"


def _exit(ended: Mapping[str, Any]) -> str:
    reason = ended.get("reason")
    told = f"exit code {ended.get('exitCode')}" + (f" ({reason})" if reason else "")
    message = _short(ended.get("message"))
    return f"{told}: {message}" if message else told


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((each for each in status.get("conditions") or () if each["type"] == kind), {})


def _said(reason: Any, message: Any) -> str:
    return ": ".join(filter(None, (str(reason or ""), _short(message))))


def _short(message: Any) -> str:
    text = " ".join(str(message or "").split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _when(event: Object) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp") or ""))


def missing(waiting: Sequence[Object], nodes: Sequence[Object], bound: Iterable[Object]) -> str:
    """Says how many accelerators are missing for pods to be placed.

    A bound: which node a pod may have is known to the scheduler alone; labels, affinities, quotas
    and taints that people set are not looked at, and nodes that are cordoned or not ready count as
    full.

    Args:
        waiting: Pods without a node.
        nodes: All nodes.
        bound: Pods that hold a node.

    Returns:
        A sentence for each kind of accelerator that is short; empty where none is.
    """
    held: dict[str, Counter[str]] = {}
    for pod in bound:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            on = held.setdefault(str(pod["spec"].get("nodeName")), Counter())
            on.update(_asked(pod))
    wanted: dict[str, Counter[int]] = {}
    for pod in waiting:
        for kind, count in _asked(pod).items():
            wanted.setdefault(kind, Counter())[count] += 1
    told = (
        _short_of(kind, sizes, _free(kind, nodes, held)) for kind, sizes in sorted(wanted.items())
    )
    return "; ".join(filter(None, told))


def _short_of(kind: str, sizes: Counter[int], free: list[int]) -> str:
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


def _free(kind: str, nodes: Sequence[Object], held: dict[str, Counter[str]]) -> list[int]:
    free = []
    for node in nodes:
        allocatable = ((node.get("status") or {}).get("allocatable") or {}).get(kind)
        if allocatable is None or not takes_pods(node):
            continue
        used = held.get(name_of(node), Counter())[kind]
        free.append(max(0, int(quantity.parse(allocatable)) - used))
    return free


def _asked(pod: Object) -> Counter[str]:
    asked = pod_requests({"spec": pod["spec"]})
    return Counter(
        {
            kind: int(count)
            for kind, count in asked.items()
            if is_accelerator(kind) and count >= Decimal(1)
        }
    )
