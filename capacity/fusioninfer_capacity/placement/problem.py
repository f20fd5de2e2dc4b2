"""The input of the search: what services request, and which pools their roles can use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_capacity.placement import _selectors as selectors
from fusioninfer_capacity.placement._packing import Shape
from fusioninfer_capacity.placement.result import PreviousPool
from fusioninfer_pulumi.plugins.capacity import (
    InventoryArgs,
    NodePoolArgs,
    RoleArgs,
    RolePlan,
    ServicePlan,
    build_claim_spec,
    get_gang_minima,
    get_required_replicas,
    is_accelerator,
    pod_requests,
    quantity,
)

#: Indexes of pools, one for each role of a service.
Assignment = tuple[int, ...]
#: Maximum number of assignments of one service.
MAX_ASSIGNMENTS = 5_000
_EXACT = "ExactCount"


@dataclass(frozen=True)
class ClaimedDevices:
    """Devices that each pod of a role claims, as far as they can be counted before pods exist.

    Attributes:
        count: Devices of the DeviceClasses in the inventory.
        classes: These DeviceClasses.
        uncounted: Claims that are not counted, each with the reason.
        has_selectors: Whether CEL expressions further restrict the devices.
    """

    count: int = 0
    classes: frozenset[str] = frozenset()
    uncounted: tuple[str, ...] = ()
    has_selectors: bool = False


@dataclass(frozen=True)
class RoleRequest:
    """The accelerators that one role requests.

    Attributes:
        shape: Accelerators of the pods of one replica, including claimed devices.
        replicas: Replicas; the maximum if an autoscaler sets them.
        minimum: Replicas that must start: the gang's minimum, or the replicas before autoscaling.
        resources: Names of the accelerator resources of its pods.
        claims: Devices that each of its pods claims.
        selects_pool: Whether the user's pod templates select a pool.
        previous: Its previous pool, or None for a new role.
    """

    plan: RolePlan
    shape: Shape
    replicas: int
    minimum: int
    resources: frozenset[str]
    claims: ClaimedDevices
    selects_pool: bool
    previous: PreviousPool | None

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
        """Whether its request is the same as when it was placed."""
        if self.previous is None:
            return False
        # A live LeaderWorkerSet has the autoscaler's replica count but not its bounds.
        has_autoscaling = self.plan.args.autoscaling is not None
        return has_autoscaling or self.previous.accelerators in (None, self.accelerators)

    def count(self, *, minimum: bool) -> int:
        """Return the replicas to place: all, or the minimum."""
        return self.minimum if minimum else self.replicas

    def is_moved_to(self, pool: NodePoolArgs) -> bool:
        """Return whether it was placed on another pool before."""
        return self.previous is not None and self.previous.name != pool.name


@dataclass(frozen=True)
class ServiceRequest:
    """The request of one service, and its possible pools.

    Attributes:
        colocate: Attribute or label that must have the same value on the pools of all roles.
        reasons: For each role, then each pool: why the role cannot run there; empty if it can.
        assignments: Assignments that `reasons` and `colocate` allow, in the order of the inventory.
        too_many: Number of assignments that `reasons` allow if that exceeds `MAX_ASSIGNMENTS`; then
            `assignments` is empty.
    """

    plan: ServicePlan
    roles: tuple[RoleRequest, ...]
    colocate: str | None
    reasons: tuple[tuple[tuple[str, ...], ...], ...]
    assignments: tuple[Assignment, ...]
    too_many: int = 0

    @property
    def partial(self) -> bool:
        """Whether the service may start with fewer than all replicas."""
        return any(role.minimum < role.replicas for role in self.roles)


def build_request(
    plan: ServicePlan,
    inventory: InventoryArgs,
    previous: Mapping[str, PreviousPool],
    colocate: str | None = None,
) -> ServiceRequest:
    """Return the request of a planned service; `previous` has its previous pools by role."""
    classes = {name for pool in inventory.pools for name in pool.device_classes}
    # Serving groups start separately, and minima are per group.
    minima = get_required_replicas(plan.roles, get_gang_minima(plan.gang))
    groups = plan.shape.groups or 1
    roles = []
    for role in plan.roles:
        claims = count_claimed_devices(role, classes)
        sizes = [size + claims.count for size in role.pod_accelerators]
        autoscaling = role.args.autoscaling
        max_replicas = autoscaling.max_replicas * groups if autoscaling is not None else 0
        roles.append(
            RoleRequest(
                plan=role,
                shape=tuple(sorted((size for size in sizes if size), reverse=True)),
                replicas=max(len(role.replicas), max_replicas),
                minimum=minima[role.name] * groups,
                resources=_list_resources(role),
                claims=claims,
                selects_pool=any(
                    inventory.selector_label in (template["spec"].get("nodeSelector") or {})
                    for _, template in list_templates(role.args)
                ),
                previous=previous.get(role.name),
            )
        )
    reasons = tuple(
        tuple(tuple(_find_reasons(role, pool, inventory)) for pool in inventory.pools)
        for role in roles
    )
    feasible = [[index for index, why in enumerate(row) if not why] for row in reasons]
    count = math.prod(len(pools) for pools in feasible)
    too_many = count if count > MAX_ASSIGNMENTS else 0
    assignments = tuple(
        assignment
        for assignment in (() if too_many else itertools.product(*feasible))
        if colocate is None
        or _is_colocated([inventory.pools[index] for index in assignment], colocate)
    )
    return ServiceRequest(plan, tuple(roles), colocate, reasons, assignments, too_many)


def _list_requests(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the device requests in a claim's spec, without malformed ones."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, Mapping) else None
    entries = requests if isinstance(requests, list) else []
    return [request for request in entries if isinstance(request, Mapping)]


def count_claimed_devices(role: RolePlan, known: Collection[str]) -> ClaimedDevices:
    """Count the devices of known DeviceClasses that each pod of a role claims."""
    devices, classes, uncounted, has_selectors = 0, set(), [], False
    claims = role.args.resource_claims or ()
    for claim in claims:
        if not claim.needs_template:
            uncounted.append(f"{claim.name}: its devices are defined by an object in the cluster")
            continue
        for request in _list_requests(build_claim_spec(claim)):
            exactly = request.get("exactly")
            if not isinstance(exactly, Mapping):
                uncounted.append(f"{claim.name}: has alternatives")
                continue
            name, mode = exactly.get("deviceClassName"), exactly.get("allocationMode", _EXACT)
            count = exactly.get("count", 1)
            if exactly.get("adminAccess"):
                continue  # shares devices that are allocated to others
            if name not in known:
                uncounted.append(f"{claim.name}: no pool names DeviceClass {name}")
            elif mode != _EXACT or not isinstance(count, int) or isinstance(count, bool):
                uncounted.append(
                    f"{claim.name}: the number of devices is unknown (allocationMode {mode})"
                )
            else:
                devices += count
                classes.add(str(name))
                has_selectors = has_selectors or bool(exactly.get("selectors"))
    template_claims = {
        str(pod_claim.get("name")): None
        for template in _list_pod_templates(role)
        for pod_claim in (template.get("spec") or {}).get("resourceClaims") or ()
    }
    role_claims = {claim.name for claim in claims}
    uncounted += [
        f"{name}: is a claim in the user's pod template"
        for name in template_claims
        if name not in role_claims
    ]
    return ClaimedDevices(devices, frozenset(classes), tuple(uncounted), has_selectors)


def list_templates(role: RoleArgs) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the pod templates that a role has, each under the name of its field."""
    for field, template in (
        ("template", role.template),
        ("leaderTemplate", role.leader_template),
        ("workerTemplate", role.worker_template),
    ):
        if template is not None:
            yield field, template


