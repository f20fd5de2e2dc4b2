"""Chooses the pools of all services together: an exact search with a bound.

The objective, most important first:

1. Roles whose demand is as before stay where they were.
2. So do roles whose demand has changed.
3. As many services as possible get a place.
4. As few of them as possible with their minimum only.
5. What is best for the first service (`Terms`), then for the second, and so on: a service that is
   added at the end moves no other unless one of the points above is at stake.

What a service leaves to those after it is the ledger alone. So the best way to go on is remembered
for each ledger, and ends of the search are cut off by what could be reached at best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from fusioninfer_pulumi.placement.admissible import Assignment, Choices
from fusioninfer_pulumi.placement.ledger import Fit, Ledger, Pools, accelerators, with_more
from fusioninfer_pulumi.placement.needs import RoleNeed

#: Combinations that are looked at; beyond it the best that is at hand is taken.
MAX_STEPS = 100_000


class Terms(NamedTuple):
    """How good a place is for one service; less is better, the first difference decides."""

    risky: int  #: its pools where pods of several sizes fit only if they are packed well
    cost: Decimal  #: price of all its accelerators
    pools: int  #: pools that it is spread over
    stranded: int  #: accelerators that it leaves on nodes that are no longer whole
    whole: int  #: accelerators on whole nodes in its pools: large gaps are kept for large services
    order: Assignment  #: places of the pools in the inventory


@dataclass(frozen=True)
class Option:
    """One way to place one service.

    Attributes:
        assignment: Its pools, None to leave it out.
        minimum: Whether only its minimum is certain of a place.
        tiers: Its share in points 1 to 4 of the objective.
        terms: Its part of point 5, None when it is left out.
        ledger: The ledger with it.
    """

    assignment: Assignment | None
    minimum: bool
    tiers: tuple[int, int, int, int]
    terms: Terms | None
    ledger: Ledger

    @property
    def rank(self) -> tuple[object, ...]:
        """What is compared in point 5: any place is better than none."""
        return (1,) if self.terms is None else (0, self.terms)


@dataclass(frozen=True)
class Outcome:
    """What the search found.

    Attributes:
        options: The choice for each service, in their order.
        tiers: Points 1 to 4 of the objective, of all services together.
        proven: Whether nothing better exists; False when the search gave up at its bound.
        steps: Combinations that were looked at.
    """

    options: tuple[Option, ...]
    tiers: tuple[int, int, int, int]
    proven: bool
    steps: int


@dataclass(frozen=True)
class _Best:
    """The best way to place the services from some index on."""

    tiers: tuple[int, int, int, int]
    ranks: tuple[tuple[object, ...], ...]
    options: tuple[Option, ...]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[tuple[object, ...], ...]]:
        return self.tiers, self.ranks


def search(services: Sequence[Choices], pools: Pools, max_steps: int = MAX_STEPS) -> Outcome:
    """Places services.

    Args:
        services: What each may choose from, in the order in which equals have precedence.
        pools: The pools.
        max_steps: Combinations that are looked at before the search gives up on the best one.

    Returns:
        The best placement; where the bound was met, the first one that the search comes to.
    """
    run = _Search(services, pools, max_steps)
    best = run.best(0, pools.empty)
    return Outcome(best.options, best.tiers, run.steps <= max_steps, run.steps)


def placed(
    service: Choices, assignment: Assignment, ledger: Ledger, pools: Pools, *, minimum: bool
) -> Option | None:
    """One way to place a service; None where it does not fit beside what is placed.

    Args:
        service: The service.
        assignment: Its pools.
        ledger: What is placed already.
        pools: The pools.
        minimum: Whether its gang's minimum is enough.
    """
    loads = list(ledger)
    roles = service.need.roles
    for role, pool in zip(roles, assignment, strict=True):
        loads[pool] = with_more(loads[pool], role.shape, wanted(role, minimum=minimum))
    touched = sorted(set(assignment))
    if any(pools.fit(at, loads[at]) is Fit.NO for at in touched):
        return None
    moved = [
        role
        for role, pool in zip(roles, assignment, strict=True)
        if role.previous is not None and role.previous.pool != pools.args[pool].name
    ]
    after = tuple(loads)
    return Option(
        assignment=assignment,
        minimum=minimum,
        tiers=(*_changes(moved), 0, int(minimum)),
        terms=_terms(roles, assignment, ledger, after, pools),
        ledger=after,
    )


def wanted(role: RoleNeed, *, minimum: bool) -> int:
    """Replicas of a role that get a place."""
    return role.minimum if minimum else role.replicas


def _changes(moved: Sequence[RoleNeed]) -> tuple[int, int]:
    unchanged = sum(role.unchanged for role in moved)
    return unchanged, len(moved) - unchanged


def _terms(
    roles: Sequence[RoleNeed],
    assignment: Assignment,
    before: Ledger,
    after: Ledger,
    pools: Pools,
) -> Terms:
    price = (
        Decimal(str(pools.args[pool].cost)) * role.accelerators
        for role, pool in zip(roles, assignment, strict=True)
    )
    touched = sorted(set(assignment))
    stranded = sum(_stranded(at, after[at], pools) for at in touched)
    stranded -= sum(_stranded(at, before[at], pools) for at in touched)
    whole = sum(pools.whole_nodes(at, after[at]) * pools.args[at].accelerators for at in touched)
    risky = sum(pools.fit(at, after[at]) is Fit.POSSIBLE for at in touched)
    return Terms(risky, sum(price, Decimal(0)), len(touched), stranded, whole, assignment)


def _stranded(pool: int, load: tuple[tuple[tuple[int, ...], int], ...], pools: Pools) -> int:
    left = pools.free(pool) - accelerators(load)
    return left - pools.whole_nodes(pool, load) * pools.args[pool].accelerators


class _Search:
    def __init__(self, services: Sequence[Choices], pools: Pools, max_steps: int) -> None:
        self.services = services
        self.pools = pools
        self.max_steps = max_steps
        self.steps = 0
        self.known: dict[tuple[int, Ledger], _Best] = {}
        self.ideal = [(0, 0, 0, 0)]
        for service in reversed(services):
            own = min(self._ideal(service), self._left_out(service, pools.empty).tiers)
            self.ideal.insert(0, _added(own, self.ideal[0]))
        # The least that each service asks for, from each index on, smallest first.
        least = [
            sum(sum(role.shape) * role.minimum for role in service.need.roles)
            for service in services
        ]
        self.least = [sorted(least[at:]) for at in range(len(services) + 1)]
        self.room = sum(pools.free(at) for at in range(len(pools.args)))

    def best(self, at: int, ledger: Ledger) -> _Best:
        """The best way to place the services from an index on, beside what is placed."""
        if at == len(self.services):
            return _Best((0, 0, 0, 0), (), ())
        key = (at, ledger)
        if key in self.known:
            return self.known[key]
        best: _Best | None = None
        for option in self._options(at, ledger):
            if best is not None:
                bound = _added(option.tiers, self._bound(at + 1, option.ledger))
                if (bound, option.rank) >= (best.tiers, best.ranks[0]):
                    continue
                if self.steps > self.max_steps:
                    break
            rest = self.best(at + 1, option.ledger)
            found = _Best(
                _added(option.tiers, rest.tiers),
                (option.rank, *rest.ranks),
                (option, *rest.options),
            )
            if best is None or found.key < best.key:
                best = found
        assert best is not None, "a service can always be left out"
        if self.steps <= self.max_steps:
            self.known[key] = best
        return best

    def _options(self, at: int, ledger: Ledger) -> list[Option]:
        """Every way to place a service, the most promising first."""
        service = self.services[at]
        found = []
        for minimum in (False, True) if service.need.partial else (False,):
            for assignment in service.assignments:
                self.steps += 1
                option = placed(service, assignment, ledger, self.pools, minimum=minimum)
                if option is not None:
                    found.append(option)
        found.append(self._left_out(service, ledger))
        return sorted(found, key=lambda option: (option.tiers, option.rank))

    def _left_out(self, service: Choices, ledger: Ledger) -> Option:
        lost = [role for role in service.need.roles if role.previous is not None]
        tiers = (*_changes(lost), 1, 0)
        return Option(None, minimum=False, tiers=tiers, terms=None, ledger=ledger)

    def _ideal(self, service: Choices) -> tuple[int, int, int, int]:
        """The best that a service could reach if it were alone."""
        found = [
            option.tiers
            for minimum in (False, True)
            for assignment in service.assignments
            if (option := placed(service, assignment, self.pools.empty, self.pools,
                                 minimum=minimum))
        ]  # fmt: skip
        return min(found, default=(len(service.need.roles), len(service.need.roles), 1, 1))

    def _bound(self, at: int, ledger: Ledger) -> tuple[int, int, int, int]:
        """What the services from an index on cannot do better than."""
        unchanged, changed, unplaced, minimum = self.ideal[at]
        room = self.room - sum(accelerators(load) for load in ledger)
        crowded = 0
        for count, asked in enumerate(self.least[at]):
            room -= asked
            if room < 0:
                crowded = len(self.least[at]) - count
                break
        if crowded > unplaced:
            return unchanged, changed, crowded, 0
        return unchanged, changed, unplaced, minimum


def _added(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
