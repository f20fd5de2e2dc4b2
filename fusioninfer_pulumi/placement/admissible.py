"""On which pools a role may be, whatever else is placed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs, NodePoolArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.placement import selectors
from fusioninfer_pulumi.placement.needs import RoleNeed, ServiceNeed

#: Indexes of pools, one for each role of a service.
Assignment = tuple[int, ...]
#: Combinations of pools that are looked at for one service.
MAX_ASSIGNMENTS = 5_000


@dataclass(frozen=True)
class Choices:
    """What one service may choose from.

    Attributes:
        need: The service.
        reasons: For each role and pool, why the role may not be there; empty where it may.
        assignments: Combinations of pools that are allowed, in the order of the inventory.
        too_many: Combinations that the roles have by themselves, where that is more than are
            looked at; `assignments` is empty then.
    """

    need: ServiceNeed
    reasons: tuple[tuple[tuple[str, ...], ...], ...]
    assignments: tuple[Assignment, ...]
    too_many: int = 0


def choices(need: ServiceNeed, inventory: InventoryArgs) -> Choices:
    """Finds the pools that the roles of a service may be on.

    Args:
        need: The service.
        inventory: The pools.
    """
    reasons = tuple(
        tuple(tuple(_reasons(role, pool, inventory)) for pool in inventory.pools)
        for role in need.roles
    )
    allowed = [[at for at, why in enumerate(row) if not why] for row in reasons]
    count = math.prod(len(pools) for pools in allowed)
    if count > MAX_ASSIGNMENTS:
        return Choices(need, reasons, (), count)
    together = tuple(
        each
        for each in itertools.product(*allowed)
        if need.colocate is None or colocated([inventory.pools[at] for at in each], need.colocate)
    )
    return Choices(need, reasons, together)


def colocated(pools: Sequence[NodePoolArgs], attribute: str) -> bool:
    """Tells whether pools have one value of a device attribute or label."""
    values = {attribute_of(pool, attribute) for pool in pools}
    return len(values) == 1 and None not in values


def attribute_of(pool: NodePoolArgs, attribute: str) -> str | None:
    """Value of a device attribute, else of a node label; None where the pool has neither."""
    return pool.device.attributes.get(attribute, node_labels(pool).get(attribute))


def node_labels(pool: NodePoolArgs) -> Mapping[str, str]:
    """Labels of a pool's nodes as far as the pool's own entry tells."""
    return {"kubernetes.io/os": "linux", **pool.labels}


def templates(role: RoleArgs) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the pod templates of a role under their field names."""
    for field, template in (
        ("template", role.template),
        ("leaderTemplate", role.leader_template),
        ("workerTemplate", role.worker_template),
    ):
        if template is not None:
            yield field, template


def _reasons(role: RoleNeed, pool: NodePoolArgs, inventory: InventoryArgs) -> Iterator[str]:
    args = role.plan.args
    wanted = args.placement
    named = wanted.pools if wanted is not None else None
    if named is not None and pool.name not in named:
        yield "not among placement.pools"
    # The pool is known by this label, whether its entry repeats it or not.
    labels = {**node_labels(pool), inventory.selector_label or "": inventory.selected_by(pool)}
    told: set[str] = set()
    for _, template in templates(args):
        told.update(selectors.misfits(template["spec"], labels))
        for taint in selectors.untolerated(template["spec"], pool.taints):
            if named is None and not selectors.is_open(taint):
                told.add(
                    f"taint {selectors.shown_taint(taint)} is not tolerated (tolerate it, or name "
                    "the pool in placement.pools)"
                )
    yield from sorted(told)
    yield from _device(role, pool)
    other = sorted(role.resources - {pool.resource})
    unclaimable = sorted(role.claims.classes - set(pool.device_classes))
    if other:
        yield f"offers {_offered(pool)}, pods ask for {', '.join(other)}"
    elif unclaimable:
        yield f"offers {_offered(pool)}, pods claim {', '.join(unclaimable)}"
    elif role.shape and role.shape[0] > pool.accelerators:
        yield f"nodes have {pool.accelerators} accelerators, a pod needs {role.shape[0]}"


def _offered(pool: NodePoolArgs) -> str:
    return ", ".join([*([pool.resource] if pool.resource else []), *pool.device_classes])


def _device(role: RoleNeed, pool: NodePoolArgs) -> Iterator[str]:
    wanted = role.plan.args.placement
    if wanted is None or wanted.device is None:
        return
    for name, values in wanted.device.attributes.items():
        has = attribute_of(pool, name)
        if has not in values:
            yield f"{name} {has or 'is not stated'}, wanted {' or '.join(values)}"
    least, memory = wanted.device.min_memory, pool.device.memory
    if least is not None and (memory is None or quantity.parse(memory) < quantity.parse(least)):
        yield f"memory {memory or 'is not stated'}, wanted at least {least}"
