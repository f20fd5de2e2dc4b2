"""Builds the LeaderWorkerSets (leaderworkerset.x-k8s.io/v1) of a service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.role import RestartPolicy, SubGroupPolicyType
from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.pods.pod_metadata import build_scheduling_group, get_role_labels
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

API_VERSION = "leaderworkerset.x-k8s.io/v1"
KIND = "LeaderWorkerSet"

SUB_GROUP_POLICY = "subGroupPolicy"


def build_leader_worker_sets(
    meta: ServiceMeta, shape: ServiceShape, roles: Iterable[RolePlan]
) -> Iterator[Manifest]:
    """Yield the LeaderWorkerSets of a service, role by role, in the order of the replicas."""
    for role in roles:
        for lws in role.lws:
            yield _build_leader_worker_set(meta, shape, role, lws)


def _build_leader_worker_set(
    meta: ServiceMeta, shape: ServiceShape, role: RolePlan, lws_plan: LwsPlan
) -> Manifest:
    own_labels = {
        **get_role_labels(meta, role.args),
        **_build_lws_labels(lws_plan, role.pods.revision),
    }
    if shape.local_queue is not None:
        own_labels[labels.KUEUE_QUEUE] = shape.local_queue
    if role.pods.pair_revision:
        own_labels[labels.PAIR_REVISION] = role.pods.pair_revision
    spec: dict[str, Any] = {
        "replicas": len(lws_plan.replicas),
        "leaderWorkerTemplate": _build_leader_worker_template(meta, shape, role, lws_plan),
    }
    # With layout PerReplica no strategy is needed, because the Pulumi program orders the updates.
    if lws_plan.is_per_role:
        rollout = role.rollout
        all_at_once = rollout.strategy is RolloutStrategy.ALL_AT_ONCE
        spec["rolloutStrategy"] = {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {
                "partition": rollout.partition,
                "maxUnavailable": "100%" if all_at_once else rollout.max_unavailable,
                "maxSurge": rollout.max_surge,
            },
        }
    if role.args.startup_policy is not None:
        spec["startupPolicy"] = role.args.startup_policy.value
    if role.args.network_config is not None:
        spec["networkConfig"] = {"subdomainPolicy": role.args.network_config.subdomain_policy.value}
    return build_object(
        API_VERSION, KIND, build_metadata(meta, lws_plan.name, own_labels), spec=spec
    )


def _build_leader_worker_template(
    meta: ServiceMeta, shape: ServiceShape, role: RolePlan, lws_plan: LwsPlan
) -> Manifest:
    lws_template: Manifest = {"size": role.nodes}
    restart_policy = choose_restart_policy(role)
    if restart_policy is not None:
        lws_template["restartPolicy"] = restart_policy.value
    if role.args.sub_group_policy is not None:
        # The webhook adds the default type. Without it in the rendered object, the stored object
        # would differ.
        lws_template["subGroupPolicy"] = set_default_type(
            role.args.sub_group_policy.model_dump(mode="json", by_alias=True)
        )
    if role.nodes > 1:
        leader_template = _customize_template(meta, shape, role.leader_template, role, lws_plan)
        lws_template["leaderTemplate"] = leader_template
    # LeaderWorkerSet creates the pod of a single-node replica from the worker template.
    worker_template = _customize_template(meta, shape, role.worker_template, role, lws_plan)
    lws_template["workerTemplate"] = worker_template
    return lws_template


def _customize_template(
    meta: ServiceMeta,
    shape: ServiceShape,
    template: Mapping[str, Any],
    role: RolePlan,
    lws_plan: LwsPlan,
) -> Manifest:
    """Return a role's pod template with the labels, annotations and gang of one LeaderWorkerSet."""
    role_metadata, spec = template["metadata"], template["spec"]
    pod_labels = {**role_metadata["labels"], **_build_lws_labels(lws_plan, role.pods.revision)}
    pod_metadata = {**role_metadata, "labels": pod_labels}
    if "schedulingGroup" in spec:
        # The role's template names the service's PodGroup, but each serving group has its own.
        if lws_plan.group is not None:
            spec = {**spec, "schedulingGroup": build_scheduling_group(meta.service, lws_plan.group)}
    elif shape.needs_gang:
        gang_annotations = {labels.TASK_SPEC: lws_plan.task}
        if lws_plan.group is not None:
            gang_annotations[labels.GROUP_NAME] = object_names.pod_group(
                meta.service, lws_plan.group
            )
        pod_metadata["annotations"] = {**role_metadata["annotations"], **gang_annotations}
    return {"metadata": pod_metadata, "spec": spec}


def _build_lws_labels(lws_plan: LwsPlan, revision: str) -> dict[str, str]:
    lws_labels: dict[str, str] = {}
    if not lws_plan.is_per_role:
        lws_labels[labels.REPLICA_INDEX] = str(lws_plan.ordinal)
    if lws_plan.group is not None:
        lws_labels[labels.GROUP_INDEX] = str(lws_plan.group)
    lws_labels[labels.REVISION] = revision
    return lws_labels


def choose_restart_policy(role: RolePlan) -> RestartPolicy | None:
    """Return the restart policy of a role's replicas, or None for LeaderWorkerSet's default.

    A worker may exit before the leader's ray head is ready. If its exit recreated the replica, the
    replica would never start. By default, a multi-node replica is therefore recreated only after it
    has started once.
    """
    if role.args.restart_policy is not None:
        return role.args.restart_policy
    return RestartPolicy.RECREATE_GROUP_AFTER_START if role.nodes > 1 else None


def set_default_type(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subgroup policy with the type that LeaderWorkerSet's webhook adds by default."""
    with_default = {key: value for key, value in policy.items() if value is not None}
    with_default.setdefault("subGroupPolicyType", SubGroupPolicyType.LEADER_WORKER.value)
    return with_default


def is_same_policy(old: Any, new: Any) -> bool:
    """Return whether two subgroup policies are equal after defaulting; None equals empty."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return bool((old or None) == (new or None))
    return set_default_type(old) == set_default_type(new)
