"""Says why a service is where it is, and what is missing where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.placement.admissible import Assignment, Choices, attribute_of
from fusioninfer_pulumi.placement.ledger import Fit, Ledger, Pools, with_more
from fusioninfer_pulumi.placement.records import Missing, Nearest, Rejected, Term
from fusioninfer_pulumi.placement.search import Option, Terms, placed, wanted

_WORDS = {
    "riskyPools": "pools that fit only if packed well",
    "cost": "price",
    "pools": "pools used",
    "strandedAccelerators": "accelerators stranded",
    "wholeNodeAccelerators": "accelerators left on whole nodes",
    "order": "place of the pools in the inventory",
}


def terms(found: Terms) -> tuple[Term, ...]:
    """The numbers by which a place was compared."""
    values: tuple[int | str, ...] = (
        found.risky,
        format(found.cost.normalize(), "f"),
        found.pools,
        found.stranded,
        found.whole,
        ", ".join(str(at + 1) for at in found.order),
    )
    return tuple(
        Term(name, value, words)
        for (name, words), value in zip(_WORDS.items(), values, strict=True)
    )


def beside(services: Sequence[Choices], options: Sequence[Option], pools: Pools, at: int) -> Ledger:
    """What all services but one hold."""
    ledger = pools.empty
    for index, (service, option) in enumerate(zip(services, options, strict=True)):
        if index != at:
            ledger = _with(service, option, ledger)
    return ledger


def rejected(
    service: Choices, chosen: Option, before: Ledger, others: Ledger, pools: Pools
) -> tuple[Rejected, ...]:
    """Why each other allowed combination was not taken.

    Args:
        service: The service.
        chosen: What was taken for it.
        before: The ledger of the services in front of it.
        others: The ledger of all other services.
        pools: The pools.
    """
    return tuple(
        Rejected(named(service, each, pools), _why(service, each, chosen, before, others, pools))
        for each in service.assignments
        if each != chosen.assignment
    )


def nearest(service: Choices, others: Ledger, pools: Pools) -> Nearest | None:
    """The allowed combination that lacks least beside what all others hold."""
    found = [(missing(service, each, others, pools), each) for each in service.assignments]
    if not found:
        return None
    lacks, each = min(
        found,
        key=lambda item: (
            sum(one.accelerators for one in item[0]),
            sum(one.nodes for one in item[0]),
            item[1],
        ),
    )
    return Nearest(named(service, each, pools), lacks)


def missing(
    service: Choices, assignment: Assignment, others: Ledger, pools: Pools
) -> tuple[Missing, ...]:
    """What the pools of a combination lack for the least that the service starts with."""
    loads = list(others)
    for role, pool in zip(service.need.roles, assignment, strict=True):
        loads[pool] = with_more(loads[pool], role.shape, role.minimum)
    lacks = []
    for at in sorted(set(assignment)):
        if pools.fit(at, loads[at]) is Fit.NO:
            count = pools.missing_nodes(at, loads[at])
            each = pools.args[at]
            lacks.append(Missing(each.name, count, count * each.accelerators))
    return tuple(lacks)


def missing_words(lacks: Sequence[Missing]) -> str:
    """What is missing, as a sentence goes on."""
    return " and ".join(
        f"{each.nodes} more node{'s' if each.nodes > 1 else ''} of {each.pool} "
        f"({each.accelerators} accelerators)"
        for each in lacks
    )


def pools_words(pools: Mapping[str, str]) -> str:
    """A combination of pools, as a sentence goes on."""
    return ", ".join(f"{role} on {pool}" for role, pool in pools.items())


def named(service: Choices, assignment: Assignment, pools: Pools) -> dict[str, str]:
    """The names of an assignment."""
    return {
        role.name: pools.args[pool].name
        for role, pool in zip(service.need.roles, assignment, strict=True)
    }


def apart(attribute: str, pools: Pools) -> str:
    """What the pools have of an attribute that should be the same."""
    return ", ".join(
        f"{pool.name} {attribute_of(pool, attribute) or 'does not state it'}" for pool in pools.args
    )


def _with(service: Choices, option: Option, ledger: Ledger) -> Ledger:
    loads = list(ledger)
    if option.assignment is not None:
        for role, pool in zip(service.need.roles, option.assignment, strict=True):
            loads[pool] = with_more(loads[pool], role.shape, wanted(role, minimum=option.minimum))
    return tuple(loads)


def _why(
    service: Choices,
    assignment: Assignment,
    chosen: Option,
    before: Ledger,
    others: Ledger,
    pools: Pools,
) -> str:
    beside_all = placed(service, assignment, others, pools, minimum=chosen.minimum)
    if beside_all is None:
        alone = placed(service, assignment, pools.empty, pools, minimum=chosen.minimum)
        words, ledger = (
            ("too small", pools.empty) if alone is None else ("no room beside the others", others)
        )
        lacks = missing_words(missing(service, assignment, ledger, pools))
        return f"{words}: {lacks or 'only the minimum fits'}"
    if chosen.terms is None:
        return "left out"
    if beside_all.tiers > chosen.tiers:
        return "would move roles that run elsewhere"
    at_its_turn = placed(service, assignment, before, pools, minimum=chosen.minimum)
    if at_its_turn is not None and at_its_turn.terms is not None:
        worse = at_its_turn.terms > chosen.terms
        pairs = zip(terms(chosen.terms), terms(at_its_turn.terms), strict=True)
        mine, its = next(pair for pair in pairs if pair[0] != pair[1])
        if worse and mine.name == "order":
            return "as good, but later in the inventory"
        if worse:
            return f"{its.words}: {its.value}, against {mine.value}"
    return "not looked at: the search met its bound"
