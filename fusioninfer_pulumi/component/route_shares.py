"""Waits for the services that a route gives a larger share of its requests.

Gateways answer requests to a pool without ready pods with errors. The HTTPRoute with a larger share
is therefore registered when the service that gets it is available. Pulumi deletes after all
updates, so a share is removed before its service is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.status import observed
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = Mapping[str, Any]

_NO_REPLICA = "it has no replica"
LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_SCALED_OBJECT = ("keda.sh/v1alpha1", "ScaledObject")


def find_growing_shares(plan: ServicePlan, before: Mapping[str, float] | None) -> list[str]:
    """Return the services whose share of the route's requests grows.

    `before` has the percentage of each pool in the stack's state, None if the state has no route.
    The service itself counts only where its route gave it less: nothing reaches a new one sooner.
    """
    route = plan.routing.route if plan.routing is not None else None
    if route is None:
        return []
    own = object_names.inference_pool(plan.service)
    before = before or {}
    pools = {own: plan.service} if own in before else {}
    if route.splits:
        pools |= {object_names.inference_pool(service): service for service in split_services(plan)}
    shares = dict(route.split) if route.splits else {own: 100}
    return [service for pool, service in pools.items() if shares[pool] > before.get(pool, 0)]


def split_services(plan: ServicePlan) -> list[str]:
    """Return the services named in `split`."""
    route = plan.routing.args.httproute if plan.routing is not None else None
    return [share.service for share in (route.split if route is not None else None) or ()]


async def read_unavailable(cluster: Cluster, service: str) -> str | None:
    """Return why a service does not serve yet, None if it does.

    Each role that has LeaderWorkerSets needs a ready replica, and the endpoint picker must be
    available. Raises UnreadableError where the cluster cannot be read.
    """
    lws = await cluster.read_objects(service, LWS)
    pickers = await cluster.read_objects(service, ("apps/v1", "Deployment"))
    missing = find_unavailable(lws.values(), pickers.values())
    # KEDA starts pods for the requests that the endpoint picker holds.
    if missing == _NO_REPLICA and lws and await cluster.read_objects(service, _SCALED_OBJECT):
        return None
    return missing


def find_unavailable(lws: Iterable[Manifest], pickers: Iterable[Manifest]) -> str | None:
    """Return what a service lacks to serve, None if it lacks nothing."""
    pickers = list(pickers)
    if not any((picker.get("status") or {}).get("availableReplicas") for picker in pickers):
        return "its endpoint picker is not available"
    ready: dict[str, bool] = {}
    for item in lws:
        role = item["metadata"]["labels"].get(labels.ROLE_NAME, "")
        if item["spec"].get("replicas") != 0:
            is_ready = bool(observed(item).get("readyReplicas"))
            ready[role] = ready.get(role, False) or is_ready
    if not ready:
        return _NO_REPLICA
    return next((f"role {role} has no ready replica" for role, up in ready.items() if not up), None)
