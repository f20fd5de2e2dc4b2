"""The plan of a service, and its capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from fusioninfer_pulumi.api.provenance import Provenance
from fusioninfer_pulumi.api.rollout import RolloutArgs, WaitArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.operations.operations import OperationsPlan
from fusioninfer_pulumi.pods.model_files import ModelPlan
from fusioninfer_pulumi.routing.routing_plan import PickerPlan, Routing
from fusioninfer_pulumi.topology.capacity_model import (
    Capacity,
    NodePool,
    RoleDemand,
    build_pools,
    compute_group_capacity,
)
from fusioninfer_pulumi.topology.gang import (
    GangPlan,
    get_gang_minima,
    get_gang_scope,
    get_required_replicas,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan


class RoleMemory(Protocol):
    """The memory estimate for an accelerator of a role, as `plan` and `diff` print it."""

    @property
    def columns(self) -> Sequence[str]:
        """Titles of the cells of `row`."""

    def row(self) -> Sequence[str]:
        """Return the cells of the role's row in the memory table."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the estimate as JSON."""

    def describe_change(self, new: Any) -> str | None:
        """Return a description of the change to a new estimate, or None if nothing changes."""


class RoleEngine(NamedTuple):
    """The engine in a generated container.

    Attributes:
        role: Name of the role.
        title: Name of the engine as its project spells it, such as `SGLang`.
        release: Its release.
        is_default: Whether the library chose the release.
    """

    role: str
    title: str
    release: str
    is_default: bool


@dataclass(frozen=True, kw_only=True)
class ServicePlan:
    """The plan of a service, from which its Kubernetes objects are rendered.

    Attributes:
        meta: Name and namespace, and metadata of all objects.
        shape: Decisions that affect all roles, such as layout, gang mode and scheduler.
        roles: All roles but the router, in the order of the spec.
        gangs: The gang of the service, or a gang for each serving group. Gangs of groups differ
            only in name and index. Empty if the service needs no gang, or if no replica is
            required.
        rollout: The user's `rollout` settings.
        wait: The user's `wait` settings.
        routing: How requests reach the pods. None if there is no router role; clients then use the
            Service.
        model: PersistentVolumeClaim and warm-up Job of the model's cache.
        findings: All findings, errors first.
        operations: Disruption budgets, autoscalers and monitors.
        memory: Memory estimates by role name, for roles that the capacity package can estimate.
        provenance: The user's spec, and the sources of generated values and parts of pods.
        engines: Engines of generated containers.
    """

    meta: ServiceMeta
    shape: ServiceShape
    roles: tuple[RolePlan, ...]
    gangs: tuple[GangPlan, ...]
    rollout: RolloutArgs
    wait: WaitArgs
    routing: Routing | None
    model: ModelPlan
    provenance: Provenance
    findings: tuple[Finding, ...] = ()
    operations: OperationsPlan = field(default_factory=OperationsPlan)
    memory: Mapping[str, RoleMemory] = field(default_factory=dict)
    engines: tuple[RoleEngine, ...] = ()

    @property
    def service(self) -> str:
        """Kubernetes name of the service."""
        return self.meta.service

    @property
    def namespace(self) -> Any:
        """Namespace of the service; may be an Output."""
        return self.meta.namespace

    def in_namespace(self, namespace: str) -> ServicePlan:
        """Return the plan with all objects in another namespace."""
        return replace(self, meta=replace(self.meta, namespace=namespace))

    @property
    def gang(self) -> GangPlan | None:
        """The service's gang, or its first group's gang; None if the service has no gang."""
        return self.gangs[0] if self.gangs else None

    @property
    def total_pods(self) -> int:
        """Pods of all serving roles."""
        return sum(role.total_pods for role in self.roles)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all serving roles."""
        return sum(role.total_accelerators for role in self.roles)

    @property
    def picker(self) -> PickerPlan | None:
        """The endpoint picker and its pool; None if it does not exist or cannot be planned."""
        return self.routing.picker if self.routing is not None else None

    @property
    def needs_serving_service(self) -> bool:
        """Whether a Service selects the serving pods, for clients or for the route."""
        route = self.routing.route if self.routing is not None else None
        return not self.shape.has_endpoint_picker or (
            route is not None and route.has_service_backend(self.service)
        )

    @property
    def clients_use_service(self) -> bool:
        """Whether clients use the Service: there is neither an endpoint picker nor a route."""
        if not self.roles:
            return False
        if self.routing is None:
            return True
        router = self.routing.router
        is_routed = self.routing.route is not None or router.is_routed_externally
        return not router.has_endpoint_picker and not is_routed


def compute_capacity_for_gpus(plan: ServicePlan, gpus: Sequence[int]) -> list[Capacity]:
    """Return the capacity for each number of free accelerators in `gpus`.

    Each node is assumed to have the accelerators of the largest pod. Remaining accelerators
    form a smaller node.
    """
    node_size = max((role.accelerators_per_pod for role in plan.roles), default=0)
    return [compute_capacity(plan, build_pools(count, node_size)) for count in gpus]


def compute_capacity(plan: ServicePlan, pools: Sequence[NodePool]) -> Capacity:
    """Return the capacity on node pools whose accelerators are all free."""
    required = get_required_replicas(plan.roles, get_gang_minima(plan.gang))
    demands = [
        RoleDemand(role.name, role.group_replicas, role.pod_accelerators, required[role.name])
        for role in plan.roles
    ]
    gang_scope = get_gang_scope(plan.gang, has_kueue=plan.shape.local_queue is not None)
    capacity = compute_group_capacity(demands, gang_scope, pools, plan.shape.groups)
    # A network topology constraint also depends on where the nodes are, which is unknown here.
    has_topology = plan.gang is not None and plan.gang.topology is not None
    return replace(capacity, exact=False) if has_topology else capacity
