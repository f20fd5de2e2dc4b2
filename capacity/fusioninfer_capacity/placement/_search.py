"""Chooses the pools of all services together: an exact search with a bound.

The objective, most important first:

1. Roles with the same demand as before keep their pool.
2. Roles whose demand has changed keep their pool, too.
3. As many services as possible are placed.
4. As few as possible are placed with their minimum of replicas only.
5. The first service has the best place (`Terms`), then the second, and so on. So a service that is
   added at the end moves no other, unless that improves one of the points above.

A service affects later ones only by the usage of the pools. So the search remembers the best choice
for all later services by usage, and skips options whose lower bound is not better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from fusioninfer_capacity.placement import _packing as packing
from fusioninfer_capacity.placement._packing import PoolFit, Pools, Usage
from fusioninfer_capacity.placement.problem import Assignment, RoleRequest, ServiceRequest

#: Maximum number of combinations of pools to try; then the best result so far is used.
MAX_STEPS = 100_000
#: Number of roles or services that miss points 1 to 4 of the objective; less is better.
Tiers = tuple[int, int, int, int]


class Terms(NamedTuple):
    """Point 5 of the objective for one service; less is better, the first difference decides."""

    risky: int  #: pools in which pods of several sizes fit only if they are packed tightly
    cost: Decimal  #: price of all its accelerators
    pools: int  #: number of pools in use
    stranded: int  #: free accelerators that it adds to partly used nodes
    whole: int  #: accelerators of empty nodes left in its pools: larger pools are kept free
    order: Assignment  #: indexes of the pools in the inventory


@dataclass(frozen=True)
class Option:
    """A possible placement of one service.

    Attributes:
        assignment: Pools of its roles, or None if it is not placed.
        minimum: Whether only its minimum of replicas is placed.
        tiers: Points 1 to 4 of the objective, for this service.
        terms: Point 5, or None if the service is not placed.
        usage: Usage of all pools, this service included.
    """

    assignment: Assignment | None
    minimum: bool
    tiers: Tiers
    terms: Terms | None
    usage: Usage

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key for point 5; being placed is better than not being placed."""
        return (1,) if self.terms is None else (0, self.terms)


@dataclass(frozen=True)
class Outcome:
    """Result of the search.

    Attributes:
        options: The choice for each service, in their order.
        tiers: Points 1 to 4 of the objective, of all services together.
        proven: Whether nothing better exists; False if the search reached its limit.
    """

    options: tuple[Option, ...]
    tiers: Tiers
    proven: bool
    steps: int


@dataclass(frozen=True)
class _Best:
    """The best way to place the services from some index on."""

    tiers: Tiers
    ranks: tuple[tuple[object, ...], ...]
    options: tuple[Option, ...]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[tuple[object, ...], ...]]:
        return self.tiers, self.ranks


def search(services: Sequence[ServiceRequest], pools: Pools, max_steps: int = MAX_STEPS) -> Outcome:
    """Return the best placement, or the best one found before the search reached its limit."""
    run = _Search(services, pools, max_steps)
    best = run.find_best(0, pools.unused)
    return Outcome(best.options, best.tiers, run.steps <= max_steps, run.steps)


def build_option(
    service: ServiceRequest, assignment: Assignment, usage: Usage, pools: Pools, *, minimum: bool
) -> Option | None:
    """Return one way to place a service, given the usage; None if it does not fit."""
    after = add_usage(usage, service, assignment, minimum=minimum)
    touched = sorted(set(assignment))
    if any(pools.fit(index, after[index]) is PoolFit.NO for index in touched):
        return None
    roles = list(zip(service.roles, assignment, strict=True))
    moved = [role for role, pool in roles if role.is_moved_to(pools.args[pool])]
    price = (Decimal(str(pools.args[pool].cost)) * role.accelerators for role, pool in roles)
    terms = Terms(
        risky=sum(pools.fit(index, after[index]) is PoolFit.POSSIBLE for index in touched),
        cost=sum(price, Decimal(0)),
        pools=len(touched),
        stranded=sum(
            pools.count_stranded(index, after[index]) - pools.count_stranded(index, usage[index])
            for index in touched
        ),
        whole=sum(
            pools.count_whole_nodes(index, after[index]) * pools.args[index].accelerators
            for index in touched
        ),
        order=assignment,
    )
    return Option(assignment, minimum, (*_count_moves(moved), 0, int(minimum)), terms, after)


