"""Finds services whose share of a route's requests grows, and checks whether they are available.

A gateway returns errors if a pool has no ready pods. An HTTPRoute that sends a service a larger
share is therefore registered only when the service is available. Pulumi deletes objects after all
updates, so a service's share is removed before the service is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.status import get_current_status
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_names import inference_pool
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = Mapping[str, Any]

_NO_REPLICA = "it has no replica"
LWS_API = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_SCALED_OBJECT_API = ("keda.sh/v1alpha1", "ScaledObject")


def find_growing_shares(plan: ServicePlan, shares_before: Mapping[str, float] | None) -> list[str]:
    """Return the names of the services whose share of the route's requests grows.

    `shares_before` maps each pool of the route in the stack's state to its percentage; None if the
    state has no route. The service itself counts only if that route already has its pool: a new
    service receives requests only through the new route.
    """
    route = plan.routing.route if plan.routing is not None else None
    if route is None:
        return []
    shares_before = shares_before or {}
    shares = dict(route.split) if route.has_split else {plan.service: 100}
    if inference_pool(plan.service) not in shares_before:
        del shares[plan.service]
    return [
        service
        for service, share in shares.items()
        if share > shares_before.get(inference_pool(service), 0)
    ]


async def explain_unavailable_service(cluster: Cluster, service_name: str) -> str | None:
    """Return why a service is not available, or None if it is.

    A service is available if its endpoint picker is, and if each role that is not scaled to zero
    has a ready replica. If all roles are scaled to zero, KEDA must be able to start replicas.
    Raises UnreadableError if the cluster cannot be read.
    """
    lws = await cluster.read_objects(service_name, LWS_API)
    pickers = await cluster.read_objects(service_name, ("apps/v1", "Deployment"))
    reason = explain_unavailable(lws.values(), pickers.values())
    # KEDA starts pods for the requests that the endpoint picker queues.
    if reason != _NO_REPLICA or not lws:
        return reason
    return None if await cluster.read_objects(service_name, _SCALED_OBJECT_API) else reason


def explain_unavailable(live_lws: Iterable[Manifest], pickers: Iterable[Manifest]) -> str | None:
    """Return why a service with these objects is not available, or None if it is."""
    if not any((picker.get("status") or {}).get("availableReplicas") for picker in pickers):
        return "its endpoint picker is not available"
    ready_by_role: dict[str, bool] = {}
    for lws in live_lws:
        role = lws["metadata"]["labels"].get(labels.ROLE_NAME, "")
        if lws["spec"].get("replicas") != 0:
            is_ready = bool(get_current_status(lws).get("readyReplicas"))
            ready_by_role[role] = ready_by_role.get(role, False) or is_ready
    if not ready_by_role:
        return _NO_REPLICA
    unready = (role for role, is_ready in ready_by_role.items() if not is_ready)
    return next((f"role {role} has no ready replica" for role in unready), None)
