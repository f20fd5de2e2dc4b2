"""Checks of `rollout` against `layout`, where LeaderWorkerSet's own rolling update applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy
from fusioninfer_pulumi.api.topology import is_prefill_decode
from fusioninfer_pulumi.findings import Finding, error, info, shown, warning
from fusioninfer_pulumi.pods.pod import PAIRED
from fusioninfer_pulumi.rollout.order import required_ordinals
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.role_rollout import explicit, field_location, role_rollout
from fusioninfer_pulumi.topology.topology import Topology


def layout_findings(plan: Topology) -> Iterator[Finding]:
    """Yields the findings of `rollout` with the layout, once for a field that roles share."""
    gang = None if plan.layout is Layout.PER_REPLICA else plan.gang
    if gang is not None and any(group.lowest for group in gang.sub_groups or ()):
        yield error(
            "lowest-ordinals-needs-per-replica",
            ("schedulingStrategy", "gangPolicy", "requiredReplicas"),
            "LowestOrdinals needs layout: PerReplica: in one set for each role an update begins "
            "with the highest ordinal, and stands still there while it lacks room",
        )
    found = (finding for role in plan.roles for finding in _role(plan, role))
    yield from dict.fromkeys(found)


def assumed_replicas_findings(roles: Sequence[RoleArgs]) -> Iterator[Finding]:
    """Says which share of prefill or decode is assumed because its replicas are not written.

    Modelplane refuses such a service: the best ratio depends on prompts and answers, and no
    default is right. That there is no router is said elsewhere.
    """
    if not is_prefill_decode(roles):
        return
    for index, role in enumerate(roles):
        if role.component_type in PAIRED and "replicas" not in role.model_fields_set:
            yield info(
                "replicas-assumed",
                ("roles", index, "replicas"),
                f"is not stated: {role.replicas} is assumed, and with it the ratio of prefill to "
                "decode",
            )


def _role(plan: Topology, role: RolePlan) -> Iterator[Finding]:
    rollout = role_rollout(plan.rollout, role)
    surge = explicit(plan.rollout, role, "max_surge")
    per_role = plan.layout is Layout.PER_ROLE
    rolling = rollout.strategy is RolloutStrategy.ROLLING
    if explicit(plan.rollout, role, "max_unavailable") == 0 and not (per_role and surge):
        yield error(
            "max-unavailable-zero",
            field_location(role, "max_unavailable"),
            "must be at least 1, or 0 together with maxSurge and layout: PerRole, got 0",
        )
    if surge and not per_role:
        yield error(
            "max-surge-needs-per-role",
            field_location(role, "max_surge"),
            f"needs layout: PerRole, got {shown(surge)}: with PerReplica each LeaderWorkerSet has "
            "exactly one replica",
        )
    if not per_role:
        return
    if rollout.partition and rollout.strategy is RolloutStrategy.RECREATE:
        yield error(
            "partition-with-recreate",
            field_location(role, "partition"),
            f"cannot be held with strategy Recreate and layout: PerRole, got {rollout.partition}: "
            "the LeaderWorkerSet is deleted with all its replicas; use Rolling or AllAtOnce",
        )
    if surge and not rolling:
        yield warning(
            "max-surge-without-effect",
            field_location(role, "max_surge"),
            f"has no effect with strategy {rollout.strategy.value}",
        )
    if rolling and role.replicas:
        yield from _surge(plan, role)
    if rollout.strategy is not RolloutStrategy.RECREATE and len(role.replicas) > 1:
        yield from _optional(plan, role)
        if not rolling or rollout.max_unavailable > 1:
            field = "max_unavailable" if rolling else "strategy"
            yield info(
                "max-unavailable-needs-feature-gate",
                field_location(role, field),
                "replicas of one LeaderWorkerSet go down together only with the cluster's feature "
                "gate MaxUnavailableStatefulSet (on by default in Kubernetes 1.35.0 to 1.35.3, and "
                "from 1.37); otherwise one after the other",
            )


def _surge(plan: Topology, role: RolePlan) -> Iterator[Finding]:
    rollout = role_rollout(plan.rollout, role)
    if not rollout.max_surge:
        return
    if rollout.partition:
        yield warning(
            "max-surge-kept-by-partition",
            field_location(role, "max_surge"),
            f"LeaderWorkerSet keeps the additional replicas until partition is 0 again, got "
            f"{rollout.partition}",
        )
    more = f"{rollout.max_surge} more of {role.name}"
    accelerators = rollout.max_surge * role.replica_accelerators
    room = f"room for {more}" + (f" ({accelerators} accelerators)" if accelerators else "")
    # Regardless of maxUnavailable: additional replicas have the highest ordinals, which come first.
    severity = warning if plan.gang_scheduled else info
    yield severity(
        "max-surge-needs-room",
        field_location(role, "max_surge"),
        f"an update needs {room}: LeaderWorkerSet starts it first, and stands still until it runs",
    )


def _optional(plan: Topology, role: RolePlan) -> Iterator[Finding]:
    count, required = role.group_replicas, required_ordinals(plan, role)
    if required < count:
        yield warning(
            "update-needs-room-for-optional-replicas",
            ("schedulingStrategy", "gangPolicy", "minRoleReplicas"),
            f"with layout: PerRole an update of {role.name} needs room for all of its {count} "
            "replicas: LeaderWorkerSet starts with the highest one and stands still where that "
            "never runs; lower replicas before an update, or use layout: PerReplica",
        )
