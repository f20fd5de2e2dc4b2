"""The pods of a service, their gangs and Service, and their capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutArgs, WaitArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_object, metadata
from fusioninfer_pulumi.topology.capacity_model import (
    Capacity,
    NodePool,
    RoleDemand,
    capacity,
    group_capacity,
    pools_for_gpus,
)
from fusioninfer_pulumi.topology.gang import GangPlan, gang_form, gang_minima, required_replicas
from fusioninfer_pulumi.topology.role_plan import RolePlan


@dataclass(frozen=True, kw_only=True)
class Topology(ServiceMeta):
    """The pods of a service and their gangs.

    Attributes:
        roles: Roles that run pods, in the order of the spec.
        groups: Number of serving groups, None where the service has none.
        gangs: The gang of the service, or one for each serving group, which differ only in their
            names. Empty if pods are scheduled one by one or none exist.
        shape: What the service is, as its spec says.
        rollout: The `rollout` settings as the user wrote them.
        wait: What an update waits for.
    """

    roles: tuple[RolePlan, ...]
    groups: int | None
    gangs: tuple[GangPlan, ...]
    shape: ServiceShape
    rollout: RolloutArgs
    wait: WaitArgs

    @property
    def gang(self) -> GangPlan | None:
        """The gang, of the first serving group if there are several; None without gangs."""
        return self.gangs[0] if self.gangs else None

    @property
    def total_pods(self) -> int:
        """Pods of all serving roles."""
        return sum(role.total_pods for role in self.roles)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all serving roles."""
        return sum(role.total_accelerators for role in self.roles)


def compute_capacity_for_gpus(plan: Topology, gpus: Sequence[int]) -> list[Capacity]:
    """Return the capacity for each number of free accelerators.

    The nodes have the size of the largest pod.
    """
    largest = max((role.accelerators_per_pod for role in plan.roles), default=0)
    return [compute_capacity(plan, pools_for_gpus(count, largest)) for count in gpus]


def compute_capacity(plan: Topology, pools: Sequence[NodePool]) -> Capacity:
    """Return the capacity on node pools whose accelerators are all free."""
    minima = required_replicas(plan.roles, gang_minima(plan.gang))
    demands = [
        RoleDemand(role.name, role.group_replicas, role.pod_sizes, minima[role.name])
        for role in plan.roles
    ]
    form = gang_form(plan.gang, queued=plan.shape.local_queue is not None)
    if plan.groups is not None:
        running = group_capacity(demands, form, pools, plan.groups)
    else:
        running = capacity(demands, form, pools)
    # The nodes' places in the network are unknown here.
    bound_to_network = plan.gang is not None and plan.gang.topology is not None
    return replace(running, exact=False) if bound_to_network else running


def service_reference(
    service: str, roles: Sequence[RolePlan], shape: ServiceShape
) -> dict[str, Any]:
    """Return the reference of a route to the Service.

    Its port is that of the first role that receives requests; roles scaled to zero come last.
    """
    entries = [role for role in roles if role.component_type in shape.entry_types]
    running = [role for role in entries if role.replicas]
    port = (running or entries)[0].pods.port
    return {"kind": "Service", "name": object_names.serving_service(service), "port": port}


def serving_service(plan: Topology) -> dict[str, Any]:
    """Build the Service of a plan without an endpoint picker.

    It selects leaders only, and no prefill pods where decode is separate.
    """
    selector = {labels.SERVICE: plan.service, labels.LWS_WORKER_INDEX: "0"}
    types = plan.shape.entry_types
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = types[0].value
    reference = service_reference(plan.service, plan.roles, plan.shape)
    name, port = reference["name"], reference["port"]
    ports = [{"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}]
    spec = {"type": "ClusterIP", "selector": selector, "ports": ports}
    named = metadata(plan, name, {labels.SERVICE: plan.service})
    return build_object("v1", "Service", named, spec=spec)
