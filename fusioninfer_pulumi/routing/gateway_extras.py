"""What some gateways need beside the route.

Istio speaks plain gRPC to the endpoint picker unless a DestinationRule says otherwise; GKE's load
balancers check health and end long requests by policies of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.gateways import PickerTls
from fusioninfer_pulumi.routing.pool import pool_target
from fusioninfer_pulumi.routing.records import RouterPlan
from fusioninfer_pulumi.topology.topology import Topology

# The load balancer's own limit is 30 s for a whole answer, which a stream exceeds; upstream's
# chart has 300.
_GKE_TIMEOUT_SECONDS = 3600
_HEALTH_PATH = "/health"


def gateway_extras(plan: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds what the named implementation needs, nothing for others."""
    known = router.implementation
    if known is None or not router.is_routed:
        return
    if known.picker_tls is PickerTls.BY_DESTINATION_RULE and router.picker.args.tls.enabled:
        yield _destination_rule(plan, router)
    if not known.route_timeouts:
        yield _health_check_policy(plan, router)
        yield _backend_policy(plan, router)


def _destination_rule(plan: Topology, router: RouterPlan) -> Manifest:
    host = router.picker.name
    if not is_output(plan.namespace):
        # Istio takes a short name for one of the rule's own namespace, but advises against it.
        host = f"{host}.{plan.namespace}.svc.cluster.local"
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": router_metadata(plan, router, router.picker.name),
        "spec": {
            "host": host,
            "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
        },
    }


def _health_check_policy(plan: Topology, router: RouterPlan) -> Manifest:
    return _gke_policy(
        plan,
        router,
        "HealthCheckPolicy",
        {
            "config": {
                "type": "HTTP",
                "httpHealthCheck": {
                    "requestPath": _health_path(plan, router),
                    "port": router.pool.port,
                },
            }
        },
    )


def _backend_policy(plan: Topology, router: RouterPlan) -> Manifest:
    return _gke_policy(plan, router, "GCPBackendPolicy", {"timeoutSec": _GKE_TIMEOUT_SECONDS})


def _gke_policy(plan: Topology, router: RouterPlan, kind: str, default: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": kind,
        "metadata": router_metadata(plan, router, router.pool.name),
        "spec": {"targetRef": pool_target(router), "default": default},
    }


def _health_path(plan: Topology, router: RouterPlan) -> str:
    """Path that tells whether an engine serves; the same for every engine of the pool."""
    served = [role for role in plan.roles if role.name in router.pool.roles]
    engines = [role.serving.command.engine for role in served]
    paths = {_HEALTH_PATH if engine is None else engine.health_path for engine in engines}
    return paths.pop() if len(paths) == 1 else _HEALTH_PATH
