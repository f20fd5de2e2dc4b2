"""All objects of a service in apply order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, errors
from fusioninfer_pulumi.operations.operations import operations
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.devices import resource_claim_templates
from fusioninfer_pulumi.pods.model_cache import model_cache
from fusioninfer_pulumi.pods.pd_sidecar import sidecar_access
from fusioninfer_pulumi.routing.routing_plan import routing_objects
from fusioninfer_pulumi.schemas.kind_schema import Part, kind_schema
from fusioninfer_pulumi.schemas.schema_check import normalize_part
from fusioninfer_pulumi.topology.gang import pod_group
from fusioninfer_pulumi.topology.leader_worker_set import leader_worker_sets
from fusioninfer_pulumi.topology.service_topology import serving_service


def render(plan: ServicePlan) -> tuple[dict[str, Any], ...]:
    """Return every object of a service.

    Args:
        plan: The service.

    Returns:
        The objects in apply order: PodGroups before their pods, and backends before what routes to
        them.

    Raises:
        InvalidServiceError: The plan has errors.
    """
    problems = errors(plan.findings)
    if problems:
        raise InvalidServiceError(problems)
    others = (*_entry_objects(plan), *operations(plan, plan.routing, plan.operations))
    return (*workloads(plan), *map(_normal, others))


def _entry_objects(plan: ServicePlan) -> Iterator[dict[str, Any]]:
    """Yield the objects that route requests to the pods."""
    if plan.has_serving_service:
        yield serving_service(plan)
    if plan.routing is not None:
        yield from routing_objects(plan, plan.routing)


def _normal(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields that users have set to null."""
    part = Part(manifest["apiVersion"], manifest["kind"])
    return normalize_part(manifest, part) if kind_schema(*part[:2]) is not None else manifest


def workloads(plan: ServicePlan) -> Iterator[dict[str, Any]]:
    """Yield PodGroups, RBAC objects, DRA claims, the model's cache and LeaderWorkerSets."""
    for gang in plan.gangs:
        yield pod_group(plan, gang)
    running = [role for role in plan.roles if role.replicas]
    handing = (role.pods.kv for role in running)
    yield from sidecar_access(plan, [kv.sidecar for kv in handing if kv and kv.sidecar])
    yield from resource_claim_templates(plan, [role.args for role in running])
    yield from model_cache(plan, plan.model)
    yield from leader_worker_sets(plan)
