"""Puts together why a replica, or a whole gang, did not come up; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.component.diagnosis import pods as pods_module
from fusioninfer_pulumi.component.diagnosis.pods import (
    Object,
    Seen,
    failing,
    label_of,
    missing,
    name_of,
    recent,
    trouble,
)
from fusioninfer_pulumi.kube import labels

#: What makes the pods of a LeaderWorkerSet, and says so when it may not.
_MAKERS = ("LeaderWorkerSet", "StatefulSet")


def explain_set(name: str, seen: Seen) -> list[str]:
    """Tells why a LeaderWorkerSet is not available.

    Args:
        name: Its name.
        seen: What was read.

    Returns:
        One line for each reason, with the pods that share it; empty where nothing is wrong.
    """
    pods = _pods_of(name, seen)
    lines = _by_reason(pods, lambda pod: trouble(pod, seen.events))
    made = list(_makers(name, seen.events))
    if not pods:
        return made or [f"{name} has no pods"]
    return lines + made


def failing_sets(revisions: Mapping[str, str | None], seen: Seen) -> dict[str, str]:
    """Tells which LeaderWorkerSets have pods that fail: not those that only are not ready yet.

    Args:
        revisions: Their revision labels by name.
        seen: What was read.

    Returns:
        Why, by the names of those that fail.
    """
    found = {}
    for name, revision in revisions.items():
        # LeaderWorkerSet deletes pods that have crashed, and an update deletes those of before.
        pods = [
            pod
            for pod in _pods_of(name, seen)
            if not pod["metadata"].get("deletionTimestamp")
            or (revision is not None and label_of(pod, labels.REVISION) == revision)
        ]
        why = _by_reason(pods, failing)
        if why:
            found[name] = "; ".join(why)
    return found


def is_told(name: str, seen: Seen) -> bool:
    """Whether the pods of a set, or who makes them, show why it is not available.

    LeaderWorkerSet deletes the pods of a group as soon as one of their containers has restarted;
    what ended it is then to be seen for a moment only.
    """
    pods = _pods_of(name, seen)
    if not pods:
        # That a group is made anew is no warning, and says nothing of why.
        return any(_makers(name, [each for each in seen.events if each.get("type") == "Warning"]))
    return all(pods_module.is_told(pod) for pod in pods)


def explain_gang(seen: Seen) -> list[str]:
    """Tells why pods of a service have no node.

    Args:
        seen: What was read.

    Returns:
        The scheduler's words about the gang, and the accelerators that are missing; empty where
        all pods have a node.
    """
    waiting = [pod for pod in seen.pods if not (pod.get("spec") or {}).get("nodeName")]
    if not waiting:
        return []
    lines = []
    for group in seen.pod_groups:
        told = _latest_refusal(group)
        if told:
            lines.append(f"PodGroup {name_of(group)}: {told}")
    if seen.nodes is not None and seen.bound is not None:
        short = missing(waiting, seen.nodes, seen.bound)
        if short:
            lines.append(short)
    return lines


def _pods_of(name: str, seen: Seen) -> list[Object]:
    return [pod for pod in seen.pods if label_of(pod, labels.LWS_NAME) == name]


def _by_reason(pods: Sequence[Object], why: Callable[[Object], str | None]) -> list[str]:
    """One line for each reason, with the pods that share it."""
    reasons: dict[str, list[str]] = {}
    for pod in sorted(pods, key=name_of):
        found = why(pod)
        if found is not None:
            reasons.setdefault(found, []).append(name_of(pod))
    return [f"{_pods(names)}: {reason}" for reason, names in reasons.items()]


def _latest_refusal(group: Mapping[str, Any]) -> str:
    """The scheduler's last word, empty once the gang has been placed."""
    status = group.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase == "Running":
        # Volcano never takes Unschedulable back; a running gang may lack single pods all the same.
        return ""
    refused = [
        each
        for each in status.get("conditions") or ()
        if each.get("type") == "Unschedulable" and each.get("status") == "True"
    ]
    refused.sort(key=lambda each: str(each.get("lastTransitionTime")))
    message = " ".join(str(refused[-1].get("message") or "").split()) if refused else ""
    return f"phase {phase}" + (f", {message}" if message else "")


def _makers(name: str, events: Sequence[Object]) -> Iterator[str]:
    for kind in _MAKERS:
        # Workers have a StatefulSet of their own, with the number of their group.
        for own in sorted({found for found in _subjects(kind, events) if _is_of(name, found)}):
            for text in recent(events, kind, own):
                yield f"{kind} {own}: {text}"


def _subjects(kind: str, events: Sequence[Object]) -> Iterator[str]:
    for each in events:
        about = each.get("involvedObject") or {}
        if about.get("kind") == kind:
            yield str(about.get("name"))


def _is_of(name: str, found: str) -> bool:
    return found == name or (found.startswith(f"{name}-") and found[len(name) + 1 :].isdecimal())


def _pods(names: list[str]) -> str:
    if len(names) == 1:
        return f"pod {names[0]}"
    return f"pod {names[0]} and {len(names) - 1} more"
