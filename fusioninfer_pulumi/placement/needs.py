"""What services need of node pools: the problem that the search solves, without any spec in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.kube.resources import is_accelerator, pod_requests
from fusioninfer_pulumi.placement.claims import Claimed, claimed
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import minima_of, required_replicas
from fusioninfer_pulumi.topology.role import RolePlan

#: Accelerators of each pod of a replica, the largest first; pods that ask for none left out.
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Previous:
    """Where a role was placed before.

    Attributes:
        pool: Name of its pool.
        accelerators: Accelerators that all of its replicas asked for then, None when unknown.
    """

    pool: str
    accelerators: int | None = None


@dataclass(frozen=True)
class RoleNeed:
    """What one role needs.

    Attributes:
        plan: The role.
        shape: Accelerators of the pods of one replica, claimed ones among them.
        replicas: Replicas that are wanted; the most of them where they are scaled by load.
        minimum: Replicas that it starts with: those of the gang, or before it is scaled.
        resources: Names of the accelerators that its pods ask for.
        claims: What each of its pods claims.
        previous: Where it was placed before, None for a new one.
    """

    plan: RolePlan
    shape: Shape
    replicas: int
    minimum: int
    resources: frozenset[str]
    claims: Claimed
    previous: Previous | None

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.plan.name

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas."""
        return sum(self.shape) * self.replicas

    @property
    def unchanged(self) -> bool:
        """Whether it asks for what it asked for when it was placed."""
        if self.previous is None:
            return False
        # What a live set has is what load asks for, within bounds that are not known there.
        scaled = self.plan.args.autoscaling is not None
        return scaled or self.previous.accelerators in (None, self.accelerators)


@dataclass(frozen=True)
class ServiceNeed:
    """What one service needs.

    Attributes:
        plan: The service.
        roles: Its serving roles.
        colocate: Attribute or label that must have one value on the pools of all roles.
    """

    plan: ServicePlan
    roles: tuple[RoleNeed, ...]
    colocate: str | None

    @property
    def partial(self) -> bool:
        """Whether it may start with less than all replicas."""
        return any(role.minimum < role.replicas for role in self.roles)


def service_need(
    plan: ServicePlan,
    colocate: str | None,
    previous: Mapping[str, Previous],
    device_classes: Collection[str] = (),
) -> ServiceNeed:
    """Reads off a plan what has to be placed.

    Args:
        plan: The service.
        colocate: Attribute or label that must be the same for all roles, None for no such demand.
        previous: Where its roles were placed before, by their names.
        device_classes: DeviceClasses whose devices are accelerators of some pool.
    """
    claims = {role.name: claimed(plan.service, role, device_classes) for role in plan.roles}
    # Each serving group starts by itself; a minimum is that of one of them.
    minima, groups = required_replicas(plan.roles, minima_of(plan.gang)), plan.groups or 1
    return ServiceNeed(
        plan=plan,
        roles=tuple(
            RoleNeed(
                plan=role,
                shape=_shape(role, claims[role.name]),
                replicas=_most(role, groups),
                minimum=minima[role.name] * groups,
                resources=_resources(role),
                claims=claims[role.name],
                previous=previous.get(role.name),
            )
            for role in plan.roles
        ),
        colocate=colocate,
    )


def _shape(role: RolePlan, claims: Claimed) -> Shape:
    sizes = (size + claims.devices for size in role.pod_sizes)
    return tuple(sorted((size for size in sizes if size), reverse=True))


def _most(role: RolePlan, groups: int) -> int:
    scaled = role.args.autoscaling
    return max(len(role.replicas), scaled.max_replicas * groups if scaled is not None else 0)


def _resources(role: RolePlan) -> frozenset[str]:
    templates: Sequence[Mapping[str, object]] = [role.leader_template]
    if role.nodes > 1:
        templates = [*templates, role.worker_template]
    return frozenset(
        name
        for template in templates
        for name, amount in pod_requests(template).items()
        if is_accelerator(name) and amount > 0
    )
