"""The ClusterIP Service of a service without an endpoint picker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_pulumi.api.topology import entry_types
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


def entry_roles(roles: Sequence[RolePlan]) -> list[RolePlan]:
    """Returns the roles whose leaders receive client requests."""
    types = entry_types([role.args for role in roles])
    return [role for role in roles if role.component_type in types]


def entry_port(roles: Sequence[RolePlan]) -> int:
    """Returns the port of the first role that receives client requests; parked roles come last."""
    roles = entry_roles(roles)
    running = [role for role in roles if role.replicas]
    return (running or roles)[0].serving.port


def endpoint(plan: Topology) -> tuple[str, Any, int]:
    """Returns the Service's name, namespace (may be an Output) and port."""
    return names.serving_service(plan.service), plan.namespace, entry_port(plan.roles)


def service_reference(service: str, roles: Sequence[RolePlan]) -> dict[str, Any]:
    """Returns the reference of a route to the Service."""
    return {
        "kind": "Service",
        "name": names.serving_service(service),
        "port": entry_port(roles),
    }


def serving_service(plan: Topology) -> dict[str, Any]:
    """Builds the Service of a plan without an endpoint picker.

    It selects leaders only, and no prefill pods where decode is separate.
    """
    selector = {labels.SERVICE: plan.service, labels.LWS_WORKER_INDEX: "0"}
    types = entry_types([role.args for role in plan.roles])
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = types[0].value
    port = entry_port(plan.roles)
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
