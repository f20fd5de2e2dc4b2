"""What follows from a service's roles: which serve, which clients may reach, and the gang."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.scheduling import GangBackend, GangMode, SchedulingStrategyArgs
from fusioninfer_pulumi.api.types import PassedName

DEFAULT_SCHEDULER = "default-scheduler"
VOLCANO = "volcano"


def serving(roles: Iterable[RoleArgs]) -> list[RoleArgs]:
    """Roles that run pods which serve a model."""
    return [role for role in roles if role.component_type is not ComponentType.ROUTER]


def is_prefill_decode(roles: Iterable[RoleArgs]) -> bool:
    """Whether prefill and decode are separate roles."""
    types = {role.component_type for role in roles}
    return {ComponentType.PREFILLER, ComponentType.DECODER} <= types


def chosen_layout(layout: Layout, roles: Iterable[RoleArgs], *, is_written: bool) -> Layout:
    """Returns the layout of a service: where none is written, the one that its roles need.

    An autoscaler needs a scale subresource for all replicas of a role, which only `PerRole` has.
    """
    scaled = any(role.autoscaling is not None for role in roles)
    return Layout.PER_ROLE if scaled and not is_written else layout


def needs_gang(roles: Sequence[RoleArgs], scheduling: SchedulingStrategyArgs) -> bool:
    """Whether the service's pods are scheduled as a gang, by a PodGroup.

    Decided by the declared roles, not by their replica counts: parking a role must not change
    the pods of the others.
    """
    if scheduling.gang_policy.backend is GangBackend.KUEUE:
        return False
    mode = scheduling.gang_policy.mode
    if mode is not GangMode.AUTO:
        return mode is GangMode.ON
    return is_prefill_decode(roles) or any(role.nodes > 1 for role in serving(roles))


def is_native(scheduling: SchedulingStrategyArgs) -> bool:
    """Whether gangs are Kubernetes' own PodGroups."""
    return scheduling.gang_policy.backend is GangBackend.NATIVE


def volcano_queue(scheduling: SchedulingStrategyArgs) -> PassedName | None:
    """Volcano queue of a service, None for the default and for other backends."""
    return scheduling.queue if scheduling.gang_policy.backend is GangBackend.VOLCANO else None


def local_queue(scheduling: SchedulingStrategyArgs) -> PassedName | None:
    """Kueue's LocalQueue in which the replicas of a service wait, None if they wait in none."""
    policy = scheduling.gang_policy
    queued = policy.backend is GangBackend.KUEUE and policy.mode is not GangMode.OFF
    return scheduling.queue if queued else None


def scheduler_name(roles: Sequence[RoleArgs], scheduling: SchedulingStrategyArgs) -> str | None:
    """Scheduler of the service's pods, None for the pod templates' own."""
    if scheduling.scheduler_name or not needs_gang(roles, scheduling):
        return scheduling.scheduler_name
    return DEFAULT_SCHEDULER if is_native(scheduling) else VOLCANO


def entry_types(roles: Sequence[RoleArgs]) -> tuple[ComponentType, ...]:
    """Component types that clients may be sent to without an endpoint picker that pairs them.

    A prefill pod answers with the first token only, so with prefill and decode it is the
    decoders; not workers beside them, as one Service cannot select two types out of three.
    """
    if is_prefill_decode(roles):
        return (ComponentType.DECODER,)
    types = {role.component_type for role in serving(roles)}
    return tuple(sorted(types, key=lambda kind: kind.value))
