"""The entry of this room: services and an inventory in, placed services out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import InvalidServiceError, errors, warning
from fusioninfer_pulumi.loading.load import Inventory, load_inventory
from fusioninfer_pulumi.loading.validate import examine_mapping
from fusioninfer_pulumi.placement import explain
from fusioninfer_pulumi.placement.admissible import Choices, choices
from fusioninfer_pulumi.placement.check import input_findings, inventory_findings
from fusioninfer_pulumi.placement.ledger import Fit, Load, Pools, accelerators
from fusioninfer_pulumi.placement.needs import service_need
from fusioninfer_pulumi.placement.previous import (
    Before,
    PreviousPlacement,
    read_previous,
    service_key,
)
from fusioninfer_pulumi.placement.records import Placement, PoolLeft, ServicePlacement
from fusioninfer_pulumi.placement.result import service_findings, service_placement
from fusioninfer_pulumi.placement.search import MAX_STEPS, Outcome, search
from fusioninfer_pulumi.placement.write import on_pools
from fusioninfer_pulumi.planning import plan_service
from fusioninfer_pulumi.service_plan import ServicePlan

_NOT_PROVEN = (
    "whether this is the best placement is not known: the search stopped after {} combinations and "
    "took the best one at hand; name pools in placement.pools, or give a previous placement"
)


def place(
    services: Sequence[InferenceServiceArgs | Mapping[str, Any]],
    inventory: Inventory,
    *,
    previous: PreviousPlacement = None,
) -> Placement:
    """Chooses a node pool for each role of several services, all together.

    Roles get pools that their pod templates and `placement` allow, in which the pods of all
    services fit at once. Of equals, services in front of the list have precedence; roles that have
    a place in `previous` keep it as long as it holds them. The same input gives the same result.

    Args:
        services: The services, each with a name.
        inventory: The node pools: a path of a `NodePoolInventory`, its data, or what
            `load_inventory` or `read_inventory` returned.
        previous: Where services were placed before: what `place` or `read_placement` returned,
            the JSON of `plan --inventory` as a path or as data, or a mapping of service to role to
            pool; by default nothing is running yet.

    Returns:
        The placed services (`.services`, to hand to `InferenceService`), and why they are there.

    Raises:
        InvalidServiceError: A service cannot work or has no place; one line per problem.
        OSError: A file cannot be read.
    """
    pools = load_inventory(inventory)
    if refused := errors(inventory_findings(pools)):
        raise InvalidServiceError(refused, "inventory")
    read = [_args(each) for each in services]
    found = place_services(read, pools, previous=read_previous(previous))
    problems = [
        (str(read[at].name or at + 1), finding)
        for at, listed in sorted(found.findings.items())
        for finding in errors(listed)
    ]
    if problems:
        raise InvalidServiceError(
            [finding for _, finding in problems], [name for name, _ in problems]
        )
    return found


def place_services(
    services: Sequence[InferenceServiceArgs],
    inventory: InventoryArgs,
    *,
    previous: Before | None = None,
    plans: Sequence[ServicePlan] | None = None,
    max_steps: int = MAX_STEPS,
) -> Placement:
    """The same without raising: a service that has no place, or cannot, is left as it is.

    Args:
        services: The services.
        inventory: The node pools, without errors of their own.
        previous: Where services were placed before.
        plans: The plan of each service, None to make them here.
        max_steps: Combinations that are looked at before the search takes the best one at hand.

    Returns:
        The placement; its findings say what is wrong, by the index of the service.
    """
    before = previous or {}
    pools = Pools(inventory.pools)
    planned = [plan_service(each) for each in services] if plans is None else plans
    findings = input_findings(services, planned, inventory)
    fit = [at for at in range(len(services)) if at not in findings]
    listed = []
    classes = {name for pool in inventory.pools for name in pool.device_classes}
    for at in fit:
        plan = planned[at]
        was = before.get(service_key(plan.namespace, plan.service)) or before.get(plan.service, {})
        need = service_need(plan, services[at].placement.colocate, was, classes)
        listed.append(choices(need, inventory))
    outcome = search(listed, pools, max_steps)
    final = outcome.options[-1].ledger if listed else pools.empty
    ways_out = _ways_out(listed, outcome, pools, max_steps) if before and outcome.tiers[2] else {}
    placed: list[ServicePlacement | None] = [None] * len(services)
    before_it = pools.empty
    for index, (at, each) in enumerate(zip(fit, listed, strict=True)):
        option = outcome.options[index]
        others = explain.beside(listed, outcome.options, pools, index)
        record = service_placement(each, option, before_it, others, pools, inventory)
        moves = ways_out.get(index, ())
        findings[at] = service_findings(each, record, option, final, pools, moves)
        placed[at], before_it = record, option.ledger
    if not outcome.proven:
        findings[-1] = [warning("placement-not-proven", (), _NOT_PROVEN.format(max_steps))]
    return Placement(
        services=tuple(
            service if record is None else _written(service, record, inventory)
            for service, record in zip(services, placed, strict=True)
        ),
        placed=tuple(placed),
        pools=tuple(_left(pools, at, load) for at, load in enumerate(final)),
        findings={at: tuple(found) for at, found in findings.items() if found},
        proven=outcome.proven,
        steps=outcome.steps,
    )


def _ways_out(
    listed: Sequence[Choices], found: Outcome, pools: Pools, max_steps: int
) -> dict[int, list[str]]:
    """What would have to move, and could, for each service without a place, by its index."""
    forgetful = [
        replace(each, need=replace(each.need, roles=tuple(
            replace(role, previous=None) for role in each.need.roles
        )))
        for each in listed
    ]  # fmt: skip
    outcome = search(forgetful, pools, max_steps)
    moves = [
        f"{each.need.plan.service}/{role.name} to {pools.args[pool].name}"
        for each, option in zip(listed, outcome.options, strict=True)
        for role, pool in zip(each.need.roles, option.assignment or (), strict=False)
        if role.previous is not None and role.previous.pool != pools.args[pool].name
    ]
    both = list(zip(found.options, outcome.options, strict=True))
    if any(old.assignment is not None and new.assignment is None for old, new in both):
        return {}  # it would only take the place of another one
    return {
        at: moves
        for at, (old, new) in enumerate(both)
        if old.assignment is None and new.assignment is not None
    }


def _written(
    service: InferenceServiceArgs, record: ServicePlacement, inventory: InventoryArgs
) -> InferenceServiceArgs:
    by_name = {pool.name: pool for pool in inventory.pools}
    chosen = {role.name: by_name[role.pool] for role in record.roles}
    return on_pools(service, chosen, inventory) if chosen else service


def _left(pools: Pools, at: int, load: Load) -> PoolLeft:
    pool, placed = pools.args[at], accelerators(load)
    return PoolLeft(
        pool=pool.name,
        nodes=pool.nodes,
        accelerators=pool.nodes * pool.accelerators,
        in_use=sum(pool.in_use),
        placed=placed,
        left=pools.free(at) - placed,
        whole_nodes=pools.whole_nodes(at, load),
        certain=pools.fit(at, load) is Fit.CERTAIN,
    )


def _args(given: InferenceServiceArgs | Mapping[str, Any]) -> InferenceServiceArgs:
    if isinstance(given, InferenceServiceArgs):
        return given
    document = examine_mapping(given, "")
    if document.args is None:
        raise InvalidServiceError(document.findings)
    return document.args
