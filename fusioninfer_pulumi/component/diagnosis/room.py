"""Counts the accelerators that pods without a node wait for, against what nodes have free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from fusioninfer_pulumi import quantity
from fusioninfer_pulumi.component.diagnosis.seen import Object, name_of
from fusioninfer_pulumi.plan.nodes import takes_pods
from fusioninfer_pulumi.plan.resources import is_accelerator, pod_requests


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
