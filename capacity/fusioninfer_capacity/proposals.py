"""Proposes layouts with the replicas for a load, and the node pool where they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fusioninfer_capacity.fit.estimate import NotCoveredError, StepTimeEstimates
from fusioninfer_capacity.fit.load import (
    Load,
    ReplicaLoad,
    estimate_combined,
    estimate_decode,
    estimate_prefill,
)
from fusioninfer_capacity.fit.roles import name_accelerator, parse_accelerator
from fusioninfer_capacity.fit.sizing import Layout, SizingRequest, filter_sensible
from fusioninfer_pulumi.plugins.capacity import InventoryArgs, NodePoolArgs


@dataclass(frozen=True)
class Place:
    """A node pool for replicas of a layout.

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
        place: The node pool of all replicas.
        replicas: Replicas that decode, or that prefill and decode.
        prefillers: Replicas that only prefill.
        replica_load: Maximum load of one of `replicas`, or None if no load was given.
        prefiller_load: Maximum load of one of `prefillers`, or None if there are none.
        source: Source of the step times, or None if no load was given.
    """

    layout: Layout
    place: Place
    replicas: int
    prefillers: int = 0
    replica_load: ReplicaLoad | None = None
    prefiller_load: ReplicaLoad | None = None
    source: str | None = None

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas."""
        return (self.replicas + self.prefillers) * self.layout.accelerators


def propose(
    request: SizingRequest,
    candidates: Sequence[Layout],
    inventory: InventoryArgs | None,
    load: Load | None,
) -> Iterator[Proposal]:
    """Yield layouts with replicas for the load, or with one; the fewest accelerators first."""
    fitting = [layout for layout in candidates if layout.reason is None]
    if load is None:
        for layout in filter_sensible(fitting):
            place = _find_place(request, layout, inventory, 1)
            if place is not None:
                yield Proposal(layout, place, 1)
        return
    proposals: list[Proposal] = []
    reasons: list[str] = []
    # Step times are known only for a cache in the model's type, and for one copy.
    for layout in fitting:
        if layout.fp8_cache or layout.copies > 1:
            continue
        try:
            proposals += _propose_for_load(request, layout, inventory, load)
        except NotCoveredError as exc:
            reasons.append(str(exc))
    if not proposals and reasons:
        raise NotCoveredError(reasons[0])
    yield from sorted(proposals, key=lambda proposal: (proposal.accelerators, proposal.prefillers))


def _propose_for_load(
    request: SizingRequest, layout: Layout, inventory: InventoryArgs | None, load: Load
) -> Iterator[Proposal]:
    assert layout.fit is not None, "it fits"
    if layout.fit.tokens is None:
        return
    times = StepTimeEstimates(
        request.name, request.accelerator.name, request.engine, layout.tensor, layout.nodes
    )
    max_requests = layout.fit.count_max_requests(load.input + load.output)
    combined = estimate_combined(times, load, max_requests)
    if combined is not None:
        count = combined.count_replicas(load.rate)
        place = _find_place(request, layout, inventory, count)
        if place is not None:
            yield Proposal(layout, place, count, replica_load=combined, source=times.source)
    prefill, decode = estimate_prefill(times, load), estimate_decode(times, load, max_requests)
    if prefill is not None and decode is not None:
        prefillers, decoders = prefill.count_replicas(load.rate), decode.count_replicas(load.rate)
        place = _find_place(request, layout, inventory, prefillers + decoders)
        if place is not None:
            yield Proposal(layout, place, decoders, prefillers, decode, prefill, times.source)


def _find_place(
    request: SizingRequest, layout: Layout, inventory: InventoryArgs | None, replicas: int
) -> Place | None:
    """Return the cheapest pool with capacity for the replicas; None if there is none."""
    if inventory is None:
        return Place(None, None)
    for pool in find_pools(inventory, request.accelerator.name):
        replicas_that_fit = count_replicas(pool, layout)
        if replicas_that_fit >= replicas:
            return Place(pool, replicas_that_fit)
    return None


def count_replicas(pool: NodePoolArgs, layout: Layout) -> int:
    """Return the replicas that fit a pool; each pod uses accelerators of one node."""
    in_use = [*pool.in_use, *[0] * (pool.nodes - len(pool.in_use))]
    pods = sum((pool.accelerators - used) // layout.per_pod for used in in_use)
    return pods // layout.nodes


def find_pools(inventory: InventoryArgs | None, accelerator: str) -> list[NodePoolArgs]:
    """Return pools with an accelerator of this name, the cheapest first."""
    pools = inventory.pools if inventory is not None else []
    matching = [
        pool
        for pool in pools
        if pool.resource is not None
        and (kind := parse_accelerator(name_accelerator(pool) or "")) is not None
        and kind.name == accelerator
    ]
    return sorted(matching, key=lambda pool: pool.cost)
