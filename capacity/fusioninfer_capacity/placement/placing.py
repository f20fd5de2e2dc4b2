"""Places services on the node pools of an inventory: the entry of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_capacity.placement import _selectors as selectors
from fusioninfer_capacity.placement import explain
from fusioninfer_capacity.placement._packing import Fit, Load, Pools, Usage, accelerators
from fusioninfer_capacity.placement._search import MAX_STEPS, Outcome, search, usage_with
from fusioninfer_capacity.placement.problem import ServiceRequest, service_request, templates
from fusioninfer_capacity.placement.result import (
    Placement,
    PoolLeft,
    PreviousPlacement,
    PreviousPools,
    ServicePlacement,
    read_previous,
    service_key,
)
from fusioninfer_pulumi.plugins.capacity import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    OUTPUT_HINT,
    OUTPUT_NOT_ALLOWED,
    Finding,
    InferenceServiceArgs,
    InvalidServiceError,
    Inventory,
    InventoryArgs,
    NodePoolArgs,
    RoleArgs,
    Rule,
    ServicePlacementArgs,
    ServicePlan,
    error,
    errors,
    expand,
    is_accelerator,
    load_inventory,
    plan_service,
    show,
    validate_mapping,
    warning,
)

PLACEMENT_NOT_PROVEN = Rule("placement-not-proven")
RESOURCE_NOT_ACCELERATOR = Rule("resource-not-accelerator")
POOL_UNKNOWN = Rule("pool-unknown")


def place(
    services: Sequence[InferenceServiceArgs | Mapping[str, Any]],
    inventory: Inventory,
    *,
    previous: PreviousPlacement = None,
) -> Placement:
    """Choose a node pool for each role of several services, all together.

    Roles get pools that their pod templates and `placement` allow, in which the pods of all
    services fit at once. Of equals, services in front of the list have precedence; roles that have
    a place in `previous` keep it as long as it holds them. The same input gives the same result.

    Args:
        services: The services, each with a name.
        inventory: The node pools: a path of a `NodePoolInventory`, its data, or what
            `load_inventory` or `read_inventory` returned.
        previous: Where services were placed before: what `place` or `read_placement` returned,
            the JSON of `plan --inventory` as a path or as data, or a mapping of service (`name` or
            `namespace/name`) to role to pool; by default nothing is running yet.

    Returns:
        The placed services (`.services`, to hand to `InferenceService`), and why they are there.

    Raises:
        InvalidServiceError: A service is invalid or has no place; it has a finding for each.
        OSError: A file cannot be read.
    """
    pools = load_inventory(inventory)
    if inventory_errors := errors(inventory_findings(pools)):
        raise InvalidServiceError(inventory_errors, "inventory")
    read = [_args(service) for service in services]
    placed = place_services(read, pools, previous=read_previous(previous))
    problems = [
        (str(read[at].name or at + 1), finding)
        for at, listed in sorted(placed.findings.items())
        for finding in errors(listed)
    ]
    if problems:
        names, findings = zip(*problems, strict=True)
        raise InvalidServiceError(findings, names)
    return placed


def place_services(
    services: Sequence[InferenceServiceArgs],
    inventory: InventoryArgs,
    *,
    previous: PreviousPools | None = None,
    plans: Sequence[ServicePlan] | None = None,
    max_steps: int = MAX_STEPS,
) -> Placement:
    """Place services without raising; a service without a place, or with errors, is unchanged.

    Findings are kept by the index of the service. The inventory has no errors of its own; `plans`
    are made here by default; after `max_steps` combinations the search takes the best one at hand.
    """
    previous = previous or {}
    services = [expand(args).args for args in services]  # pools are selected in their templates
    pools = Pools(inventory.pools)
    plans = [plan_service(service) for service in services] if plans is None else plans
    findings = _input_findings(services, plans, inventory)
    indexes = [at for at in range(len(services)) if at not in findings]
    requests = []
    for at in indexes:
        plan, key = plans[at], service_key(plans[at].namespace, plans[at].service)
        was = previous.get(key) or previous.get(plan.service, {})
        requests.append(service_request(plan, inventory, was, services[at].placement.colocate))
    outcome = search(requests, pools, max_steps)
    final = outcome.options[-1].usage if requests else pools.unused
    moves = _moves(requests, outcome, pools, max_steps) if previous and outcome.tiers[2] else {}
    placed: list[ServicePlacement | None] = [None] * len(services)
    before = pools.unused
    for index, (at, request) in enumerate(zip(indexes, requests, strict=True)):
        option = outcome.options[index]
        others = _usage_without(index, requests, outcome, pools)
        record = explain.service_placement(request, option, before, others, pools)
        findings[at] = list(
            explain.unplaced_findings(request, record, moves.get(index, ()), pools)
            if option.assignment is None
            else explain.placed_findings(request, record, option.assignment, final, pools)
        )
        placed[at], before = record, option.usage
    if not outcome.proven:
        findings[-1] = [
            warning(
                PLACEMENT_NOT_PROVEN,
                (),
                f"whether this is the best placement is not known: the search stopped after "
                f"{max_steps} combinations and took the best one at hand; name pools in "
                "placement.pools, or give a previous placement",
            )
        ]
    return Placement(
        services=tuple(
            service if record is None else _on_pools(service, record, inventory)
            for service, record in zip(services, placed, strict=True)
        ),
        placed=tuple(placed),
        pools=tuple(_left(pools, at, load) for at, load in enumerate(final)),
        findings={at: tuple(listed) for at, listed in findings.items() if listed},
        proven=outcome.proven,
        steps=outcome.steps,
    )


def inventory_findings(inventory: InventoryArgs) -> list[Finding]:
    """Return what is wrong with an inventory that its models accept."""
    return [
        error(
            RESOURCE_NOT_ACCELERATOR,
            ("pools", index, "resource"),
            f"{show(pool.resource)} is not an accelerator resource",
        )
        for index, pool in enumerate(inventory.pools)
        if pool.resource is not None and not is_accelerator(pool.resource)
    ]


def _input_findings(
    services: Sequence[InferenceServiceArgs],
    plans: Sequence[ServicePlan],
    inventory: InventoryArgs,
) -> dict[int, list[Finding]]:
    """Return errors of services that can never be placed, by their indexes."""
    by_service: dict[int, list[Finding]] = {}
    keys: dict[str, int] = {}
    for index, (service, plan) in enumerate(zip(services, plans, strict=True)):
        problems = list(_service_findings(service, plan, inventory))
        if service.name is not None:
            first = keys.setdefault(service_key(service.namespace, service.name), index)
            if first != index:
                problems.append(
                    error(
                        DUPLICATE_NAME,
                        ("metadata", "name"),
                        f"is also the name of service {first + 1} of the list",
                    )
                )
        if problems:
            by_service[index] = problems
    return by_service


def _service_findings(
    service: InferenceServiceArgs, plan: ServicePlan, inventory: InventoryArgs
) -> Iterator[Finding]:
    if service.name is None:
        yield error(
            FIELD_REQUIRED,
            ("metadata", "name"),
            "is required: a service is placed under its name",
        )
        return
    yield from errors(plan.findings)
    known = [pool.name for pool in inventory.pools]
    for at, role in enumerate(service.roles):
        for index, name in enumerate((role.placement and role.placement.pools) or ()):
            if name not in known:
                yield error(
                    POOL_UNKNOWN,
                    ("roles", at, "placement", "pools", index),
                    f"no pool of that name, got {show(name)}; the inventory has {', '.join(known)}",
                )
        for field, template in templates(role):
            for path in selectors.output_fields(template["spec"]):
                yield error(
                    OUTPUT_NOT_ALLOWED,
                    ("roles", at, field, "spec", *path),
                    f"is read to choose a pool and {OUTPUT_HINT}",
                )


def _moves(
    requests: Sequence[ServiceRequest], first: Outcome, pools: Pools, max_steps: int
) -> dict[int, list[str]]:
    """Return what would have to move, and could, for each service without a place, by its index."""
    forgetful = [
        replace(request, roles=tuple(replace(role, previous=None) for role in request.roles))
        for request in requests
    ]
    outcome = search(forgetful, pools, max_steps)
    moves = [
        f"{request.plan.service}/{role.name} to {pools.args[pool].name}"
        for request, option in zip(requests, outcome.options, strict=True)
        for role, pool in zip(request.roles, option.assignment or (), strict=False)
        if role.leaves(pools.args[pool])
    ]
    unplaced = {at for at, option in enumerate(first.options) if option.assignment is None}
    still = {at for at, option in enumerate(outcome.options) if option.assignment is None}
    if still - unplaced:
        return {}  # it would only take the place of another one
    return dict.fromkeys(unplaced - still, moves)


def _usage_without(
    index: int, requests: Sequence[ServiceRequest], outcome: Outcome, pools: Pools
) -> Usage:
    """Return what all services but one hold."""
    usage = pools.unused
    for at, (request, option) in enumerate(zip(requests, outcome.options, strict=True)):
        if at != index and option.assignment is not None:
            usage = usage_with(usage, request, option.assignment, minimum=option.minimum)
    return usage


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


def _on_pools(
    service: InferenceServiceArgs, record: ServicePlacement, inventory: InventoryArgs
) -> InferenceServiceArgs:
    """Return a service whose roles select their pools and tolerate their taints.

    The user's fields stay, Outputs included. `placement` is removed, because it has been applied.
    """
    if not record.roles:
        return service
    by_name = {pool.name: pool for pool in inventory.pools}
    chosen = {role.name: by_name[role.pool] for role in record.roles}
    roles = [
        _on_pool(role, chosen[role.name], inventory) if role.name in chosen else role
        for role in service.roles
    ]
    return service.model_copy(update={"roles": roles, "placement": ServicePlacementArgs()})


def _on_pool(role: RoleArgs, pool: NodePoolArgs, inventory: InventoryArgs) -> RoleArgs:
    attributes = {"leaderTemplate": "leader_template", "workerTemplate": "worker_template"}
    changed: dict[str, Any] = {"placement": None}
    if role.accelerator is None:
        # Imported here, because most commands place nothing.
        from fusioninfer_capacity.fit.roles import pool_accelerator  # noqa: PLC0415  # see above

        changed["accelerator"] = pool_accelerator(pool)
    for field, template in templates(role):
        spec = selectors.selecting(template["spec"], pool, inventory)
        changed[attributes.get(field, field)] = {**template, "spec": spec}
    return role.model_copy(update=changed)


def _args(service: InferenceServiceArgs | Mapping[str, Any]) -> InferenceServiceArgs:
    if isinstance(service, InferenceServiceArgs):
        return service
    args, findings = validate_mapping(service, "")
    if args is None:
        raise InvalidServiceError(findings)
    return args
