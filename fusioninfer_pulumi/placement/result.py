"""Writes down what was chosen for one service, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.findings import Finding, error, info, warning
from fusioninfer_pulumi.placement import explain
from fusioninfer_pulumi.placement.admissible import MAX_ASSIGNMENTS, Assignment, Choices, templates
from fusioninfer_pulumi.placement.ledger import Fit, Ledger, Pools
from fusioninfer_pulumi.placement.needs import RoleNeed
from fusioninfer_pulumi.placement.records import Origin, PlacedRole, ServicePlacement, Status
from fusioninfer_pulumi.placement.search import Option, wanted


def service_placement(
    service: Choices,
    option: Option,
    before: Ledger,
    others: Ledger,
    pools: Pools,
    inventory: InventoryArgs,
) -> ServicePlacement:
    """The record of one service.

    Args:
        service: The service.
        option: What was chosen for it.
        before: The ledger of the services in front of it.
        others: The ledger of all other services.
        pools: The pools.
        inventory: Where they are from.
    """
    need = service.need
    unplaced = option.assignment is None
    status = Status.UNPLACED if unplaced else Status.PLACED
    return ServicePlacement(
        service=need.plan.service,
        namespace=need.plan.namespace,
        status=Status.MINIMUM if option.minimum else status,
        roles=tuple(
            PlacedRole(
                name=role.name,
                pool=pools.args[pool].name,
                replicas=wanted(role, minimum=option.minimum),
                wanted=role.replicas,
                accelerators=role.accelerators,
                device_classes=tuple(sorted(role.claims.classes)),
                origin=_origin(role, pools.args[pool].name, inventory),
                previous=role.previous.pool if role.previous is not None else None,
            )
            for role, pool in zip(need.roles, option.assignment or (), strict=not unplaced)
        ),
        terms=() if option.terms is None else explain.terms(option.terms),
        rejected=explain.rejected(service, option, before, others, pools),
        impossible={
            role.name: {pool.name: why for pool, why in zip(pools.args, row, strict=True) if why}
            for role, row in zip(need.roles, service.reasons, strict=True)
        },
        nearest=explain.nearest(service, others, pools) if unplaced else None,
    )


def service_findings(
    service: Choices,
    placed: ServicePlacement,
    option: Option,
    final: Ledger,
    pools: Pools,
    moves: Sequence[str] = (),
) -> list[Finding]:
    """What there is to say about the place of one service.

    Args:
        service: The service.
        placed: Its record.
        option: What was chosen for it.
        final: The ledger of all services.
        pools: The pools.
        moves: Roles of other services that would have to move for it to get a place.
    """
    if option.assignment is None:
        return list(_unplaced(service, placed, pools, moves))
    return list(_remarks(service, placed, option, option.assignment, final, pools))


def _remarks(
    service: Choices,
    placed: ServicePlacement,
    option: Option,
    assignment: Assignment,
    final: Ledger,
    pools: Pools,
) -> Iterator[Finding]:
    for role in service.need.roles:
        yield from _claims(role)
        if not role.shape and role.replicas and not role.claims.uncounted:
            yield info(
                "no-accelerators-requested",
                ("roles", role.plan.position),
                "asks for no accelerators through resources: its pods are not counted in any pool",
            )
    for each in placed.roles:
        if each.origin is Origin.MOVED:
            yield warning(
                "role-moves",
                ("placement",),
                f"{each.name} moves from {each.previous} to {each.pool}: all of its replicas "
                "restart",
            )
    if option.minimum:
        held = ", ".join(f"{each.name} {each.replicas} of {each.wanted}" for each in placed.roles)
        yield warning(
            "only-minimum-placed",
            ("placement",),
            f"has a place for its minimum only ({held}); further replicas take what is "
            "free when they ask, also from services that come later",
        )
    for at in sorted(set(assignment)):
        if final[at] and pools.fit(at, final[at]) is Fit.POSSIBLE:
            yield warning(
                "pods-of-several-sizes",
                ("placement",),
                f"pods of several sizes share pool {pools.args[at].name}: they fit only if the "
                "scheduler packs them tightly",
            )


def _claims(role: RoleNeed) -> Iterator[Finding]:
    at = ("roles", role.plan.position, "resourceClaims")
    for text in role.claims.uncounted:
        yield info("claim-not-counted", at, f"not counted in any pool: {text}")
    if role.claims.selectors:
        yield info(
            "claim-selectors-not-evaluated",
            at,
            "selectors are not evaluated: any device of the class counts; say with "
            "placement.device which pools have such devices",
        )


def _unplaced(
    service: Choices, placed: ServicePlacement, pools: Pools, moves: Sequence[str]
) -> Iterator[Finding]:
    stuck = [
        role for role, row in zip(service.need.roles, service.reasons, strict=True) if all(row)
    ]
    for role in stuck:
        why = "; ".join(
            f"{pool}: {', '.join(reasons)}"
            for pool, reasons in placed.impossible[role.name].items()
        )
        yield error(
            "no-pool-for-role",
            ("roles", role.plan.position),
            f"no pool can take {role.name}: {why}",
        )
    if stuck:
        return
    if service.too_many:
        yield error(
            "too-many-pool-combinations",
            ("placement",),
            f"its roles may be combined on pools in {service.too_many} ways, at most "
            f"{MAX_ASSIGNMENTS} are looked at; name pools in placement.pools",
        )
    elif placed.nearest is None:
        attribute = service.need.colocate or ""
        yield error(
            "no-pools-to-colocate",
            ("placement", "colocate"),
            f"no pools that its roles may be on have the same {attribute}: "
            f"{explain.apart(attribute, pools)}",
        )
    else:
        near = placed.nearest
        way_out = (
            f"; it would have one if {', '.join(moves)} moved: leave them out of the previous "
            "placement"
        )
        yield error(
            "pool-capacity-too-small",
            ("placement",),
            f"has no place; nearest is {explain.pools_words(near.pools)}, which lacks "
            f"{explain.missing_words(near.missing)} beside the other services"
            f"{way_out if moves else ''}",
        )


def _origin(role: RoleNeed, pool: str, inventory: InventoryArgs) -> Origin:
    key = inventory.selector_label
    if any(
        key in (template["spec"].get("nodeSelector") or {})
        for _, template in templates(role.plan.args)
    ):
        return Origin.SELECTED
    if role.previous is None:
        return Origin.CHOSEN
    return Origin.KEPT if role.previous.pool == pool else Origin.MOVED
