"""The gang: which pods the Volcano scheduler places only together.

Two forms. The literal one of the design documents lists every replica in `minTaskMember` and is
all-or-nothing on every Volcano version. The other one uses `subGroupPolicy` (Volcano 1.14.1 and
later), where a minimum of each role starts together and further replicas start whole as room
appears. A service with serving groups has one gang for each of them. Rules that both forms obey,
because Volcano checks none of them: `minMember` is exactly the sum of what it covers and never 0,
and the two forms are never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusioninfer_pulumi import names
from fusioninfer_pulumi.plan.capacity import GangForm
from fusioninfer_pulumi.plan.records import GangPlan, RolePlan, SubGroup
from fusioninfer_pulumi.plan.resources import pod_requests, total
from fusioninfer_pulumi.plan.topology import replica_label
from fusioninfer_pulumi.spec.rollout import Layout
from fusioninfer_pulumi.spec.scheduling import (
    GangPolicyArgs,
    RequiredReplicas,
    SchedulingStrategyArgs,
)


def gang_plans(
    service: str,
    roles: Sequence[RolePlan],
    scheduling: SchedulingStrategyArgs,
    layout: Layout = Layout.PER_REPLICA,
    groups: int | None = None,
) -> tuple[GangPlan, ...]:
    """Computes the gangs of a service whose topology asks for them.

    Args:
        service: Name of the service.
        roles: Its serving roles.
        scheduling: Its scheduling strategy.
        layout: Which LeaderWorkerSets run the replicas. Those of one set share their pod template
            and so their task: only the subgroups keep them apart.
        groups: Its serving groups, None without.

    Returns:
        The gang of the service, or one for each of its groups, which start independently of each
        other; none when no replica exists or every role is optional.
    """
    whole = _gang_plan(service, roles, scheduling, layout)
    if whole is None:
        return ()
    if groups is None:
        return (whole,)
    return tuple(
        replace(whole, pod_group=names.pod_group(service, group), group=group)
        for group in range(groups)
    )


def _gang_plan(
    service: str, roles: Sequence[RolePlan], scheduling: SchedulingStrategyArgs, layout: Layout
) -> GangPlan | None:
    minima = required_replicas(roles, scheduling.gang_policy.min_role_replicas)
    members = sum(minima[role.name] * role.nodes for role in roles)
    if members == 0:
        return None
    partial = scheduling.gang_policy.min_role_replicas is not None
    topology = scheduling.gang_policy.network_topology
    # Volcano knows the replicas of a role as its subgroups only.
    by_replica = topology is not None and topology.role_policy is not None
    grouped = partial or by_replica or layout is Layout.PER_ROLE
    return GangPlan(
        pod_group=names.pod_group(service),
        min_member=members,
        partial=partial,
        tasks=None if grouped else _tasks(roles),
        sub_groups=_sub_groups(roles, minima, scheduling.gang_policy) if grouped else None,
        min_accelerators=sum(role.replica_accelerators * minima[role.name] for role in roles),
        min_resources=_requests(roles, minima) if scheduling.gang_policy.min_resources else None,
        queue=scheduling.queue,
        priority_class=scheduling.priority_class_name,
        topology=topology,
        replica_label=replica_label(layout),
    )


def required_replicas(
    roles: Sequence[RolePlan], minima: Mapping[str, int] | None
) -> dict[str, int]:
    """Replicas of each role that a gang needs: all of them where no minimum is named."""
    return {role.name: (minima or {}).get(role.name, role.group_replicas) for role in roles}


def minima_of(gang: GangPlan | None) -> dict[str, int] | None:
    """Replicas of each role that a gang needs, None without one or where it needs all of them."""
    if gang is None or gang.sub_groups is None:
        return None
    return {group.role: group.minimum for group in gang.sub_groups}


def gang_form(gang: GangPlan | None) -> GangForm:
    """The form of a gang, as the capacity model names it."""
    if gang is None:
        return GangForm.NONE
    return GangForm.LITERAL if gang.sub_groups is None else GangForm.SUBGROUP


def _tasks(roles: Sequence[RolePlan]) -> dict[str, int]:
    # The tasks of every serving group have the same names, each in its own PodGroup.
    return {each.task: role.nodes for role in roles for each in role.sets}


def _sub_groups(
    roles: Sequence[RolePlan], minima: Mapping[str, int], policy: GangPolicyArgs
) -> tuple[SubGroup, ...]:
    # A role of which all replicas are needed has none that could stand in for another.
    named = policy.min_role_replicas or {}
    lowest = policy.required_replicas is RequiredReplicas.LOWEST_ORDINALS
    # A role whose every replica is optional stays listed: its replicas still start whole.
    return tuple(
        SubGroup(role.name, role.nodes, minima[role.name], lowest and named.get(role.name, 0) > 0)
        for role in roles
        if role.replicas
    )


def _requests(roles: Sequence[RolePlan], minima: Mapping[str, int]) -> dict[str, str]:
    return total(
        (pod_requests(template), pods * minima[role.name])
        for role in roles
        for template, pods in ((role.requesting_leader, 1), (role.worker_template, role.nodes - 1))
        if pods * minima[role.name]
    )
