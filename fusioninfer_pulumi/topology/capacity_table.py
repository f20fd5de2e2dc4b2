"""The capacity of a service on a number of free accelerators, or on node pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusioninfer_pulumi.topology.capacity import (
    Capacity,
    NodePool,
    RoleDemand,
    capacity,
    group_capacity,
    pools_for_gpus,
)
from fusioninfer_pulumi.topology.gang import gang_form, minima_of, required_replicas
from fusioninfer_pulumi.topology.topology import Topology


def capacity_for_gpus(plan: Topology, gpus: Sequence[int]) -> list[Capacity]:
    """Returns the capacity for each number of free accelerators.

    The nodes have the size of the largest pod.
    """
    largest = max((role.accelerators_per_pod for role in plan.roles), default=0)
    return [capacity_on(plan, pools_for_gpus(count, largest)) for count in gpus]


def capacity_on(plan: Topology, pools: Sequence[NodePool]) -> Capacity:
    """Returns the capacity on node pools whose accelerators are all free."""
    minima = required_replicas(plan.roles, minima_of(plan.gang))
    demands = [
        RoleDemand(role.name, role.group_replicas, role.pod_sizes, minima[role.name])
        for role in plan.roles
    ]
    if plan.groups is not None:
        found = group_capacity(demands, gang_form(plan.gang), pools, plan.groups)
    else:
        found = capacity(demands, gang_form(plan.gang), pools)
    # The nodes' places in the network are unknown here.
    bound_to_network = plan.gang is not None and plan.gang.topology is not None
    return replace(found, exact=False) if bound_to_network else found
