"""What is to be said about a rollout: settings without effect, and what an update takes down."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, info, join, warning
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.plan.rollout import field_path, required_ordinals, role_rollout, stated
from fusioninfer_pulumi.spec.rollout import Layout, RoleOrder, RolloutStrategy, WaitLevel


def rollout_findings(plan: ServicePlan) -> Iterator[Finding]:
    """Looks at `rollout` and `wait` of a service and its roles.

    Args:
        plan: The service, without these findings.

    Returns:
        What was found; nothing of it is an error, because each field is checked by itself.
    """
    if plan.wait.level is WaitLevel.SCHEDULED and not plan.gang_scheduled:
        yield warning(
            "wait.level",
            "Scheduled waits for nothing here: the pods are no gang; use Available or None",
        )
    if plan.rollout.role_order is RoleOrder.SEQUENTIAL and len(plan.roles) < 2:
        yield warning("rollout.roleOrder", "has no effect: a single role runs pods")
    for role in plan.roles:
        if role.replicas:
            yield from _role(plan, role)


def _role(plan: ServicePlan, role: RolePlan) -> Iterator[Finding]:
    rollout = role_rollout(plan.rollout, role)
    count = len(role.replicas)

    if rollout.partition > count:
        yield warning(
            field_path(role, "partition"),
            f"{rollout.partition} is above the replicas of {role.name} ({count}): none of them "
            "is ever updated",
        )
    elif rollout.partition == count:
        yield info(field_path(role, "partition"), f"holds back all replicas of {role.name}")
    given = stated(plan.rollout, role, "max_unavailable")
    if rollout.strategy is not RolloutStrategy.ROLLING:
        if role.args.rollout is not None and role.args.rollout.max_unavailable is not None:
            yield warning(
                field_path(role, "max_unavailable"),
                f"has no effect with strategy {rollout.strategy.value}",
            )
        return
    if given is not None and count > 1 and rollout.max_unavailable >= count:
        yield warning(
            field_path(role, "max_unavailable"),
            f"{given} lets an update take all {count} replicas of {role.name} down at once",
        )
    optional = count - required_ordinals(plan, role) * max(plan.groups or 1, 1)
    if plan.layout is Layout.PER_REPLICA and (optional > 1 or optional == count):
        yield info(
            join("roles", role.position, "replicas"),
            f"an update restarts the {optional} replicas of {role.name} above the gang's minimum "
            "together, after the others: nothing waits for them, as they may lack room",
        )
