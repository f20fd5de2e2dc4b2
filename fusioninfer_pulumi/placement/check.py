"""What is wrong with services or an inventory before anything is placed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import LIFT, Finding, Location, error, errors, shown
from fusioninfer_pulumi.kube.resources import is_accelerator
from fusioninfer_pulumi.placement import selectors
from fusioninfer_pulumi.placement.admissible import templates
from fusioninfer_pulumi.placement.previous import service_key
from fusioninfer_pulumi.service_plan import ServicePlan


def inventory_findings(inventory: InventoryArgs) -> list[Finding]:
    """What is wrong with an inventory that its models accept."""
    return [
        error(
            "resource-not-accelerator",
            ("pools", index, "resource"),
            f"{shown(pool.resource)} is no accelerator that pods are counted by",
        )
        for index, pool in enumerate(inventory.pools)
        if pool.resource is not None and not is_accelerator(pool.resource)
    ]


def input_findings(
    services: Sequence[InferenceServiceArgs],
    plans: Sequence[ServicePlan],
    inventory: InventoryArgs,
) -> dict[int, list[Finding]]:
    """Why services cannot be placed, whatever the pools hold.

    Args:
        services: The services.
        plans: The plan of each.
        inventory: The pools.

    Returns:
        Errors by the index of the service; none for the others.
    """
    found: dict[int, list[Finding]] = {}
    keys: dict[str, int] = {}
    for index, (service, plan) in enumerate(zip(services, plans, strict=True)):
        problems = list(_service(service, plan, inventory))
        if service.name is not None:
            first = keys.setdefault(service_key(service.namespace, service.name), index)
            if first != index:
                problems.append(
                    error(
                        "service-name-not-unique",
                        ("metadata", "name"),
                        f"is also the name of service {first + 1} of the list",
                    )
                )
        if problems:
            found[index] = problems
    return found


def _service(
    service: InferenceServiceArgs, plan: ServicePlan, inventory: InventoryArgs
) -> Iterator[Finding]:
    if service.name is None:
        yield error(
            "service-name-missing",
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
                    "pool-unknown",
                    ("roles", at, "placement", "pools", index),
                    f"no pool of that name, got {shown(name)}; the inventory has "
                    f"{', '.join(known)}",
                )
        yield from _templates(("roles", at), role)


def _templates(at: Location, role: RoleArgs) -> Iterator[Finding]:
    for field, template in templates(role):
        spec: Mapping[str, Any] = template["spec"]
        for path in selectors.unknown_fields(spec):
            yield error(
                "output-not-allowed",
                (*at, field, "spec", *path),
                f"is read to choose a pool and {LIFT}",
            )
