"""Whether the pods of replicas find nodes in a pool.

The capacity model (`plan/capacity.py`), which the end-to-end tests hold to the real scheduler,
answers first. Where it gives a bound only (pods of several sizes, which fit or not depending on the
node that each of them gets), a packing is searched for.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.api.inventory import NodePoolArgs
from fusioninfer_pulumi.topology.capacity import GangForm, NodePool, RoleDemand, capacity

#: Accelerators of each pod of a replica, the largest first; pods that ask for none left out.
Shape = tuple[int, ...]
#: What one pool holds: replicas by their shape.
Load = tuple[tuple[Shape, int], ...]
#: What every pool holds, in the order of the inventory.
Usage = tuple[Load, ...]
#: Ways to fill nodes that are tried before the answer is no. The sizes that occur in practice
#: (1, 2, 4, 8) divide each other, and need none of it.
MAX_TRIES = 20_000
#: Nodes beyond which only best fit is tried for such sizes.
MAX_NODES = 200


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
        """Whether all replicas of a load find nodes in a pool with `more` empty nodes."""
        key = (pool, load, more)
        if key not in self._fits:
            self._fits[key] = _fit(_nodes(self.args[pool], more), load)
        return self._fits[key]

    def free(self, pool: int) -> int:
        """Accelerators of a pool that are not in use by others."""
        return sum(each.nodes * each.accelerators for each in _nodes(self.args[pool]))

    def whole_nodes(self, pool: int, load: Load) -> int:
        """Nodes that stay empty when a load that fits is packed as tightly as it can be."""
        key = (pool, load)
        if key not in self._whole:
            args = self.args[pool]
            untouched = args.nodes - len(args.in_use)
            self._whole[key] = _largest(
                untouched, lambda count: self.fit(pool, load, -count) is not Fit.NO
            )
        return self._whole[key]

    def stranded(self, pool: int, load: Load) -> int:
        """Free accelerators on nodes that are not empty, when a load is packed like that."""
        left = self.free(pool) - accelerators(load)
        return left - self.whole_nodes(pool, load) * self.args[pool].accelerators

    def missing_nodes(self, pool: int, load: Load) -> int:
        """Nodes that a pool lacks for a load whose every pod fits an empty node."""
        pods = sum(len(shape) * count for shape, count in load)
        return pods - _largest(
            pods, lambda spared: self.fit(pool, load, pods - spared) is not Fit.NO
        )


def with_more(load: Load, shape: Shape, replicas: int) -> Load:
    """A load and some more replicas."""
    if not shape or not replicas:
        return load
    held = dict(load)
    held[shape] = held.get(shape, 0) + replicas
    return tuple(sorted(held.items()))


def accelerators(load: Load) -> int:
    """Accelerators that a load holds."""
    return sum(sum(shape) * count for shape, count in load)


def _nodes(pool: NodePoolArgs, more: int = 0) -> list[NodePool]:
    """The free accelerators of a pool and of so many empty nodes more, node by node."""
    untouched = NodePool(pool.nodes - len(pool.in_use) + more, pool.accelerators)
    partly = [NodePool(1, pool.accelerators - held) for held in pool.in_use]
    return [each for each in (untouched, *partly) if each.nodes > 0 and each.accelerators > 0]


def _fit(free: list[NodePool], load: Load) -> Fit:
    # Every replica has to fit, whichever gang it belongs to: one gang of them all says that.
    demands = [
        RoleDemand(str(index), count, shape, count) for index, (shape, count) in enumerate(load)
    ]
    found = capacity(demands, GangForm.LITERAL, free)
    if found.status != "Full":
        return Fit.NO
    if found.exact:
        return Fit.CERTAIN
    pods = [(size, count) for shape, count in load for size in shape]
    nodes = [(each.accelerators, each.nodes) for each in free]
    return Fit.POSSIBLE if packs(pods, nodes) else Fit.NO


def _largest(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest count up to a limit for which something holds that holds for less, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def packs(pods: Iterable[tuple[int, int]], nodes: Iterable[tuple[int, int]]) -> bool:
    """Whether pods, as size and count, fit on nodes, as free accelerators and count.

    True only if there is a packing. False if there is none; also, where sizes do not divide each
    other, if none was found within `MAX_TRIES` tries, or by best fit on many nodes.
    """
    counts: Counter[int] = Counter()
    for size, count in pods:
        if size > 0 and count > 0:
            counts[size] += count
    sizes = sorted(counts, reverse=True)
    free: Counter[int] = Counter()
    for room, count in nodes:
        if room > 0 and count > 0:
            free[room] += count
    if _best_fit(sizes, counts, free.copy()):
        return True
    # Where each size divides the next larger one, the larger pods leave the same room for smaller
    # ones wherever they are: best fit finds every packing there is.
    if all(large % small == 0 for large, small in itertools.pairwise(sizes)):
        return False
    if free.total() > MAX_NODES:
        return False
    largest_first = sorted(free.elements(), reverse=True)
    return _Filling(sizes, largest_first).holds(0, tuple(counts[size] for size in sizes))


def _best_fit(sizes: list[int], counts: Counter[int], free: Counter[int]) -> bool:
    """Places the largest pods first, each on the fullest node that has room for it."""
    for size in sizes:
        for _ in range(counts[size]):
            room = min((room for room, count in free.items() if count and room >= size), default=0)
            if not room:
                return False
            free[room] -= 1
            free[room - size] += 1
    return True


class _Filling:
    """Fills node after node in every way that leaves no room for another pod."""

    def __init__(self, sizes: list[int], nodes: list[int]) -> None:
        self.sizes = sizes
        self.nodes = nodes
        self.failed: set[tuple[int, tuple[int, ...]]] = set()
        self.tries = 0

    def holds(self, node: int, left: tuple[int, ...]) -> bool:
        if not any(left):
            return True
        wanted = sum(size * count for size, count in zip(self.sizes, left, strict=True))
        if wanted > sum(self.nodes[node:]) or (node, left) in self.failed:
            return False
        for taken in self._ways(self.nodes[node], left, 0):
            self.tries += 1
            if self.tries > MAX_TRIES:
                return False
            rest = tuple(count - some for count, some in zip(left, taken, strict=True))
            if self.holds(node + 1, rest):
                return True
        self.failed.add((node, left))
        return False

    def _ways(self, room: int, left: tuple[int, ...], at: int) -> Iterator[tuple[int, ...]]:
        """Pods of each size for one node, such that none of those left would fit as well."""
        if at == len(self.sizes):
            if not any(
                count and size <= room for size, count in zip(self.sizes, left, strict=True)
            ):
                yield ()
            return
        size, count = self.sizes[at], left[at]
        for some in range(min(count, room // size), -1, -1):
            rest = (*left[:at], count - some, *left[at + 1 :])
            for others in self._ways(room - some * size, rest, at + 1):
                yield (some, *others)
