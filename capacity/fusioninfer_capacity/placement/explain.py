"""Explains why a service is placed where it is, or what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusioninfer_capacity.placement._packing import PoolFit, Pools, Usage
from fusioninfer_capacity.placement._search import Option, Terms, add_usage, build_option
from fusioninfer_capacity.placement.problem import (
    MAX_ASSIGNMENTS,
    Assignment,
    RoleRequest,
    ServiceRequest,
    get_attribute,
)
from fusioninfer_capacity.placement.result import (
    Missing,
    Nearest,
    Origin,
    PlacedRole,
    Rejected,
    ServicePlacement,
    Status,
    Term,
)
from fusioninfer_pulumi.plugins.capacity import Finding, Rule, error, info, warning

PLACEMENT_NOT_COUNTED = Rule("placement-not-counted")
SERVICE_NOT_PLACED = Rule("service-not-placed")
ROLE_MOVES = Rule("role-moves")
ONLY_MINIMUM_PLACED = Rule("only-minimum-placed")
PODS_OF_SEVERAL_SIZES = Rule("pods-of-several-sizes")


def build_record(
    service: ServiceRequest, option: Option, earlier_usage: Usage, other_usage: Usage, pools: Pools
) -> ServicePlacement:
    """Return the placement of one service, with the reasons.

    `earlier_usage` is that of services before this one, `other_usage` that of all other services.
    """
    placed = zip(service.roles, option.assignment or (), strict=option.assignment is not None)
    status = Status.PLACED if option.assignment is not None else Status.UNPLACED
    return ServicePlacement(
        service=service.plan.service,
        namespace=service.plan.namespace,
        status=Status.MINIMUM if option.minimum else status,
        roles=tuple(
            PlacedRole(
                name=role.name,
                pool=pools.args[pool].name,
                replicas=role.count(minimum=option.minimum),
                wanted=role.replicas,
                accelerators=role.accelerators,
                device_classes=tuple(sorted(role.claims.classes)),
                origin=_find_origin(role, pools.args[pool].name),
                previous=role.previous.name if role.previous is not None else None,
            )
            for role, pool in placed
        ),
        terms=() if option.terms is None else _list_terms(option.terms),
        rejected=tuple(
            Rejected(
                _name_pools(service, assignment, pools),
                _explain_rejection(service, assignment, option, earlier_usage, other_usage, pools),
            )
            for assignment in service.assignments
            if assignment != option.assignment
        ),
        impossible={
            role.name: {pool.name: why for pool, why in zip(pools.args, row, strict=True) if why}
            for role, row in zip(service.roles, service.reasons, strict=True)
        },
        nearest=_find_nearest(service, other_usage, pools) if option.assignment is None else None,
    )


def check_placed(
    service: ServiceRequest,
    placed: ServicePlacement,
    assignment: Assignment,
    final: Usage,
    pools: Pools,
) -> Iterator[Finding]:
    """Yield findings about a placed service; `final` is the usage with all services."""
    for role in service.roles:
        yield from _check_claims(role)
        if not role.shape and role.replicas and not role.claims.uncounted:
            yield info(
                PLACEMENT_NOT_COUNTED,
                ("roles", role.plan.position),
                "requests no accelerators in resources, so its pods are not counted in any pool",
            )
    for placed_role in placed.roles:
        if placed_role.origin is Origin.MOVED:
            yield warning(
                ROLE_MOVES,
                ("placement",),
                f"{placed_role.name} moves from {placed_role.previous} to {placed_role.pool}: "
                "all of its replicas restart",
            )
    if placed.status is Status.MINIMUM:
        minimum = ", ".join(
            f"{placed_role.name} {placed_role.replicas} of {placed_role.wanted}"
            for placed_role in placed.roles
        )
        yield warning(
            ONLY_MINIMUM_PLACED,
            ("placement",),
            f"only its minimum is placed ({minimum}); further replicas start if capacity is free, "
            "in competition with later services",
        )
    for index in sorted(set(assignment)):
        if final[index] and pools.fit(index, final[index]) is PoolFit.POSSIBLE:
            yield warning(
                PODS_OF_SEVERAL_SIZES,
                ("placement",),
                f"pods of several sizes share pool {pools.args[index].name}: they fit only if the "
                "scheduler packs them tightly",
            )


def check_unplaced(
    service: ServiceRequest, placed: ServicePlacement, moves: Sequence[str], pools: Pools
) -> Iterator[Finding]:
    """Yield why a service is not placed.

    `moves` are the roles, each with its new pool, that would have to move to make it fit.
    """
    roles_without_pool = [
        role for role, row in zip(service.roles, service.reasons, strict=True) if all(row)
    ]
    for role in roles_without_pool:
        reasons = "; ".join(
            f"{pool}: {', '.join(mismatches)}"
            for pool, mismatches in placed.impossible[role.name].items()
        )
        yield error(
            SERVICE_NOT_PLACED,
            ("roles", role.plan.position),
            f"no pool is possible for {role.name}: {reasons}",
        )
    if roles_without_pool:
        return
    if service.too_many:
        yield error(
            SERVICE_NOT_PLACED,
            ("placement",),
            f"its roles have {service.too_many} possible combinations of pools, more than the "
            f"maximum of {MAX_ASSIGNMENTS}; name pools in placement.pools",
        )
    elif placed.nearest is None:
        attribute = service.colocate or ""
        values = ", ".join(
            f"{pool.name} {get_attribute(pool, attribute) or 'has none'}" for pool in pools.args
        )
        yield error(
            SERVICE_NOT_PLACED,
            ("placement", "colocate"),
            f"its roles have no possible pools with the same {attribute}: {values}",
        )
    else:
        message = (
            f"does not fit; the closest combination, {format_pools(placed.nearest.pools)}, "
            f"requires {format_missing(placed.nearest.missing)}"
        )
        if moves:
            message += (
                f"; it would fit if {', '.join(moves)} moved: remove these roles from the previous "
                "placement"
            )
        yield error(SERVICE_NOT_PLACED, ("placement",), message)


def format_missing(missing: Sequence[Missing]) -> str:
    """Return missing nodes as a part of a sentence."""
    return " and ".join(
        f"{shortage.nodes} more node{'s' if shortage.nodes > 1 else ''} of {shortage.pool} "
        f"({shortage.accelerators} accelerators)"
        for shortage in missing
    )


def format_pools(pools: Mapping[str, str]) -> str:
    """Return a combination of pools as a part of a sentence."""
    return ", ".join(f"{role} on {pool}" for role, pool in pools.items())


def _check_claims(role: RoleRequest) -> Iterator[Finding]:
    index = ("roles", role.plan.position, "resourceClaims")
    for text in role.claims.uncounted:
        yield info(PLACEMENT_NOT_COUNTED, index, f"not counted in any pool: {text}")
    if role.claims.has_selectors:
        yield info(
            PLACEMENT_NOT_COUNTED,
            index,
            "selectors are not evaluated: all devices of the class are counted; describe the "
            "devices in placement.device",
        )


def _find_origin(role: RoleRequest, pool: str) -> Origin:
    if role.selects_pool:
        return Origin.SELECTED
    if role.previous is None:
        return Origin.CHOSEN
    return Origin.KEPT if role.previous.name == pool else Origin.MOVED


def _name_pools(service: ServiceRequest, assignment: Assignment, pools: Pools) -> dict[str, str]:
    """Return the pool of each role, by their names."""
    return {
        role.name: pools.args[pool].name
        for role, pool in zip(service.roles, assignment, strict=True)
    }


def _list_terms(terms: Terms) -> tuple[Term, ...]:
    """Return the numbers by which placements are compared, the most important first."""
    return (
        Term("riskyPools", terms.risky, "pools that fit only if packed well"),
        Term("cost", format(terms.cost.normalize(), "f"), "price"),
        Term("pools", terms.pools, "pools used"),
        Term("strandedAccelerators", terms.stranded, "free accelerators added on used nodes"),
        Term("wholeNodeAccelerators", terms.whole, "accelerators left on empty nodes"),
        Term(
            "order",
            ", ".join(str(index + 1) for index in terms.order),
            "place of the pools in the inventory",
        ),
    )


def _find_nearest(service: ServiceRequest, other_usage: Usage, pools: Pools) -> Nearest | None:
    """Return the assignment that lacks the fewest accelerators, given all other services."""
    candidates = [
        (_find_missing(service, assignment, other_usage, pools), assignment)
        for assignment in service.assignments
    ]
    if not candidates:
        return None
    missing, assignment = min(
        candidates,
        key=lambda item: (
            sum(shortage.accelerators for shortage in item[0]),
            sum(shortage.nodes for shortage in item[0]),
            item[1],
        ),
    )
    return Nearest(_name_pools(service, assignment, pools), missing)


def _find_missing(
    service: ServiceRequest, assignment: Assignment, other_usage: Usage, pools: Pools
) -> tuple[Missing, ...]:
    """Return the nodes that the pools of an assignment lack for the service's minimum."""
    usage = add_usage(other_usage, service, assignment, minimum=True)
    missing = []
    for index in sorted(set(assignment)):
        if pools.fit(index, usage[index]) is PoolFit.NO:
            count, pool = pools.count_missing_nodes(index, usage[index]), pools.args[index]
            missing.append(Missing(pool.name, count, count * pool.accelerators))
    return tuple(missing)


