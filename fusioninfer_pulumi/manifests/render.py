"""All objects of a service in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, errors
from fusioninfer_pulumi.manifests.day_two import day_two
from fusioninfer_pulumi.manifests.device_claims import device_claims
from fusioninfer_pulumi.manifests.disaggregation_access import sidecar_access
from fusioninfer_pulumi.manifests.leader_worker_set import leader_worker_sets
from fusioninfer_pulumi.manifests.model_cache import model_cache
from fusioninfer_pulumi.manifests.pod_group import pod_group
from fusioninfer_pulumi.manifests.routing import routing
from fusioninfer_pulumi.manifests.service import serving_service
from fusioninfer_pulumi.plan.records import ServicePlan


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
        return (*workloads(plan), *routing(plan, plan.router), *day_two(plan))
    return (*workloads(plan), serving_service(plan), *day_two(plan))


def workloads(plan: ServicePlan) -> Iterator[dict[str, Any]]:
    """Builds what runs the pods: the PodGroups, rights, the model's cache, LeaderWorkerSets."""
    for gang in plan.gangs:
        yield pod_group(plan, gang)
    yield from sidecar_access(plan)
    yield from device_claims(plan)
    yield from model_cache(plan)
    yield from leader_worker_sets(plan)
