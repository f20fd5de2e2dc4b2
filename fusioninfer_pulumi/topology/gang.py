"""Plans a service's gangs and builds their PodGroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.scheduling import (
    GangBackend,
    GangPolicyArgs,
    NetworkTopologyArgs,
    RequiredReplicas,
    SchedulingStrategyArgs,
)
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    ServiceMeta,
    build_metadata,
    build_object,
    lookup,
)
from fusioninfer_pulumi.kube.resource_requests import pod_requests, sum_requests
from fusioninfer_pulumi.topology.capacity_model import GangScope
from fusioninfer_pulumi.topology.role_plan import RolePlan

API_VERSION = "scheduling.volcano.sh/v1beta1"
KIND = "PodGroup"

NATIVE_GROUP = "scheduling.k8s.io"
NATIVE_API_VERSION = f"{NATIVE_GROUP}/v1beta1"


class RoleSubGroups(NamedTuple):
    """The subgroups of one role, one for each replica."""

    role: str
    size: int  #: pods in one replica, which are scheduled together
    minimum: int  #: replicas of the role in the gang's minimum
    needs_lowest: bool = False  #: whether the minimum must be the replicas with the lowest ordinals


@dataclass(frozen=True)
class GangPlan:
    """The gang of a service, or of one of its serving groups.

    The gang's minimum is the replicas that the scheduler places all together or not at all.
    """

    pod_group: str
    min_member: int  #: number of pods of the minimum
    is_partial: bool  #: whether the gang may start without some replicas (`minRoleReplicas`)
    #: Number of pods of each Volcano task `{role}-{replica}`; None if the gang has no tasks.
    tasks: Mapping[str, int] | None
    #: Subgroups of each role; None if the gang has no subgroups.
    sub_groups: tuple[RoleSubGroups, ...] | None
    min_accelerators: int  #: accelerators of the minimum
    min_resources: Mapping[str, str] | None = None  #: `minResources` of the PodGroup, if it sets it
    group: int | None = None  #: index of the serving group; None if the service has none
    topology: NetworkTopologyArgs | None = None  #: limits on the distance between pods
    is_native: bool = False  #: whether it is a `scheduling.k8s.io` PodGroup, which only counts pods

    @property
    def reference(self) -> str:
        """Name of the PodGroup; a Kubernetes PodGroup has the prefix `NATIVE_GROUP` and a slash."""
        return f"{NATIVE_GROUP}/{self.pod_group}" if self.is_native else self.pod_group


def plan_gangs(
    service: str, roles: Sequence[RolePlan], scheduling: SchedulingStrategyArgs, shape: ServiceShape
) -> tuple[GangPlan, ...]:
    """Return the gang of a service, or one gang for each of its serving groups.

    The result is empty if the service needs no gang or the minimum has no replica. With layout
    PerRole a Volcano gang has subgroups instead of tasks, because all replicas of a LeaderWorkerSet
    share a pod template, which names the task.
    """
    is_native = shape.backend is GangBackend.NATIVE
    # A Kubernetes PodGroup has no minimum for each role; checks report the ignored fields.
    policy = GangPolicyArgs() if is_native else scheduling.gang_policy
    minima = get_required_replicas(roles, policy.min_role_replicas)
    min_member = sum(minima[role.name] * role.nodes for role in roles)
    if min_member == 0 or not shape.needs_gang:
        return ()
    is_partial = policy.min_role_replicas is not None
    topology = policy.network_topology
    # A topology limit for each replica needs subgroups too.
    limits_replicas = topology is not None and topology.role_policy is not None
    needs_subgroups = is_partial or limits_replicas or shape.layout is Layout.PER_ROLE
    tasks: dict[str, int] | None = None
    sub_groups: tuple[RoleSubGroups, ...] | None = None
    if not is_native and needs_subgroups:
        sub_groups = _plan_sub_groups(roles, policy, minima)
    elif not is_native:
        # All serving groups have the same task names, so these are the tasks of each PodGroup.
        tasks = {lws.task: role.nodes for role in roles for lws in role.lws}
    gang = GangPlan(
        pod_group=object_names.pod_group(service),
        min_member=min_member,
        is_partial=is_partial,
        tasks=tasks,
        sub_groups=sub_groups,
        min_accelerators=sum(role.replica_accelerators * minima[role.name] for role in roles),
        min_resources=_sum_minimum_requests(roles, minima) if policy.min_resources else None,
        topology=topology,
        is_native=is_native,
    )
    if shape.groups is None:
        return (gang,)
    return tuple(
        replace(gang, pod_group=object_names.pod_group(service, group), group=group)
        for group in range(shape.groups)
    )


def _plan_sub_groups(
    roles: Sequence[RolePlan], policy: GangPolicyArgs, minima: Mapping[str, int]
) -> tuple[RoleSubGroups, ...]:
    needs_lowest = policy.required_replicas is RequiredReplicas.LOWEST_ORDINALS
    explicit_minima = policy.min_role_replicas or {}
    # A role with a minimum of 0 has subgroups too, so that each replica starts as a whole.
    return tuple(
        RoleSubGroups(
            role.name,
            size=role.nodes,
            minimum=minima[role.name],
            # Without `minRoleReplicas` a role needs every replica, so ordinals do not matter.
            needs_lowest=needs_lowest and explicit_minima.get(role.name, 0) > 0,
        )
        for role in roles
        if role.replicas
    )


def get_required_replicas(
    roles: Sequence[RolePlan], minima: Mapping[str, int] | None
) -> dict[str, int]:
    """Return how many replicas of each role a gang needs: the role's minimum, or else all."""
    return {role.name: (minima or {}).get(role.name, role.group_replicas) for role in roles}


