"""The ClusterIP Service of a service without a router."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.topology import entry_types
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


def entry_roles(plan: Topology) -> list[RolePlan]:
    """Roles whose leaders answer clients."""
    types = entry_types([role.args for role in plan.roles])
    return [role for role in plan.roles if role.component_type in types]


def entry_type(plan: Topology) -> ComponentType | None:
    """The one component type that answers clients, None where there are several."""
    types = entry_types([role.args for role in plan.roles])
    return types[0] if len(types) == 1 else None


def entry_port(plan: Topology) -> int:
    """Port of the first role that answers clients, one that is not parked if there is any."""
    roles = entry_roles(plan)
    running = [role for role in roles if role.replicas]
    return (running or roles)[0].serving.port


def endpoint(plan: Topology) -> tuple[str, Any, int]:
    """Name, namespace and port of the Service; the namespace may be an Output."""
    return names.serving_service(plan.service), plan.namespace, entry_port(plan)


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
