"""Derives properties from a service's spec: gang, layout, scheduler, entry types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusioninfer_pulumi.api.field_types import ObjectNameOrOutput
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.scheduling import GangBackend, GangMode
from fusioninfer_pulumi.api.service import InferenceServiceArgs

DEFAULT_SCHEDULER = "default-scheduler"
VOLCANO = "volcano"


class ServiceShape(NamedTuple):
    """Properties of a service, derived once from its spec.

    `gangPolicy.mode` and the declared roles decide whether there is a gang, not replica counts,
    because scaling a role to zero must not change the other roles' pods.

    Attributes:
        router: The router role, or None if the service has none.
        groups: Number of serving groups, or None if the service has no groups.
        has_endpoint_picker: Whether an endpoint picker chooses the pod of each request.
        is_disaggregated: Whether prefill and decode are separate roles.
        entry_types: Component types that may receive requests directly, without a picker.
        layout: How many LeaderWorkerSets run the replicas of a role.
        needs_gang: Whether PodGroups gang-schedule the pods; true even while there are no replicas.
        backend: The user's `gangPolicy.backend`, even if there is no gang.
        scheduler: Scheduler of the pods, or None if the pod templates choose it.
        queue: Volcano queue, or None if the user set none, or if the backend is not Volcano.
        local_queue: Kueue's LocalQueue for the replicas, or None if the backend is not Kueue, or
            if the mode is Off.
        priority_class: PriorityClass of the pods, or None if the pod templates choose it.
    """

    router: RoleArgs | None
    groups: int | None
    has_endpoint_picker: bool
    is_disaggregated: bool
    entry_types: tuple[ComponentType, ...]
    layout: Layout
    needs_gang: bool
    backend: GangBackend
    scheduler: ObjectNameOrOutput | None
    queue: ObjectNameOrOutput | None
    local_queue: ObjectNameOrOutput | None
    priority_class: ObjectNameOrOutput | None


def derive_service_shape(args: InferenceServiceArgs) -> ServiceShape:
    """Derive the shape of a service from `args` that presets have expanded."""
    roles, strategy = args.roles, args.scheduling_strategy
    policy = strategy.gang_policy
    is_kueue = policy.backend is GangBackend.KUEUE
    schedules_together = policy.mode is GangMode.ON or (
        policy.mode is GangMode.AUTO
        and (is_disaggregated(roles) or any(role.nodes > 1 for role in list_serving_roles(roles)))
    )
    needs_gang = schedules_together and not is_kueue
    scheduler = strategy.scheduler_name
    if needs_gang and not scheduler:
        scheduler = DEFAULT_SCHEDULER if policy.backend is GangBackend.NATIVE else VOLCANO
    # An autoscaler needs one scale subresource for all replicas of a role: layout PerRole.
    layout = args.layout
    has_autoscaler = any(role.autoscaling is not None for role in roles)
    if has_autoscaler and "layout" not in args.model_fields_set:
        layout = Layout.PER_ROLE
    routers = (role for role in roles if role.component_type is ComponentType.ROUTER)
    router = next(routers, None)
    return ServiceShape(
        router=router,
        groups=args.groups,
        has_endpoint_picker=router is not None and router.has_endpoint_picker,
        is_disaggregated=is_disaggregated(roles),
        entry_types=find_entry_types(roles),
        layout=layout,
        needs_gang=needs_gang,
        backend=policy.backend,
        scheduler=scheduler,
        queue=strategy.queue if policy.backend is GangBackend.VOLCANO else None,
        local_queue=strategy.queue if is_kueue and policy.mode is not GangMode.OFF else None,
        priority_class=strategy.priority_class_name,
    )


def list_serving_roles(roles: Iterable[RoleArgs]) -> list[RoleArgs]:
    """Return the roles whose pods serve the model."""
    return [role for role in roles if role.component_type is not ComponentType.ROUTER]


def is_disaggregated(roles: Iterable[RoleArgs]) -> bool:
    """Return whether prefill and decode are separate roles."""
    types = {role.component_type for role in roles}
    return {ComponentType.PREFILLER, ComponentType.DECODER} <= types


def find_entry_types(roles: Sequence[RoleArgs]) -> tuple[ComponentType, ...]:
    """Return the component types that may receive requests directly, without a picker.

    In a disaggregated service, this is only `decoder`: prefill pods return only the first token.
    Workers also receive no requests then, because a Service selects either one type or all types.
    """
    if is_disaggregated(roles):
        return (ComponentType.DECODER,)
    types = {role.component_type for role in list_serving_roles(roles)}
    return tuple(sorted(types, key=lambda kind: kind.value))
