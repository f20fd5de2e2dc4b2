"""The ClusterIP Service of a service without a router."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.topology import entry_types
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


def entry_roles(plan: Topology) -> list[RolePlan]:
    """Returns the roles whose leaders receive client requests."""
    types = entry_types([role.args for role in plan.roles])
    return [role for role in plan.roles if role.component_type in types]


def entry_port(plan: Topology) -> int:
    """Returns the port of the first role that receives client requests; parked roles come last."""
    roles = entry_roles(plan)
    running = [role for role in roles if role.replicas]
    return (running or roles)[0].serving.port


def endpoint(plan: Topology) -> tuple[str, Any, int]:
    """Returns the Service's name, namespace (may be an Output) and port."""
    return names.serving_service(plan.service), plan.namespace, entry_port(plan)


def serving_service(plan: Topology) -> dict[str, Any]:
    """Builds the Service of a plan without a router.

    It selects leaders only, and no prefill pods where decode is separate.
    """
    selector = {labels.SERVICE: plan.service, labels.LWS_WORKER_INDEX: "0"}
    types = entry_types([role.args for role in plan.roles])
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = types[0].value
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
