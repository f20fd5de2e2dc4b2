"""Finds the services that a route sends more requests to, and whether they are available.

A gateway returns errors if a pool has no ready pods. So an HTTPRoute with a larger share for a
service is registered only when the service is available. Pulumi deletes objects after all updates,
so a share is removed before its service is deleted.
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
LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_SCALED_OBJECT = ("keda.sh/v1alpha1", "ScaledObject")


def find_growing_shares(plan: ServicePlan, before: Mapping[str, float] | None) -> list[str]:
    """Return the services whose share of the route's requests grows.

    `before` has the percentage of each pool in the stack's state; None if the state has no route.
    The service itself counts only if the route in the state already names its pool: the requests of
    a new service arrive only through the new route.
    """
    route = plan.routing.route if plan.routing is not None else None
    if route is None:
        return []
    before = before or {}
    shares = dict(route.split) if route.has_split else {plan.service: 100}
    if inference_pool(plan.service) not in before:
        del shares[plan.service]
    return [
        service
        for service, share in shares.items()
        if share > before.get(inference_pool(service), 0)
    ]


async def explain_unavailable_service(cluster: Cluster, service: str) -> str | None:
    """Return why a service is not available, or None if it is.

    It is available if its endpoint picker is, and if each role that is not scaled to zero has a
    ready replica. If all roles are scaled to zero, KEDA must be able to start replicas. Raises
    UnreadableError if the cluster cannot be read.
    """
    lws = await cluster.read_objects(service, LWS)
    pickers = await cluster.read_objects(service, ("apps/v1", "Deployment"))
    reason = explain_unavailable(lws.values(), pickers.values())
    # KEDA starts pods for the requests that the endpoint picker queues.
    if reason == _NO_REPLICA and lws and await cluster.read_objects(service, _SCALED_OBJECT):
        return None
    return reason


def explain_unavailable(lws: Iterable[Manifest], pickers: Iterable[Manifest]) -> str | None:
    """Return why a service with these objects is not available, or None if it is."""
    if not any((picker.get("status") or {}).get("availableReplicas") for picker in pickers):
        return "its endpoint picker is not available"
    ready: dict[str, bool] = {}
    for item in lws:
        role = item["metadata"]["labels"].get(labels.ROLE_NAME, "")
        if item["spec"].get("replicas") != 0:
            is_ready = bool(get_current_status(item).get("readyReplicas"))
            ready[role] = ready.get(role, False) or is_ready
    if not ready:
        return _NO_REPLICA
    return next((f"role {role} has no ready replica" for role, up in ready.items() if not up), None)
