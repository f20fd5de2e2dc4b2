"""Computes whether the pods of replicas fit the nodes of a pool.

The core's capacity model (`topology/capacity_model.py`) decides where it is exact; end-to-end tests
compare it with the real scheduler. It is not exact for pods of several sizes, whose fit depends on
the node of each pod. For these, best fit decides: largest pods first, each on the fullest node with
enough free accelerators.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.plugins.capacity import (
    GangScope,
    NodePool,
    NodePoolArgs,
    RoleDemand,
    compute_gang_capacity,
)

#: Accelerators of each pod of a replica, the largest first, without pods that request none.
Shape = tuple[int, ...]
#: Replicas in one pool: pairs of a shape and the number of replicas with it.
PoolLoad = tuple[tuple[Shape, int], ...]
#: Replicas in every pool, in the order of the inventory.
Usage = tuple[PoolLoad, ...]


class PoolFit(enum.IntEnum):
    """Whether pods fit the nodes of a pool."""

    CERTAIN = 0  #: they fit, whichever nodes the scheduler chooses
    POSSIBLE = 1  #: pods of several sizes fit if the scheduler packs them tightly
    NO = 2


@dataclass
class Pools:
    """The pools of an inventory, with a cache of the results below by pool and load."""

    args: Sequence[NodePoolArgs]
    _fits: dict[tuple[int, PoolLoad, int], PoolFit] = field(default_factory=dict)
    _whole: dict[tuple[int, PoolLoad], int] = field(default_factory=dict)

    @property
    def unused(self) -> Usage:
        """The usage without any service."""
        return ((),) * len(self.args)

    def fit(self, pool: int, load: PoolLoad, extra_nodes: int = 0) -> PoolFit:
        """Return whether a load fits a pool with `extra_nodes` more empty nodes."""
        key = (pool, load, extra_nodes)
        if key not in self._fits:
            self._fits[key] = _fit(_list_nodes(self.args[pool], extra_nodes), load)
        return self._fits[key]

    def count_free(self, pool: int) -> int:
        """Return the accelerators of a pool that are not in use."""
        return sum(
            node_pool.nodes * node_pool.accelerators for node_pool in _list_nodes(self.args[pool])
        )

    def count_whole_nodes(self, pool: int, load: PoolLoad) -> int:
        """Return the nodes that stay empty if a load that fits is packed as tightly as possible."""
        key = (pool, load)
        if key not in self._whole:
            args = self.args[pool]
            empty_nodes = args.nodes - len(args.in_use)
            self._whole[key] = _find_largest(
                empty_nodes, lambda count: self.fit(pool, load, -count) is not PoolFit.NO
            )
        return self._whole[key]

    def count_stranded(self, pool: int, load: PoolLoad) -> int:
        """Return free accelerators on nodes that are not empty, with the load packed tightly."""
        free = self.count_free(pool) - count_accelerators(load)
        return free - self.count_whole_nodes(pool, load) * self.args[pool].accelerators

    def count_missing_nodes(self, pool: int, load: PoolLoad) -> int:
        """Return the nodes that a pool lacks for a load; each pod must fit an empty node."""
        pods = sum(len(shape) * count for shape, count in load)
        return pods - _find_largest(
            pods, lambda spared: self.fit(pool, load, pods - spared) is not PoolFit.NO
        )


def add_replicas(load: PoolLoad, shape: Shape, replicas: int) -> PoolLoad:
    """Return a load with more replicas."""
    if not shape or not replicas:
        return load
    replicas_by_shape = dict(load)
    replicas_by_shape[shape] = replicas_by_shape.get(shape, 0) + replicas
    return tuple(sorted(replicas_by_shape.items()))


def count_accelerators(load: PoolLoad) -> int:
    """Return the accelerators of a load."""
    return sum(sum(shape) * count for shape, count in load)


def _list_nodes(pool: NodePoolArgs, extra_nodes: int = 0) -> list[NodePool]:
    """Return the nodes of a pool with free accelerators, and `extra_nodes` more empty ones."""
    empty = NodePool(pool.nodes - len(pool.in_use) + extra_nodes, pool.accelerators)
    partly_used = [NodePool(1, pool.accelerators - used) for used in pool.in_use]
    return [
        node_pool
        for node_pool in (empty, *partly_used)
        if node_pool.nodes > 0 and node_pool.accelerators > 0
    ]


def _fit(free: list[NodePool], load: PoolLoad) -> PoolFit:
    # All replicas must fit, so they are checked as one gang.
    demands = [
        RoleDemand(str(index), count, shape, count) for index, (shape, count) in enumerate(load)
    ]
    outcome = compute_gang_capacity(demands, GangScope.ALL_PODS, free)
    if outcome.status != "Full":
        return PoolFit.NO
    if outcome.exact:
        return PoolFit.CERTAIN
    pods = [(size, count) for shape, count in load for size in shape]
    nodes = [(node_pool.accelerators, node_pool.nodes) for node_pool in free]
    return PoolFit.POSSIBLE if can_pack(pods, nodes) else PoolFit.NO


def _find_largest(limit: int, is_met: Callable[[int], bool]) -> int:
    """Return the largest count up to a limit that meets a condition; all smaller ones must, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if is_met(middle):
            low = middle
        else:
            high = middle - 1
    return low


def can_pack(pods: Iterable[tuple[int, int]], nodes: Iterable[tuple[int, int]]) -> bool:
    """Return whether best fit finds nodes for all pods.

    `pods` has pairs of size and count, `nodes` pairs of free accelerators and count. If each size
    divides the next larger one, as with 1, 2, 4 and 8, best fit finds a packing if one exists.
    """
    free: Counter[int] = Counter()
    for gap, count in nodes:
        free[gap] += count
    for size, count in sorted(pods, reverse=True):
        for _ in range(count if size > 0 else 0):
            gap = min((gap for gap, number in free.items() if number and gap >= size), default=0)
            if not gap:
                return False
            free[gap] -= 1
            free[gap - size] += 1
    return True