def _explain_rejection(
    service: ServiceRequest,
    assignment: Assignment,
    chosen: Option,
    earlier_usage: Usage,
    other_usage: Usage,
    pools: Pools,
) -> str:
    """Return why an assignment was not chosen."""

    def build(usage: Usage) -> Option | None:
        return build_option(service, assignment, usage, pools, minimum=chosen.minimum)

    alternative = build(other_usage)
    if alternative is None:
        reason, usage = "too small", pools.unused
        if build(pools.unused) is not None:
            reason, usage = "no capacity left by the other services", other_usage
        missing = format_missing(_find_missing(service, assignment, usage, pools))
        return f"{reason}: {missing or 'only the minimum fits'}"
    if chosen.terms is None:
        return "not chosen, because the service is not placed"
    if alternative.tiers > chosen.tiers:
        return "would move roles that run elsewhere"
    # The search compared the terms when only earlier services were placed.
    compared = build(earlier_usage)
    if compared is not None and compared.terms is not None:
        is_worse = compared.terms > chosen.terms
        pairs = zip(_list_terms(chosen.terms), _list_terms(compared.terms), strict=True)
        chosen_term, other_term = next(pair for pair in pairs if pair[0] != pair[1])
        if is_worse and chosen_term.name == "order":
            return "as good, but later in the inventory"
        if is_worse:
            return f"{other_term.words}: {other_term.value} instead of {chosen_term.value}"
    return "not compared: the search stopped at its limit or bound"
