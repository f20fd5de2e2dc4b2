"""Places services on the node pools of an inventory: the entry point of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_capacity.placement import _selectors as selectors, explain
from fusioninfer_capacity.placement._packing import (
    PoolFit,
    PoolLoad,
    Pools,
    Usage,
    count_accelerators,
)
from fusioninfer_capacity.placement._search import MAX_STEPS, Outcome, add_usage, search
from fusioninfer_capacity.placement.problem import ServiceRequest, build_request, list_templates
from fusioninfer_capacity.placement.result import (
    Placement,
    PoolLeft,
    PreviousPlacement,
    PreviousPools,
    ServicePlacement,
    make_key,
    read_previous,
)
from fusioninfer_pulumi.plugins.capacity import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    OUTPUT_HINT,
    OUTPUT_NOT_ALLOWED,
    Finding,
    InferenceServiceArgs,
    InvalidServiceError,
    InventoryArgs,
    InventorySource,
    NodePoolArgs,
    RoleArgs,
    Rule,
    ServicePlacementArgs,
    ServicePlan,
    error,
    expand,
    filter_errors,
    is_accelerator,
    load_inventory,
    plan_service,
    quote_value,
    validate_mapping,
    warning,
)

PLACEMENT_NOT_PROVEN = Rule("placement-not-proven")
RESOURCE_NOT_ACCELERATOR = Rule("resource-not-accelerator")
POOL_UNKNOWN = Rule("pool-unknown")


def place(
    services: Sequence[InferenceServiceArgs | Mapping[str, Any]],
    inventory: InventorySource,
    *,
    previous: PreviousPlacement = None,
) -> Placement:
    """Choose a node pool for each role of several services, all together.

    Roles get pools that their pod templates and `placement` allow, in which the pods of all
    services fit at once. Among equal placements, earlier services in the list have precedence;
    roles in `previous` keep their pool if they still fit. The same input gives the same result.

    Args:
        services: The services, each with a name.
        inventory: The node pools: a path of a `NodePoolInventory`, its data, or the result of
            `load_inventory` or `read_inventory`.
        previous: Where services were placed before: the result of `place` or `read_placement`, the
            JSON output of the command `place` as a path or as data, or a mapping such as
            `{"namespace/name": {"role": "pool"}}` or `{"name": ...}`. By default no service runs.

    Returns:
        The services to pass to `InferenceService` (`.services`), and the reasons of the placement.

    Raises:
        InvalidServiceError: Services are invalid or not placed; it has the errors of all services.
        OSError: A file cannot be read.
    """
    pools = load_inventory(inventory)
    if inventory_errors := filter_errors(check_inventory(pools)):
        raise InvalidServiceError(inventory_errors, "inventory")
    args = [_read_args(service) for service in services]
    placed = place_services(args, pools, previous=read_previous(previous))
    problems = [
        (str(args[index].name or index + 1), finding)
        for index, items in sorted(placed.findings.items())
        for finding in filter_errors(items)
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
    """Place services without raising; a service that is not placed is unchanged.

    The inventory must be valid. `plans` are computed if they are not passed. After `max_steps`
    combinations the search returns the best one so far.
    """
    previous = previous or {}
    services = [expand(args).args for args in services]  # pools are selected in their templates
    pools = Pools(inventory.pools)
    plans = [plan_service(service) for service in services] if plans is None else plans
    findings = _check_inputs(services, plans, inventory)
    valid = [position for position in range(len(services)) if position not in findings]
    requests = []
    for position in valid:
        plan = plans[position]
        key = make_key(plan.namespace, plan.service)
        previous_pools = previous.get(key) or previous.get(plan.service, {})
        requests.append(
            build_request(plan, inventory, previous_pools, services[position].placement.colocate)
        )
    outcome = search(requests, pools, max_steps)
    final = outcome.options[-1].usage if requests else pools.unused
    has_unplaced = any(option.assignment is None for option in outcome.options)
    moves = _find_moves(requests, outcome, pools, max_steps) if previous and has_unplaced else {}
    placed: list[ServicePlacement | None] = [None] * len(services)
    earlier_usage = pools.unused
    for index, (position, request) in enumerate(zip(valid, requests, strict=True)):
        option = outcome.options[index]
        other_usage = _sum_usage(index, requests, outcome, pools)
        record = explain.build_record(request, option, earlier_usage, other_usage, pools)
        findings[position] = list(
            explain.check_unplaced(request, record, moves.get(index, ()), pools)
            if option.assignment is None
            else explain.check_placed(request, record, option.assignment, final, pools)
        )
        placed[position], earlier_usage = record, option.usage
    if not outcome.proven:
        findings[-1] = [
            warning(
                PLACEMENT_NOT_PROVEN,
                (),
                f"the placement may not be the best one: the search stopped after {max_steps} "
                "combinations and chose the best of these; name pools in placement.pools, or pass "
                "a previous placement",
            )
        ]
    return Placement(
        services=tuple(
            service if record is None else _select_pools(service, record, inventory)
            for service, record in zip(services, placed, strict=True)
        ),
        placed=tuple(placed),
        pools=tuple(_describe_pool(pools, position, load) for position, load in enumerate(final)),
        findings={position: tuple(items) for position, items in findings.items() if items},
        proven=outcome.proven,
        steps=outcome.steps,
    )


def check_inventory(inventory: InventoryArgs) -> list[Finding]:
    """Return errors of an inventory that the validation of its fields does not find."""
    return [
        error(
            RESOURCE_NOT_ACCELERATOR,
            ("pools", index, "resource"),
            f"{quote_value(pool.resource)} is not an accelerator resource",
        )
        for index, pool in enumerate(inventory.pools)
        if pool.resource is not None and not is_accelerator(pool.resource)
    ]


def _check_inputs(
    services: Sequence[InferenceServiceArgs], plans: Sequence[ServicePlan], inventory: InventoryArgs
) -> dict[int, list[Finding]]:
    """Return the errors that prevent services from being placed, by the index of the service."""
    by_service: dict[int, list[Finding]] = {}
    keys: dict[str, int] = {}
    for index, (service, plan) in enumerate(zip(services, plans, strict=True)):
        problems = list(_check_service(service, plan, inventory))
        if service.name is not None:
            first = keys.setdefault(make_key(service.namespace, service.name), index)
            if first != index:
                message = f"is also the name of service {first + 1} of the list"
                problems.append(error(DUPLICATE_NAME, ("metadata", "name"), message))
        if problems:
            by_service[index] = problems
    return by_service


def _check_service(
    service: InferenceServiceArgs, plan: ServicePlan, inventory: InventoryArgs
) -> Iterator[Finding]:
    if service.name is None:
        yield error(FIELD_REQUIRED, ("metadata", "name"), "is required to place a service")
        return
    yield from filter_errors(plan.findings)
    known = [pool.name for pool in inventory.pools]
    for position, role in enumerate(service.roles):
        for index, name in enumerate((role.placement and role.placement.pools) or ()):
            if name not in known:
                yield error(
                    POOL_UNKNOWN,
                    ("roles", position, "placement", "pools", index),
                    f"unknown pool {quote_value(name)}; the inventory has {', '.join(known)}",
                )
        for field, template in list_templates(role):
            for path in selectors.find_outputs(template["spec"]):
                yield error(
                    OUTPUT_NOT_ALLOWED,
                    ("roles", position, field, "spec", *path),
                    f"is read to choose a pool and {OUTPUT_HINT}",
                )


def _find_moves(
    requests: Sequence[ServiceRequest], first: Outcome, pools: Pools, max_steps: int
) -> dict[int, list[str]]:
    """Return the moves of roles that would make an unplaced service fit, by the service's index."""
    unpinned = [
        replace(request, roles=tuple(replace(role, previous=None) for role in request.roles))
        for request in requests
    ]
    outcome = search(unpinned, pools, max_steps)
    moves = [
        f"{request.plan.service}/{role.name} to {pools.args[pool].name}"
        for request, option in zip(requests, outcome.options, strict=True)
        for role, pool in zip(request.roles, option.assignment or (), strict=False)
        if role.is_moved_to(pools.args[pool])
    ]
    unplaced = {index for index, option in enumerate(first.options) if option.assignment is None}
    still_unplaced = {
        index for index, option in enumerate(outcome.options) if option.assignment is None
    }
    if still_unplaced - unplaced:
        return {}  # other services would become unplaced
    return dict.fromkeys(unplaced - still_unplaced, moves)


