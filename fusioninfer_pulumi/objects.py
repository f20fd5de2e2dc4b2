"""All objects of a service in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, errors
from fusioninfer_pulumi.operations.operations import operations
from fusioninfer_pulumi.pods.device_claims import resource_claim_templates
from fusioninfer_pulumi.pods.model_cache import model_cache
from fusioninfer_pulumi.pods.sidecar import sidecar_access
from fusioninfer_pulumi.routing.router import router_objects
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import pod_group
from fusioninfer_pulumi.topology.leader_worker_set import leader_worker_sets
from fusioninfer_pulumi.topology.service import serving_service


def render(plan: ServicePlan) -> tuple[dict[str, Any], ...]:
    """Builds every object of a service.

    Args:
        plan: The service.

    Returns:
        The objects in apply order: the PodGroup precedes the pods that name it, and what serves
        precedes what leads to it.

    Raises:
        InvalidServiceError: The plan holds errors.
    """
    refused = errors(plan.findings)
    if refused:
        raise InvalidServiceError(refused)
    if plan.router is not None:
        return (
            *workloads(plan),
            *router_objects(plan, plan.router),
            *operations(plan, plan.router, plan.operations),
        )
    return (
        *workloads(plan),
        serving_service(plan),
        *operations(plan, plan.router, plan.operations),
    )


def workloads(plan: ServicePlan) -> Iterator[dict[str, Any]]:
    """Builds what runs the pods: the PodGroups, rights, the model's cache, LeaderWorkerSets."""
    for gang in plan.gangs:
        yield pod_group(plan, gang)
    running = [role for role in plan.roles if role.replicas]
    handing = (role.pods.kv for role in running)
    yield from sidecar_access(plan, [kv.sidecar for kv in handing if kv and kv.sidecar])
    yield from resource_claim_templates(plan, [role.args for role in running])
    yield from model_cache(plan, plan.model)
    yield from leader_worker_sets(plan)
