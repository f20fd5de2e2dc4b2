"""The ClusterIP Service in front of a service that has no router."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi import labels, names
from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.plan.entry import entry_port, entry_type
from fusioninfer_pulumi.plan.records import Topology


def serving_service(plan: Topology) -> dict[str, Any]:
    """Builds the Service: leaders only, and no prefill pods where decode is separate.

    Args:
        plan: A service without a router.

    Returns:
        The Service, on the serving port.
    """
    selector = {labels.SERVICE: plan.service, labels.LWS_WORKER_INDEX: "0"}
    only = entry_type(plan)
    if only is not None:
        selector[labels.COMPONENT_TYPE] = only.value
    port = entry_port(plan)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            plan, names.serving_service(plan.service), {labels.SERVICE: plan.service}
        ),
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
