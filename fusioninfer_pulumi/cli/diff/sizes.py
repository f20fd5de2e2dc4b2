"""Pods and accelerators of LeaderWorkerSets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.cli.diff.identity import Manifest
from fusioninfer_pulumi.cli.diff.plain import at, count_at
from fusioninfer_pulumi.kube.resources import accelerators

AcceleratorsOf = Callable[[Mapping[str, Any]], int]


@dataclass(frozen=True)
class Size:
    """Pods and accelerators."""

    pods: int = 0
    accelerators: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.pods + other.pods, self.accelerators + other.accelerators)


def accelerators_of(template: Mapping[str, Any]) -> int:
    """Counts what one pod of a template asks for, 0 where the template is ill-formed.

    A diff reads manifests of any origin, which nobody validated: what cannot be read asks for
    nothing that we know of.
    """
    try:
        return accelerators(template)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0


def total(sets: Iterable[Manifest], count: AcceleratorsOf) -> Size:
    """Sums what LeaderWorkerSets run.

    Args:
        sets: The LeaderWorkerSets.
        count: Counts the accelerators of one pod.

    Returns:
        Their pods, replicas times size, and the accelerators of these pods.
    """
    return sum((_size(each, count) for each in sets), Size())


def _size(manifest: Manifest, count: AcceleratorsOf) -> Size:
    template = at(manifest, "spec", "leaderWorkerTemplate")
    replicas, size = count_at(manifest, "spec", "replicas"), max(count_at(template, "size"), 1)
    worker = at(template, "workerTemplate")
    leader = at(template, "leaderTemplate") or worker
    devices = [count(each) if isinstance(each, Mapping) else 0 for each in (leader, worker)]
    return Size(replicas * size, replicas * (devices[0] + (size - 1) * devices[1]))
