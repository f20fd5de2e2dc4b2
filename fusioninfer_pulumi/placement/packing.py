"""Whether pods of several sizes can be packed onto nodes at all."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

#: Ways to fill nodes that are tried before the answer is no. The sizes that occur in practice
#: (1, 2, 4, 8) divide each other, and need none of it.
MAX_TRIES = 20_000
#: Nodes beyond which only best fit is tried for such sizes.
MAX_NODES = 200


def packs(pods: Iterable[tuple[int, int]], rooms: Iterable[tuple[int, int]]) -> bool:
    """Tells whether there is a place for each pod.

    Args:
        pods: Size and how many, in accelerators.
        rooms: Free accelerators of nodes and how many of them.

    Returns:
        True only if there is a packing. False if there is none; also, where sizes do not divide
        each other, if none was found within `MAX_TRIES` tries, or by best fit on `MAX_NODES`.
    """
    counts: Counter[int] = Counter()
    for size, count in pods:
        if size > 0 and count > 0:
            counts[size] += count
    sizes = sorted(counts, reverse=True)
    free: Counter[int] = Counter()
    for room, count in rooms:
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
    nodes = sorted(free.elements(), reverse=True)
    return _Filling(sizes, nodes).holds(0, tuple(counts[size] for size in sizes))


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
        self.vain: set[tuple[int, tuple[int, ...]]] = set()
        self.tries = 0

    def holds(self, node: int, left: tuple[int, ...]) -> bool:
        if not any(left):
            return True
        wanted = sum(size * count for size, count in zip(self.sizes, left, strict=True))
        if wanted > sum(self.nodes[node:]) or (node, left) in self.vain:
            return False
        for taken in self._ways(self.nodes[node], left, 0):
            self.tries += 1
            if self.tries > MAX_TRIES:
                return False
            rest = tuple(count - some for count, some in zip(left, taken, strict=True))
            if self.holds(node + 1, rest):
                return True
        self.vain.add((node, left))
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