def get_gang_reference(annotations: Any, pod_group: Any) -> str:
    """Return the `GangPlan.reference` of pods with these annotations and this `podGroupName`."""
    if pod_group:
        return f"{NATIVE_GROUP}/{pod_group}"
    return str(lookup(annotations, labels.GROUP_NAME) or "")


def get_lws_gang_reference(manifest: Any) -> str:
    """Return the `GangPlan.reference` of a LeaderWorkerSet's pods, or empty if they have none."""
    template = lookup(manifest, "spec", "leaderWorkerTemplate", "workerTemplate")
    annotations = lookup(template, "metadata", "annotations")
    native = lookup(template, "spec", "schedulingGroup", "podGroupName")
    return get_gang_reference(annotations, native)


def get_gang_minima(gang: GangPlan | None) -> dict[str, int] | None:
    """Return the minimum replicas of each role, or None if the gang has no subgroups."""
    if gang is None or gang.sub_groups is None:
        return None
    return {sub_groups.role: sub_groups.minimum for sub_groups in gang.sub_groups}


def get_min_member(pod_group: Mapping[str, Any]) -> int:
    """Return the minimum number of pods of a PodGroup that the library generated."""
    spec = pod_group["spec"]
    policy = spec.get("schedulingPolicy")
    return int(spec["minMember"] if policy is None else policy["gang"]["minCount"])


def get_gang_scope(gang: GangPlan | None, *, has_kueue: bool = False) -> GangScope:
    """Return how a gang is scheduled; `has_kueue` is whether Kueue admits the replicas."""
    if gang is None:
        return GangScope.REPLICA if has_kueue else GangScope.NONE
    return GangScope.ALL_PODS if gang.sub_groups is None else GangScope.SUBGROUP


def _sum_minimum_requests(roles: Sequence[RolePlan], minima: Mapping[str, int]) -> dict[str, str]:
    requests_and_pods = []
    for role in roles:
        replicas = minima[role.name]
        for template, pods in (
            (role.leader_template, replicas),
            (role.worker_template, replicas * (role.nodes - 1)),
        ):
            if pods:
                requests_and_pods.append((pod_requests(template), pods))
    return sum_requests(requests_and_pods)


def build_pod_group(meta: ServiceMeta, shape: ServiceShape, gang: GangPlan) -> dict[str, Any]:
    """Build the PodGroup of a service, or of one of its serving groups.

    A Volcano PodGroup has either tasks (`minTaskMember`) or subgroups (`subGroupPolicy`, Volcano
    1.14.1 and later), because Volcano does not support both in one PodGroup. A Kubernetes PodGroup
    only has a number of pods (`minCount`) and a priority.
    """
    replica_label = shape.layout.replica_label
    policies = (
        policy
        for sub_groups in gang.sub_groups or ()
        for policy in _build_role_policies(meta, gang, sub_groups, replica_label)
    )
    fields = {
        "minMember": gang.min_member,
        "minTaskMember": None if gang.tasks is None else dict(gang.tasks),
        "subGroupPolicy": None if gang.sub_groups is None else list(policies),
        "networkTopology": _dump_network_topology(gang, "group_policy"),
        "minResources": None if gang.min_resources is None else dict(gang.min_resources),
        "queue": shape.queue,
    }
    if gang.is_native:
        fields = {"schedulingPolicy": {"gang": {"minCount": gang.min_member}}}
    # The Kubernetes scheduler rejects a gang whose priority differs from its pods'.
    fields["priorityClassName"] = shape.priority_class
    own_labels = {labels.SERVICE: meta.service}
    if gang.group is not None:
        own_labels[labels.GROUP_INDEX] = str(gang.group)
    version = NATIVE_API_VERSION if gang.is_native else API_VERSION
    spec = {key: value for key, value in fields.items() if value is not None}
    return build_object(version, KIND, build_metadata(meta, gang.pod_group, own_labels), spec=spec)


def _dump_network_topology(gang: GangPlan, field: str) -> dict[str, Any] | None:
    limit = None if gang.topology is None else getattr(gang.topology, field)
    if limit is None:
        return None
    dumped: dict[str, Any] = limit.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _build_role_policies(
    meta: ServiceMeta, gang: GangPlan, sub_groups: RoleSubGroups, replica_label: str
) -> Iterator[dict[str, Any]]:
    topology = _dump_network_topology(gang, "role_policy")
    selector: dict[str, Any] = {
        "matchLabels": {labels.SERVICE: meta.service, labels.ROLE_NAME: sub_groups.role}
    }
    policy = {
        # Volcano orders roles by this name, as does the capacity model.
        "name": sub_groups.role,
        "labelSelector": selector,
        # Pods with the same value of this label form a subgroup, so each replica is a subgroup.
        "matchLabelKeys": [replica_label],
        "subGroupSize": sub_groups.size,
        "minSubGroups": sub_groups.minimum,
    }
    if topology is not None:
        policy["networkTopology"] = topology
    if not sub_groups.needs_lowest:
        yield policy
        return
    # Volcano uses the first policy that matches a pod. Role names have no dots, so
    # `{role}.required` is not the name of another role.
    ordinals = [str(ordinal) for ordinal in range(sub_groups.minimum)]
    has_lowest_ordinal = {"key": labels.REPLICA_INDEX, "operator": "In", "values": ordinals}
    required_selector = {**selector, "matchExpressions": [has_lowest_ordinal]}
    yield {**policy, "name": f"{sub_groups.role}.required", "labelSelector": required_selector}
    # Added even if all replicas are required, so that new replicas do not change the PodGroup.
    yield {**policy, "minSubGroups": 0}
