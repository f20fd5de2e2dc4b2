"""Passes for the labels, annotations and scheduling of pods: scheduler, gang and spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.api.provenance import TEMPLATE_FIELDS
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.pods.pod import PD_ROLES, Context, RolePods


def get_role_labels(meta: ServiceMeta, role: RoleArgs) -> dict[str, str]:
    """Return the labels of a role's objects and pods."""
    return {
        labels.SERVICE: meta.service,
        labels.COMPONENT_TYPE: role.component_type.value,
        labels.ROLE_NAME: role.name,
    }


def set_scheduling(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the scheduler, the priority and, for Kubernetes' own gang scheduling, the gang."""
    fields: dict[str, Any] = {
        "schedulerName": ctx.shape.scheduler,
        "priorityClassName": ctx.shape.priority_class,
    }
    if ctx.shape.needs_gang and ctx.shape.backend is GangBackend.NATIVE:
        fields["schedulingGroup"] = build_scheduling_group(ctx.meta.service)
    for pod in pods.all:
        pods = pods.with_pod(
            pod.with_spec(**{key: value for key, value in fields.items() if value})
        )
    return pods, []


def build_scheduling_group(service: str, group: int | None = None) -> dict[str, str]:
    """Return the pod field `schedulingGroup` for a service or a serving group."""
    return {"podGroupName": object_names.pod_group(service, group)}


def set_metadata(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the role's labels, and Volcano's annotations for the gang or the queue.

    The user's metadata is dropped, except for labels and annotations.
    """
    annotations: dict[str, str] = {}
    if ctx.shape.needs_gang and ctx.shape.backend is not GangBackend.NATIVE:
        # Serving groups share this pod template and its revision. `_customize_template` of
        # `leader_worker_set.py` replaces the name with that of the group's PodGroup.
        annotations[labels.GROUP_NAME] = object_names.pod_group(ctx.meta.service)
    elif not ctx.shape.needs_gang and ctx.shape.queue and ctx.shape.scheduler:
        # If there is no PodGroup, Volcano creates one per workload and reads its queue here.
        annotations[labels.QUEUE_NAME] = ctx.shape.queue
    for pod in pods.all:
        user_metadata = pod.template.get("metadata") or {}
        pd_label = {}
        if ctx.pd_settings is not None and pod.is_leader:
            pd_label = {labels.LLM_D_ROLE: PD_ROLES[ctx.role.component_type]}
        user_labels = user_metadata.get("labels") or {}
        pod_labels = {**pd_label, **user_labels, **get_role_labels(ctx.meta, ctx.role)}
        metadata: dict[str, Any] = {"labels": pod_labels}
        pod_annotations = {**annotations, **(user_metadata.get("annotations") or {})}
        if pod_annotations:
            metadata["annotations"] = pod_annotations
        pods = pods.with_pod(replace(pod, template={"metadata": metadata, "spec": pod.spec}))
    return pods, []


def add_topology_spread(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add topology spread constraints for the leaders of all replicas."""
    selected = {**get_role_labels(ctx.meta, ctx.role), labels.LWS_WORKER_INDEX: "0"}
    leader = pods.leader
    for index, constraint in enumerate(ctx.role.topology_spread or ()):
        added = {
            "maxSkew": constraint.max_skew,
            "topologyKey": constraint.topology_key,
            "whenUnsatisfiable": constraint.when_unsatisfiable.value,
            "labelSelector": {"matchLabels": dict(selected)},
        }
        user_field = ctx.locate("topologySpread", index)
        leader = leader.append("topologySpreadConstraints", [added], user_field)
    return pods.with_pod(leader), []


def add_pod_metadata(
    args: InferenceServiceArgs,
) -> tuple[InferenceServiceArgs, dict[Location, Location]]:
    """Merge `podLabels` and `podAnnotations` into the templates.

    For each key, a template takes precedence over the role, and the role over the service. The
    endpoint picker keeps its own label `app`, which its Deployment selects. Also return the user's
    field of each key added to a template of a serving role, keyed by the location of the added key.
    """
    user_fields: dict[Location, Location] = {}

    def add_to_templates(position: int, role: RoleArgs) -> RoleArgs:
        prefix = ("roles", position)
        added = {
            "labels": {**args.pod_labels, **role.pod_labels},
            "annotations": {**args.pod_annotations, **role.pod_annotations},
        }
        if not any(added.values()):
            return role
        if role.component_type is ComponentType.ROUTER:
            added["labels"].pop(labels.APP, None)
            picker = role.endpoint_picker or EndpointPickerArgs()
            template = _merge_metadata(picker.template or {}, added)
            changed = picker.model_copy(update={"template": template})
            return role.model_copy(update={"endpoint_picker": changed})
        # The user's field of each key: the role's if it has the key, otherwise the service's.
        sources: dict[tuple[str, str], Location] = {}
        for map_name, field, role_values in (
            ("labels", "podLabels", role.pod_labels),
            ("annotations", "podAnnotations", role.pod_annotations),
        ):
            for key in added[map_name]:
                sources[map_name, key] = (
                    (*prefix, field, key) if key in role_values else (field, key)
                )
        templates = {}
        for field, name in TEMPLATE_FIELDS.items():
            template = getattr(role, name)
            if template is None:
                continue
            templates[name] = _merge_metadata(template, added)
            metadata = template.get("metadata") or {}
            for (map_name, key), source in sources.items():
                if key not in (metadata.get(map_name) or {}):
                    location = (*prefix, field, "metadata", map_name, key)
                    user_fields[location] = source
        return role.model_copy(update=templates)

    roles = [add_to_templates(position, role) for position, role in enumerate(args.roles)]
    return args.model_copy(update={"roles": roles}), user_fields


def _merge_metadata(
    template: Mapping[str, Any], added: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    for map_name, values in added.items():
        if values:
            metadata[map_name] = {**values, **(metadata.get(map_name) or {})}
    return {**template, "metadata": metadata}
