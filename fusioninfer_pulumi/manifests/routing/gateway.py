"""The Gateway that belongs to a service (gateway.networking.k8s.io/v1)."""

from __future__ import annotations

from fusioninfer_pulumi.manifests.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.plan.routing.records import GatewayPlan, RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta

API_VERSION = "gateway.networking.k8s.io/v1"


def gateway(plan: ServiceMeta, router: RouterPlan, planned: GatewayPlan) -> Manifest:
    """Builds the Gateway."""
    metadata = router_metadata(plan, router, planned.name)
    if planned.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **planned.annotations}
    return {
        "apiVersion": API_VERSION,
        "kind": "Gateway",
        "metadata": metadata,
        "spec": dict(planned.spec),
    }