def _sum_usage(
    index: int, requests: Sequence[ServiceRequest], outcome: Outcome, pools: Pools
) -> Usage:
    """Return the usage of all services except one."""
    usage = pools.unused
    for position, (request, option) in enumerate(zip(requests, outcome.options, strict=True)):
        if position != index and option.assignment is not None:
            usage = add_usage(usage, request, option.assignment, minimum=option.minimum)
    return usage


def _describe_pool(pools: Pools, index: int, load: PoolLoad) -> PoolLeft:
    pool, placed = pools.args[index], count_accelerators(load)
    return PoolLeft(
        pool=pool.name,
        nodes=pool.nodes,
        accelerators=pool.nodes * pool.accelerators,
        in_use=sum(pool.in_use),
        placed=placed,
        left=pools.count_free(index) - placed,
        whole_nodes=pools.count_whole_nodes(index, load),
        certain=pools.fit(index, load) is PoolFit.CERTAIN,
    )


def _select_pools(
    service: InferenceServiceArgs, record: ServicePlacement, inventory: InventoryArgs
) -> InferenceServiceArgs:
    """Return a service whose roles select their pools and tolerate their taints.

    All other fields stay, Outputs included. `placement` is removed, because it has been applied.
    """
    if not record.roles:
        return service
    by_name = {pool.name: pool for pool in inventory.pools}
    chosen = {role.name: by_name[role.pool] for role in record.roles}
    roles = [
        _select_pool(role, chosen[role.name], inventory) if role.name in chosen else role
        for role in service.roles
    ]
    return service.model_copy(update={"roles": roles, "placement": ServicePlacementArgs()})


def _select_pool(role: RoleArgs, pool: NodePoolArgs, inventory: InventoryArgs) -> RoleArgs:
    attributes = {"leaderTemplate": "leader_template", "workerTemplate": "worker_template"}
    update: dict[str, Any] = {"placement": None}
    if role.accelerator is None:
        # Imported here, because most commands place nothing.
        from fusioninfer_capacity.fit.roles import name_accelerator  # noqa: PLC0415  # see above

        update["accelerator"] = name_accelerator(pool)
    for field, template in list_templates(role):
        spec = selectors.select_pool(template["spec"], pool, inventory)
        update[attributes.get(field, field)] = {**template, "spec": spec}
    return role.model_copy(update=update)


def _read_args(service: InferenceServiceArgs | Mapping[str, Any]) -> InferenceServiceArgs:
    if isinstance(service, InferenceServiceArgs):
        return service
    args, findings = validate_mapping(service, "")
    if args is None:
        raise InvalidServiceError(findings)
    return args
