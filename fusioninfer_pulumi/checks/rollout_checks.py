"""Checks of `rollout`, `wait` and `layout`: settings without effect, and disruptive updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.rollout import (
    Layout,
    RoleOrder,
    RolloutLevel,
    RolloutStrategy,
    WaitLevel,
)
from fusioninfer_pulumi.findings import Finding, Rule, error, info, shown, warning
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.probes_and_shutdown import compute_startup_seconds
from fusioninfer_pulumi.rollout.update_order import count_required_ordinals, group_rollout
from fusioninfer_pulumi.rules.common import (
    CLUSTER_MUST_HAVE,
    FIELD_OUT_OF_PLACE,
    FIELD_WITHOUT_EFFECT,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan

UPDATE_NEEDS_ROOM = Rule("update-needs-room")
UPDATE_TAKES_SERVICE_DOWN = Rule("update-takes-service-down")
STARTUP_ABOVE_TIMEOUT = Rule("startup-above-timeout")
MAX_UNAVAILABLE_ZERO = Rule("max-unavailable-zero")
UPDATE_NEEDS_ROOM_FOR_OPTIONAL_REPLICAS = Rule("update-needs-room-for-optional-replicas")


def rollout_findings(plan: ServicePlan) -> Iterator[Finding]:
    """Yield the findings of `rollout` and `wait` of a service and its roles."""
    if plan.wait.level is WaitLevel.SCHEDULED and not plan.shape.needs_gang:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            ("wait", "level"),
            "Scheduled has no effect: these pods are not gang-scheduled; use Available or None",
        )
    if plan.rollout.role_order is RoleOrder.SEQUENTIAL and len(plan.roles) < 2:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            ("rollout", "roleOrder"),
            "has no effect with a single role",
        )
    if plan.rollout.level is RolloutLevel.GROUP:
        yield from _groups(plan)
        return
    for role in plan.roles:
        if role.replicas:
            yield from _role(role)


def startup_findings(plan: ServicePlan) -> Iterator[Finding]:
    """Warn of engines that may take longer to start than an update waits for them."""
    for role in plan.roles:
        if role.args.startup is None:
            continue
        longest = compute_startup_seconds(role.args.startup)
        for field, text in (
            ("wait.timeout", plan.wait.timeout),
            ("rollout.timeout", role.rollout.timeout),
        ):
            waited = durations.seconds(text)
            if waited is not None and longest > waited:
                yield warning(
                    STARTUP_ABOVE_TIMEOUT,
                    ("roles", role.position, "startup"),
                    f"allows {longest} s, but {field} is {text}; raise {field}",
                )


def _groups(plan: ServicePlan) -> Iterator[Finding]:
    if plan.shape.groups is None:
        yield error(
            FIELD_OUT_OF_PLACE,
            ("rollout", "level"),
            "Group requires groups, and the service has none",
        )
        return
    for role in plan.roles:
        args = role.args.rollout
        for field in ("strategy", "max_unavailable", "max_surge", "partition"):
            if args is not None and getattr(args, field) is not None:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    role.locate_rollout_field(field),
                    "applies to one role and conflicts with rollout.level Group, which updates "
                    "whole groups; remove it, or use level Role",
                )
    if plan.rollout.max_surge is not None:
        yield error(
            FIELD_OUT_OF_PLACE,
            ("rollout", "maxSurge"),
            "counts replicas and conflicts with rollout.level Group; remove it",
        )
    rollout, groups = group_rollout(plan), plan.shape.groups
    rolling = plan.rollout.strategy in (None, RolloutStrategy.ROLLING)
    if rolling and groups == 1:
        yield warning(
            UPDATE_TAKES_SERVICE_DOWN,
            ("rollout", "level"),
            "Group lets an update take down the only group, and thus the service",
        )
    elif rolling and groups > 1 and rollout.max_unavailable >= groups:
        yield warning(
            UPDATE_TAKES_SERVICE_DOWN,
            ("rollout", "maxUnavailable"),
            f"{plan.rollout.max_unavailable} lets an update take all {groups} groups down at once",
        )


def _role(role: RolePlan) -> Iterator[Finding]:
    rollout = role.rollout
    count = len(role.replicas)
    unavailable = role.rollout_setting("max_unavailable")
    if rollout.strategy is not RolloutStrategy.ROLLING:
        if role.args.rollout is not None and role.args.rollout.max_unavailable is not None:
            yield warning(
                FIELD_WITHOUT_EFFECT,
                role.locate_rollout_field("max_unavailable"),
                f"has no effect with strategy {rollout.strategy.value}",
            )
        return
    if unavailable is not None and count > 1 and rollout.max_unavailable >= count:
        yield warning(
            UPDATE_TAKES_SERVICE_DOWN,
            role.locate_rollout_field("max_unavailable"),
            f"{unavailable} lets an update take all {count} replicas of {role.name} down at once",
        )


def rollout_layout_findings(plan: ServicePlan) -> Iterator[Finding]:
    """Yield the findings of `rollout` with the layout, once for a field that roles share."""
    gang = None if plan.shape.layout is Layout.PER_REPLICA else plan.gang
    if gang is not None and any(group.lowest for group in gang.sub_groups or ()):
        yield error(
            FIELD_OUT_OF_PLACE,
            ("schedulingStrategy", "gangPolicy", "requiredReplicas"),
            "LowestOrdinals requires layout: PerReplica: one LeaderWorkerSet for each role is "
            "updated from the highest ordinal, and stops there while that one is unschedulable",
        )
    findings = (finding for role in plan.roles for finding in _role_in_layout(plan, role))
    yield from dict.fromkeys(findings)


def _role_in_layout(plan: ServicePlan, role: RolePlan) -> Iterator[Finding]:
    rollout = role.rollout
    surge = role.rollout_setting("max_surge")
    per_role = plan.shape.layout is Layout.PER_ROLE
    rolling = rollout.strategy is RolloutStrategy.ROLLING
    if role.rollout_setting("max_unavailable") == 0 and not (per_role and surge):
        yield error(
            MAX_UNAVAILABLE_ZERO,
            role.locate_rollout_field("max_unavailable"),
            "must be at least 1, or 0 together with maxSurge and layout: PerRole, got 0",
        )
    if surge and not per_role:
        yield error(
            FIELD_OUT_OF_PLACE,
            role.locate_rollout_field("max_surge"),
            f"requires layout: PerRole, got {shown(surge)}: with PerReplica each LeaderWorkerSet "
            "has exactly one replica",
        )
    if not per_role:
        return
    if rollout.partition and rollout.strategy is RolloutStrategy.RECREATE:
        yield error(
            FIELD_OUT_OF_PLACE,
            role.locate_rollout_field("partition"),
            f"conflicts with strategy Recreate and layout: PerRole, got {rollout.partition}: "
            "the LeaderWorkerSet is deleted with all its replicas; use Rolling or AllAtOnce",
        )
    if surge and not rolling:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            role.locate_rollout_field("max_surge"),
            f"has no effect with strategy {rollout.strategy.value}",
        )
    if rolling and role.replicas:
        yield from _surge(plan, role)
    if rollout.strategy is not RolloutStrategy.RECREATE and len(role.replicas) > 1:
        yield from _optional(plan, role)
        if not rolling or rollout.max_unavailable > 1:
            field = "max_unavailable" if rolling else "strategy"
            yield info(
                CLUSTER_MUST_HAVE,
                role.locate_rollout_field(field),
                "replicas of one LeaderWorkerSet go down together only with the cluster's feature "
                "gate MaxUnavailableStatefulSet (on by default in Kubernetes 1.35.0 to 1.35.3, and "
                "from 1.37); otherwise one after the other",
            )


def _surge(plan: ServicePlan, role: RolePlan) -> Iterator[Finding]:
    rollout = role.rollout
    if not rollout.max_surge:
        return
    if rollout.partition:
        yield warning(
            UPDATE_NEEDS_ROOM,
            role.locate_rollout_field("max_surge"),
            "LeaderWorkerSet keeps the additional replicas until partition is 0, got "
            f"{rollout.partition}",
        )
    more = f"{rollout.max_surge} more of {role.name}"
    accelerators = rollout.max_surge * role.replica_accelerators
    room = f"room for {more}" + (f" ({accelerators} accelerators)" if accelerators else "")
    # Additional replicas have the highest ordinals, which are updated first, regardless of
    # maxUnavailable.
    if plan.shape.needs_gang:
        yield warning(
            UPDATE_NEEDS_ROOM,
            role.locate_rollout_field("max_surge"),
            f"an update needs {room}: LeaderWorkerSet starts them first, and waits until they run",
        )


def _optional(plan: ServicePlan, role: RolePlan) -> Iterator[Finding]:
    count, required = role.group_replicas, count_required_ordinals(plan, role)
    if required < count:
        yield warning(
            UPDATE_NEEDS_ROOM_FOR_OPTIONAL_REPLICAS,
            ("schedulingStrategy", "gangPolicy", "minRoleReplicas"),
            f"with layout: PerRole an update of {role.name} needs capacity for all {count} "
            "replicas: LeaderWorkerSet starts with the highest one and stops if that never runs; "
            "lower replicas before an update, or use layout: PerReplica",
        )


Check = Callable[[ServicePlan], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (startup_findings, rollout_findings, rollout_layout_findings)
