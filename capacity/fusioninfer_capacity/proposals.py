"""Layouts with the replicas that a load needs, and the node pools where they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fusioninfer_capacity.fit.estimate import Estimates, NotCoveredError
from fusioninfer_capacity.fit.load import Load, Served, decoded, prefilled, served
from fusioninfer_capacity.fit.roles import named_accelerator, pool_accelerator
from fusioninfer_capacity.fit.sizing import Layout, Wish, sensible
from fusioninfer_pulumi.plugins.capacity import InventoryArgs, NodePoolArgs


@dataclass(frozen=True)
class Place:
    """Where replicas of a layout may run.

    Attributes:
        pool: The pool; None without an inventory.
        replicas: Replicas that fit the pool; None without an inventory.
    """

    pool: NodePoolArgs | None
    replicas: int | None


@dataclass(frozen=True)
class Proposal:
    """A layout with replicas.

    Attributes:
        layout: The layout of each replica.
        place: Where they run.
        replicas: Replicas that decode, or that prefill and decode.
        prefillers: Replicas that only prefill.
        served: What one replica serves, None without load figures.
        prefilled: What one prefiller serves.
        source: What the times rest on.
    """

    layout: Layout
    place: Place
    replicas: int
    prefillers: int = 0
    served: Served | None = None
    prefilled: Served | None = None
    source: str | None = None

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas."""
        return (self.replicas + self.prefillers) * self.layout.accelerators


def proposals(
    wish: Wish, candidates: Sequence[Layout], inventory: InventoryArgs | None, load: Load | None
) -> Iterator[Proposal]:
    """Yield layouts that fit, with replicas for the load; the fewest accelerators first."""
    fitting = [layout for layout in candidates if layout.reason is None]
    if load is None:
        for layout in sensible(fitting):
            place = _place(wish, layout, inventory, 1)
            if place is not None:
                yield Proposal(layout, place, 1)
        return
    loaded: list[Proposal] = []
    problems: list[str] = []
    # Times are those of a cache in the type of the model, and of one copy.
    for layout in fitting:
        if layout.small_cache or layout.copies > 1:
            continue
        try:
            loaded += _loaded(wish, layout, inventory, load)
        except NotCoveredError as problem:
            problems.append(str(problem))
    if not loaded and problems:
        raise NotCoveredError(problems[0])
    yield from sorted(loaded, key=lambda proposal: (proposal.accelerators, proposal.prefillers))


def _loaded(
    wish: Wish, layout: Layout, inventory: InventoryArgs | None, load: Load
) -> Iterator[Proposal]:
    assert layout.fit is not None, "it fits"
    if layout.fit.tokens is None:
        return
    times = Estimates(wish.name, wish.accelerator.name, wish.engine, layout.tensor, layout.nodes)
    most = layout.fit.most_requests(load.input + load.output)
    alone = served(times, load, most)
    if alone is not None:
        count = alone.replicas(load.rate)
        place = _place(wish, layout, inventory, count)
        if place is not None:
            yield Proposal(layout, place, count, served=alone, source=times.source)
    first, then = prefilled(times, load), decoded(times, load, most)
    if first is not None and then is not None:
        prefillers, decoders = first.replicas(load.rate), then.replicas(load.rate)
        place = _place(wish, layout, inventory, prefillers + decoders)
        if place is not None:
            yield Proposal(layout, place, decoders, prefillers, then, first, times.source)


def _place(
    wish: Wish, layout: Layout, inventory: InventoryArgs | None, replicas: int
) -> Place | None:
    """Return the cheapest pool with room for so many replicas; None where none has."""
    if inventory is None:
        return Place(None, None)
    for pool in pools_of(inventory, wish.accelerator.name):
        free = room(pool, layout)
        if free >= replicas:
            return Place(pool, free)
    return None


def room(pool: NodePoolArgs, layout: Layout) -> int:
    """Return replicas for which a pool has room: each pod takes accelerators of one node."""
    in_use = [*pool.in_use, *[0] * (pool.nodes - len(pool.in_use))]
    pods = sum((pool.accelerators - used) // layout.of_pod for used in in_use)
    return pods // layout.nodes


def pools_of(inventory: InventoryArgs | None, accelerator: str) -> list[NodePoolArgs]:
    """Return pools with these accelerators, the cheapest first."""
    pools = inventory.pools if inventory is not None else []
    fitting_pools = [
        pool
        for pool in pools
        if pool.resource is not None
        and (kind := named_accelerator(pool_accelerator(pool) or "")) is not None
        and kind.name == accelerator
    ]
    return sorted(fitting_pools, key=lambda pool: pool.cost)