def get_attribute(pool: NodePoolArgs, attribute: str) -> str | None:
    """Return a pool's value of a device attribute, else of a node label; None if it has neither."""
    return pool.device.attributes.get(attribute, _get_labels(pool).get(attribute))


def _is_colocated(pools: Sequence[NodePoolArgs], attribute: str) -> bool:
    values = {get_attribute(pool, attribute) for pool in pools}
    return len(values) == 1 and None not in values


def _get_labels(pool: NodePoolArgs) -> Mapping[str, str]:
    return {"kubernetes.io/os": "linux", **pool.labels}


def _list_pod_templates(role: RolePlan) -> list[Mapping[str, Any]]:
    return [role.leader_template, *([role.worker_template] if role.nodes > 1 else [])]


def _list_resources(role: RolePlan) -> frozenset[str]:
    return frozenset(
        name
        for template in _list_pod_templates(role)
        for name, amount in pod_requests(template).items()
        if is_accelerator(name) and amount > 0
    )


def _find_reasons(role: RoleRequest, pool: NodePoolArgs, inventory: InventoryArgs) -> Iterator[str]:
    """Yield why a role cannot run on a pool, even if the pool is empty."""
    args = role.plan.args
    allowed = args.placement.pools if args.placement is not None else None
    if allowed is not None and pool.name not in allowed:
        yield "not among placement.pools"
    # Nodes of the pool have this label, even if the inventory does not list it.
    labels = {**_get_labels(pool), inventory.selector_label or "": inventory.selector_value(pool)}
    reasons: set[str] = set()
    for _, template in list_templates(args):
        reasons.update(selectors.find_mismatches(template["spec"], labels))
        for taint in selectors.find_untolerated(template["spec"], pool.taints):
            if allowed is None and not selectors.is_tolerated_by_admission(taint):
                reasons.add(
                    f"taint {selectors.format_taint(taint)} is not tolerated (tolerate it, or name "
                    "the pool in placement.pools)"
                )
    yield from sorted(reasons)
    yield from _check_device(role, pool)
    offered = ", ".join([*([pool.resource] if pool.resource else []), *pool.device_classes])
    missing = sorted(role.resources - {pool.resource})
    unclaimable = sorted(role.claims.classes - set(pool.device_classes))
    if missing:
        yield f"has {offered}, but pods request {', '.join(missing)}"
    elif unclaimable:
        yield f"has {offered}, but pods claim {', '.join(unclaimable)}"
    elif role.shape and role.shape[0] > pool.accelerators:
        yield f"a pod needs {role.shape[0]} accelerators, but nodes have {pool.accelerators}"


def _check_device(role: RoleRequest, pool: NodePoolArgs) -> Iterator[str]:
    placement = role.plan.args.placement
    if placement is None or placement.device is None:
        return
    for name, values in placement.device.attributes.items():
        value = get_attribute(pool, name)
        if value not in values:
            yield f"{name} {value or 'is unknown'}, required {' or '.join(values)}"
    min_memory, memory = placement.device.min_memory, pool.device.memory
    if min_memory is not None and (
        memory is None or quantity.parse(memory) < quantity.parse(min_memory)
    ):
        yield f"memory {memory or 'is unknown'}, required at least {min_memory}"
