"""The one ledger of what is taken in each pool, and what still fits.

Whether pods fit is asked of the capacity model alone (`plan/capacity.py`), which the end-to-end
tests hold to the real scheduler. Where it answers with a bound only (pods of several sizes, whose
fate depends on the node that each of them gets), a packing is looked for as well.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.api.inventory import NodePoolArgs
from fusioninfer_pulumi.placement.needs import Shape
from fusioninfer_pulumi.placement.packing import packs
from fusioninfer_pulumi.topology.capacity import GangForm, NodePool, RoleDemand, capacity

#: What one pool holds: replicas by their shape.
Load = tuple[tuple[Shape, int], ...]
#: What every pool holds, in the order of the inventory.
Ledger = tuple[Load, ...]


class Fit(enum.IntEnum):
    """Whether pods find nodes."""

    CERTAIN = 0  #: wherever the scheduler puts each of them
    POSSIBLE = 1  #: if it packs them well: pods of several sizes
    NO = 2


@dataclass
class Pools:
    """The pools of an inventory, and answers that were found before.

    Attributes:
        args: The pools.
    """

    args: Sequence[NodePoolArgs]
    _fits: dict[tuple[int, Load, int], Fit] = field(default_factory=dict)
    _whole: dict[tuple[int, Load], int] = field(default_factory=dict)

    @property
    def empty(self) -> Ledger:
        """The ledger before anything is placed."""
        return ((),) * len(self.args)

    def fit(self, pool: int, load: Load, more: int = 0) -> Fit:
        """Tells whether all replicas of a load find nodes in a pool.

        Args:
            pool: Index of the pool.
            load: Everything that is to run there.
            more: Nodes that the pool has beside its own, none of them in use; below 0, so many
                of its free nodes are left out.
        """
        key = (pool, load, more)
        if key not in self._fits:
            self._fits[key] = _fit(nodes(self.args[pool], more), load)
        return self._fits[key]

    def free(self, pool: int) -> int:
        """Accelerators of a pool that nobody holds."""
        return sum(each.nodes * each.accelerators for each in nodes(self.args[pool]))

    def whole_nodes(self, pool: int, load: Load) -> int:
        """Nodes that nobody needs to touch when a load is packed as tightly as it can be.

        Args:
            pool: Index of the pool.
            load: Everything that is to run there; it fits.
        """
        key = (pool, load)
        if key not in self._whole:
            args = self.args[pool]
            untouched = args.nodes - len(args.in_use)
            self._whole[key] = _most(
                untouched, lambda count: self.fit(pool, load, -count) is not Fit.NO
            )
        return self._whole[key]

    def missing_nodes(self, pool: int, load: Load) -> int:
        """Nodes that a pool lacks for a load whose every pod fits an empty node."""
        pods = sum(len(shape) * count for shape, count in load)
        return pods - _most(pods, lambda spared: self.fit(pool, load, pods - spared) is not Fit.NO)


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


def nodes(pool: NodePoolArgs, more: int = 0) -> list[NodePool]:
    """The free accelerators of a pool, node by node.

    Args:
        pool: The pool.
        more: Empty nodes beside (or, below 0, less than) its own.
    """
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
    rooms = [(each.accelerators, each.nodes) for each in free]
    return Fit.POSSIBLE if packs(pods, rooms) else Fit.NO


def _most(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest count up to a limit for which something holds that holds for less, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
