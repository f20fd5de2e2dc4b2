"""Where clients reach a service that has no router."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.plan.records import RolePlan, Topology
from fusioninfer_pulumi.plan.topology import entry_types
from fusioninfer_pulumi.spec.role import ComponentType


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
