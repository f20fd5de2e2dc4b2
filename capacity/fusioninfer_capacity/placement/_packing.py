"""Computes whether the pods of replicas fit the nodes of a pool.

The capacity model (`topology/capacity_model.py`), which the end-to-end tests compare with the real
scheduler, answers first. Where it gives only a bound (pods of several sizes, which fit or not
depending on the node that each gets), best fit decides: largest pods first, each on the fullest
node with enough capacity.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.plugins.capacity import (
    GangForm,
    NodePool,
    NodePoolArgs,
    RoleDemand,
    capacity,
)

#: Accelerators of each pod of a replica, the largest first; pods that ask for none left out.
Shape = tuple[int, ...]
#: Replicas in one pool, by their shape.
Load = tuple[tuple[Shape, int], ...]
#: Replicas in every pool, in the order of the inventory.
Usage = tuple[Load, ...]


class Fit(enum.IntEnum):
    """Whether pods find nodes."""

    CERTAIN = 0  #: wherever the scheduler puts each of them
    POSSIBLE = 1  #: if it packs them well: pods of several sizes
    NO = 2


@dataclass
class Pools:
    """The pools of an inventory, and what was found out about loads before."""

    args: Sequence[NodePoolArgs]
    _fits: dict[tuple[int, Load, int], Fit] = field(default_factory=dict)
    _whole: dict[tuple[int, Load], int] = field(default_factory=dict)

    @property
    def unused(self) -> Usage:
        """The usage before anything is placed."""
        return ((),) * len(self.args)

    def fit(self, pool: int, load: Load, more: int = 0) -> Fit:
        """Return whether all replicas of a load find nodes in a pool with `more` empty nodes."""
        key = (pool, load, more)
        if key not in self._fits:
            self._fits[key] = _fit(_nodes(self.args[pool], more), load)
        return self._fits[key]

    def free(self, pool: int) -> int:
        """Return accelerators of a pool that are not in use by others."""
        return sum(
            node_pool.nodes * node_pool.accelerators for node_pool in _nodes(self.args[pool])
        )

    def whole_nodes(self, pool: int, load: Load) -> int:
        """Return nodes that stay empty when a load that fits is packed as tightly as it can be."""
        key = (pool, load)
        if key not in self._whole:
            args = self.args[pool]
            untouched = args.nodes - len(args.in_use)
            self._whole[key] = _largest(
                untouched, lambda count: self.fit(pool, load, -count) is not Fit.NO
            )
        return self._whole[key]

    def stranded(self, pool: int, load: Load) -> int:
        """Return free accelerators on nodes that are not empty, with the load packed tightly."""
        left = self.free(pool) - accelerators(load)
        return left - self.whole_nodes(pool, load) * self.args[pool].accelerators

    def missing_nodes(self, pool: int, load: Load) -> int:
        """Return nodes that a pool lacks for a load whose every pod fits an empty node."""
        pods = sum(len(shape) * count for shape, count in load)
        return pods - _largest(
            pods, lambda spared: self.fit(pool, load, pods - spared) is not Fit.NO
        )


def with_more(load: Load, shape: Shape, replicas: int) -> Load:
    """Return a load and some more replicas."""
    if not shape or not replicas:
        return load
    more = dict(load)
    more[shape] = more.get(shape, 0) + replicas
    return tuple(sorted(more.items()))


def accelerators(load: Load) -> int:
    """Return accelerators that a load holds."""
    return sum(sum(shape) * count for shape, count in load)


def _nodes(pool: NodePoolArgs, more: int = 0) -> list[NodePool]:
    """Return the free accelerators of a pool and of so many empty nodes more, node by node."""
    untouched = NodePool(pool.nodes - len(pool.in_use) + more, pool.accelerators)
    partly = [NodePool(1, pool.accelerators - used) for used in pool.in_use]
    return [
        node_pool
        for node_pool in (untouched, *partly)
        if node_pool.nodes > 0 and node_pool.accelerators > 0
    ]


def _fit(free: list[NodePool], load: Load) -> Fit:
    # All replicas have to fit, whatever their gangs: they are checked as one gang.
    demands = [
        RoleDemand(str(index), count, shape, count) for index, (shape, count) in enumerate(load)
    ]
    outcome = capacity(demands, GangForm.LITERAL, free)
    if outcome.status != "Full":
        return Fit.NO
    if outcome.exact:
        return Fit.CERTAIN
    pods = [(size, count) for shape, count in load for size in shape]
    nodes = [(node_pool.accelerators, node_pool.nodes) for node_pool in free]
    return Fit.POSSIBLE if packs(pods, nodes) else Fit.NO


def _largest(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest count up to a limit for which something holds that holds for less, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def packs(pods: Iterable[tuple[int, int]], nodes: Iterable[tuple[int, int]]) -> bool:
    """Return whether best fit finds nodes for pods: size and count, free accelerators and count.

    Where each size divides the next larger one, as 1, 2, 4 and 8 do, it finds every packing there
    is: the larger pods leave the same room for smaller ones wherever they are.
    """
    free: Counter[int] = Counter()
    for room, count in nodes:
        free[room] += count
    for size, count in sorted(pods, reverse=True):
        for _ in range(count if size > 0 else 0):
            room = min((room for room, left in free.items() if left and room >= size), default=0)
            if not room:
                return False
            free[room] -= 1
            free[room - size] += 1
    return True
