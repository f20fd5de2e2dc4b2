"""LeaderWorkerSets (leaderworkerset.x-k8s.io/v1) of a service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.role import RestartPolicy
from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.pods.build import (
    Manifest,
    RoleTemplates,
    for_set,
    role_labels,
    role_templates,
    set_labels,
)
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout
from fusioninfer_pulumi.topology.sub_group_policy import completed
from fusioninfer_pulumi.topology.topology import Topology

API_VERSION = "leaderworkerset.x-k8s.io/v1"
KIND = "LeaderWorkerSet"


def leader_worker_sets(plan: Topology) -> Iterator[Manifest]:
    """Yields the LeaderWorkerSets of a service, role by role, in the order of the replicas."""
    for role in plan.roles:
        if not role.sets:
            continue
        templates = role_templates(plan, role)
        for each in role.sets:
            yield _leader_worker_set(plan, role, templates, each)


def _leader_worker_set(
    plan: Topology, role: RolePlan, templates: RoleTemplates, planned: SetPlan
) -> Manifest:
    own = {**role_labels(plan, role), **set_labels(planned, templates.revision)}
    spec: dict[str, Any] = {
        "replicas": len(planned.replicas),
        "leaderWorkerTemplate": _leader_worker_template(plan, role, templates, planned),
    }
    if planned.ordinal is None:
        spec["rolloutStrategy"] = _rollout_strategy(plan, role)
    if role.args.startup_policy is not None:
        spec["startupPolicy"] = role.args.startup_policy.value
    if role.args.network_config is not None:
        spec["networkConfig"] = {"subdomainPolicy": role.args.network_config.subdomain_policy.value}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata(plan, planned.name, own),
        "spec": spec,
    }


def _rollout_strategy(plan: Topology, role: RolePlan) -> Manifest:
    """Returns the rolling update of a LeaderWorkerSet with several replicas."""
    rollout = role_rollout(plan.rollout, role)
    at_once = rollout.strategy is RolloutStrategy.ALL_AT_ONCE
    return {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {
            "partition": rollout.partition,
            "maxUnavailable": "100%" if at_once else rollout.max_unavailable,
            "maxSurge": rollout.max_surge,
        },
    }


def _leader_worker_template(
    plan: Topology, role: RolePlan, templates: RoleTemplates, planned: SetPlan
) -> Manifest:
    built: Manifest = {"size": role.nodes}
    policy = restart_policy(role)
    if policy is not None:
        built["restartPolicy"] = policy.value
    if role.args.sub_group_policy is not None:
        # With the webhook's default, so that the stored object equals the rendered one.
        built["subGroupPolicy"] = completed(
            role.args.sub_group_policy.model_dump(mode="json", by_alias=True)
        )

    def finished(template: Manifest) -> Manifest:
        return for_set(template, templates.revision, planned, gang_scheduled=plan.gang_scheduled)

    if templates.worker is None:
        # LeaderWorkerSet creates a group's only pod from the worker template.
        built["workerTemplate"] = finished(templates.leader)
    else:
        built["leaderTemplate"] = finished(templates.leader)
        built["workerTemplate"] = finished(templates.worker)
    return built


def restart_policy(role: RolePlan) -> RestartPolicy | None:
    """Returns the restart policy of a role's groups, None for LeaderWorkerSet's default.

    A worker may fail before the leader's Ray head runs. Recreating the group for that would never
    end, so a multi-node group is recreated only after it has started once.
    """
    if role.args.restart_policy is not None:
        return role.args.restart_policy
    return RestartPolicy.RECREATE_GROUP_AFTER_START if role.nodes > 1 else None
