"""Renders the Kubernetes objects of a service."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import raise_errors
from fusioninfer_pulumi.kube.object_metadata import Manifest
from fusioninfer_pulumi.operations.operations import build_operations
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.devices import build_resource_claim_templates
from fusioninfer_pulumi.pods.model_files import build_model_cache
from fusioninfer_pulumi.pods.pd_sidecar import build_sidecar_access
from fusioninfer_pulumi.routing.pool import build_serving_service
from fusioninfer_pulumi.routing.routing_plan import build_routing_objects
from fusioninfer_pulumi.schemas.kind_schema import Part, kind_schema
from fusioninfer_pulumi.schemas.schema_check import normalize_part
from fusioninfer_pulumi.topology.gang import build_pod_group
from fusioninfer_pulumi.topology.image_pulls import build_image_pulls
from fusioninfer_pulumi.topology.leader_worker_set import build_leader_worker_sets


def render(plan: ServicePlan) -> tuple[Manifest, ...]:
    """Return all objects of a service in apply order.

    PodGroups precede their pods, and pools and Services precede the routes to them.

    Raises:
        InvalidServiceError: The plan has errors.
    """
    raise_errors(plan.findings)
    return (*render_workloads(plan), *map(_drop_nulls, _render_routing_and_operations(plan)))


def _render_routing_and_operations(plan: ServicePlan) -> Iterator[Manifest]:
    if plan.needs_serving_service:
        yield build_serving_service(plan.meta, plan.roles, plan.shape)
    if plan.routing is not None:
        yield from build_routing_objects(plan.meta, plan.routing, plan.roles)
    yield from build_operations(plan.meta, plan.routing, plan.operations)


def _drop_nulls(manifest: Manifest) -> Manifest:
    """Return an object without fields that users set to null."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    has_schema = kind_schema(api_version, kind) is not None
    return normalize_part(manifest, Part(api_version, kind)) if has_schema else manifest


def render_workloads(plan: ServicePlan) -> Iterator[Manifest]:
    """Yield the LeaderWorkerSets of a service, after the objects that their pods refer to."""
    for gang in plan.gangs:
        yield build_pod_group(plan.meta, plan.shape, gang)
    active_roles = [role for role in plan.roles if role.replicas]
    sidecars = [kv.sidecar for role in active_roles if (kv := role.pods.kv) and kv.sidecar]
    yield from build_sidecar_access(plan.meta, sidecars)
    yield from build_resource_claim_templates(plan.meta, [role.args for role in active_roles])
    yield from build_model_cache(plan.meta, plan.model)
    yield from build_image_pulls(plan.meta, active_roles, plan.rollout)
    yield from build_leader_worker_sets(plan.meta, plan.shape, plan.roles)
