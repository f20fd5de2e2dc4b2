"""Checks of `rollout`, `wait` and `layout`: conflicts, and disruptive updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.field_rules import check_fields, inapplicable_rule
from fusioninfer_pulumi.api.rollout import Layout, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.findings import Finding, Rule, error, quote_value, warning
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.probes_and_shutdown import compute_startup_seconds
from fusioninfer_pulumi.rollout.update_order import resolve_group_rollout
from fusioninfer_pulumi.rules.common import FIELD_OUT_OF_PLACE
from fusioninfer_pulumi.topology.role_plan import RolePlan

UPDATE_TAKES_SERVICE_DOWN = Rule("update-takes-service-down")
STARTUP_ABOVE_TIMEOUT = Rule("startup-above-timeout")
MAX_UNAVAILABLE_ZERO = Rule("max-unavailable-zero")


def check_rollout_settings(plan: ServicePlan) -> Iterator[Finding]:
    """Check the `rollout` settings of a service and its roles."""
    if plan.rollout.level is RolloutLevel.GROUP and plan.shape.groups is not None:
        yield from _check_group_rollout(plan, plan.shape.groups)
        return
    for role in plan.roles:
        rollout, count = role.rollout, len(role.replicas)
        # The user's value, such as 50%, for the message; `rollout` has the number of replicas.
        unavailable = role.get_rollout_field("max_unavailable")
        is_rolling = rollout.strategy is RolloutStrategy.ROLLING
        if is_rolling and unavailable is not None and rollout.max_unavailable >= count > 1:
            location = role.locate_rollout_field("max_unavailable")
            replicas = f'all {count} replicas of role "{role.name}"'
            message = f"{unavailable} lets an update take {replicas} down at once"
            yield warning(UPDATE_TAKES_SERVICE_DOWN, location, message)


def check_startup_timeouts(plan: ServicePlan) -> Iterator[Finding]:
    """Warn if engines may take longer to start than an update waits."""
    for role in plan.roles:
        if role.args.startup is None:
            continue
        longest = compute_startup_seconds(role.args.startup)
        for field, text in (
            ("wait.timeout", plan.wait.timeout),
            ("rollout.timeout", role.rollout.timeout),
        ):
            timeout = durations.parse_duration(text)
            if timeout is not None and longest > timeout:
                allowed = durations.format_duration(longest)
                message = f"allows {allowed}, but {field} is {text}; raise {field}"
                yield warning(STARTUP_ABOVE_TIMEOUT, ("roles", role.position, "startup"), message)


def _check_group_rollout(plan: ServicePlan, groups: int) -> Iterator[Finding]:
    role_rule = inapplicable_rule(
        ("strategy", "max_unavailable", "max_surge", "partition"),
        "applies to one role and conflicts with rollout.level Group, which updates whole groups; "
        "remove it, or use level Role",
    )
    for role in plan.roles:
        yield from check_fields(("roles", role.position, "rollout"), role.args.rollout, role_rule)
    message = "counts replicas and conflicts with rollout.level Group; remove it"
    service_rule = inapplicable_rule("max_surge", message)
    yield from check_fields(("rollout",), plan.rollout, service_rule)
    rollout = resolve_group_rollout(plan)
    is_rolling = rollout.strategy is RolloutStrategy.ROLLING
    if is_rolling and groups == 1:
        message = "level Group lets an update take down the only group; add a group"
        yield warning(UPDATE_TAKES_SERVICE_DOWN, ("rollout", "level"), message)
    elif is_rolling and groups > 1 and rollout.max_unavailable >= groups:
        unavailable = plan.rollout.max_unavailable
        message = f"{unavailable} lets an update take all {groups} groups down at once"
        yield warning(UPDATE_TAKES_SERVICE_DOWN, ("rollout", "maxUnavailable"), message)


def check_rollout_layout(plan: ServicePlan) -> Iterator[Finding]:
    """Check `rollout` against the layout; report a field of the service once, not for each role."""
    sub_groups = plan.gang.sub_groups if plan.gang is not None else None
    needs_lowest_ordinals = any(sub_group.needs_lowest for sub_group in sub_groups or ())
    if plan.shape.layout is Layout.PER_ROLE and needs_lowest_ordinals:
        yield error(
            FIELD_OUT_OF_PLACE,
            ("schedulingStrategy", "gangPolicy", "requiredReplicas"),
            "LowestOrdinals requires layout: PerReplica, because with PerRole an update starts at "
            "the highest ordinal, and stops there while that replica is unschedulable",
        )
    findings = (finding for role in plan.roles for finding in _check_role_layout(plan, role))
    yield from dict.fromkeys(findings)


def _check_role_layout(plan: ServicePlan, role: RolePlan) -> Iterator[Finding]:
    rollout = role.rollout
    surge = role.get_rollout_field("max_surge")
    is_per_role = plan.shape.layout is Layout.PER_ROLE
    if role.get_rollout_field("max_unavailable") == 0 and not (is_per_role and surge):
        message = "must be at least 1, or 0 together with maxSurge and layout: PerRole, got 0"
        location = role.locate_rollout_field("max_unavailable")
        yield error(MAX_UNAVAILABLE_ZERO, location, message)
    if surge and not is_per_role:
        message = (
            f"{quote_value(surge)} requires layout: PerRole, because with PerReplica each "
            "LeaderWorkerSet has exactly one replica"
        )
        yield error(FIELD_OUT_OF_PLACE, role.locate_rollout_field("max_surge"), message)
    elif (
        surge
        and rollout.strategy is RolloutStrategy.ROLLING
        and rollout.max_unavailable >= len(role.replicas) > 0
    ):
        message = (
            f'has no effect, and all replicas of role "{role.name}" may restart at once, because '
            f"maxUnavailable is {rollout.max_unavailable}; set maxUnavailable: 0"
        )
        yield warning(UPDATE_TAKES_SERVICE_DOWN, role.locate_rollout_field("max_surge"), message)
    if is_per_role and rollout.partition and rollout.strategy is RolloutStrategy.RECREATE:
        message = (
            f"{rollout.partition} conflicts with strategy Recreate and layout: PerRole, which "
            "delete the LeaderWorkerSet with all its replicas; use Rolling or AllAtOnce"
        )
        yield error(FIELD_OUT_OF_PLACE, role.locate_rollout_field("partition"), message)


CHECKS: tuple[Callable[[ServicePlan], Iterable[Finding]], ...] = (
    check_startup_timeouts,
    check_rollout_settings,
    check_rollout_layout,
)
