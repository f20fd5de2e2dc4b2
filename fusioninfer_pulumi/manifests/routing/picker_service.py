"""The Service in front of the endpoint picker."""

from __future__ import annotations

from fusioninfer_pulumi import names
from fusioninfer_pulumi.manifests.routing.common import Manifest, picker_labels, router_metadata
from fusioninfer_pulumi.pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta
from fusioninfer_pulumi.spec.router import MetricsMode

_PROTOCOL = "http2"


def picker_service(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the Service; metrics have a port where somebody may read them."""
    known = router.implementation
    protocol = known.picker_protocol if known is not None else _PROTOCOL
    ports = [
        {
            "name": "grpc-ext-proc",
            "port": GRPC_PORT,
            "protocol": "TCP",
            "appProtocol": protocol,
        },
        {"name": "grpc-health", "port": HEALTH_PORT, "protocol": "TCP"},
    ]
    if router.picker.metrics is not MetricsMode.OFF:
        ports.append({"name": names.PICKER_METRICS_PORT, "port": METRICS_PORT, "protocol": "TCP"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": router_metadata(plan, router, router.picker.name),
        "spec": {"type": "ClusterIP", "selector": picker_labels(router), "ports": ports},
    }