def add_usage(
    usage: Usage, service: ServiceRequest, assignment: Assignment, *, minimum: bool
) -> Usage:
    """Return the usage with one more service; with `minimum`, only its minimum of replicas."""
    loads = list(usage)
    for role, pool in zip(service.roles, assignment, strict=True):
        loads[pool] = packing.add_replicas(loads[pool], role.shape, role.count(minimum=minimum))
    return tuple(loads)


def _count_moves(moved: Sequence[RoleRequest]) -> tuple[int, int]:
    """Return points 1 and 2 of the objective for roles that move."""
    unchanged = sum(role.unchanged for role in moved)
    return unchanged, len(moved) - unchanged


class _Search:
    def __init__(self, services: Sequence[ServiceRequest], pools: Pools, max_steps: int) -> None:
        self.services = services
        self.pools = pools
        self.max_steps = max_steps
        self.best_by_usage: dict[tuple[int, Usage], _Best] = {}
        # Tiers of the services from each index on, if each service had all pools to itself.
        self.ideal = [(0, 0, 0, 0)]
        self.steps = 0
        for service in reversed(services):
            option = self._list_options(service, pools.unused)[0]
            self.ideal.insert(0, _add(option.tiers, self.ideal[0]))
        self.steps = 0  # only combinations of the search itself count
        # Minimum accelerators of each service from an index on, smallest first.
        minima = [
            sum(sum(role.shape) * role.minimum for role in service.roles) for service in services
        ]
        self.minima_from = [sorted(minima[index:]) for index in range(len(services) + 1)]
        self.free_accelerators = sum(pools.count_free(index) for index in range(len(pools.args)))

    def find_best(self, index: int, usage: Usage) -> _Best:
        """Return the best way to place the services from an index on, given the usage."""
        if index == len(self.services):
            return _Best((0, 0, 0, 0), (), ())
        key = (index, usage)
        if key in self.best_by_usage:
            return self.best_by_usage[key]
        best: _Best | None = None
        for option in self._list_options(self.services[index], usage):
            if best is not None:
                bound = _add(option.tiers, self._compute_bound(index + 1, option.usage))
                if (bound, option.rank) >= (best.tiers, best.ranks[0]):
                    continue
                if self.steps > self.max_steps:
                    break
            rest = self.find_best(index + 1, option.usage)
            candidate = _Best(
                _add(option.tiers, rest.tiers), (option.rank, *rest.ranks), (option, *rest.options)
            )
            if best is None or candidate.key < best.key:
                best = candidate
        assert best is not None, "a service may stay unplaced"
        if self.steps <= self.max_steps:
            self.best_by_usage[key] = best
        return best

    def _list_options(self, service: ServiceRequest, usage: Usage) -> list[Option]:
        """Return every way to place a service, and not to place it; the best ones first."""
        choices = []
        for minimum in (False, True) if service.partial else (False,):
            for assignment in service.assignments:
                self.steps += 1
                option = build_option(service, assignment, usage, self.pools, minimum=minimum)
                if option is not None:
                    choices.append(option)
        displaced = [role for role in service.roles if role.previous is not None]
        choices.append(
            Option(
                None, minimum=False, tiers=(*_count_moves(displaced), 1, 0), terms=None, usage=usage
            )
        )
        return sorted(choices, key=lambda option: (option.tiers, option.rank))

    def _compute_bound(self, index: int, usage: Usage) -> Tiers:
        """Return a lower bound of the objective for the services from an index on."""
        unchanged, changed, unplaced, minimum = self.ideal[index]
        free_accelerators = self.free_accelerators - sum(
            packing.count_accelerators(load) for load in usage
        )
        unplaceable = 0
        for count, requested in enumerate(self.minima_from[index]):
            free_accelerators -= requested
            if free_accelerators < 0:
                unplaceable = len(self.minima_from[index]) - count
                break
        if unplaceable > unplaced:
            return unchanged, changed, unplaceable, 0
        return unchanged, changed, unplaced, minimum


def _add(first: Tiers, second: Tiers) -> Tiers:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3]
