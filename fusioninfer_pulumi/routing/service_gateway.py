"""The Gateway of a service: plan and object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.route import GatewayArgs
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, build_object, metadata
from fusioninfer_pulumi.routing.gateway_implementations import (
    IMPLEMENTATIONS,
    UNKNOWN,
    Implementation,
)

GROUP = "gateway.networking.k8s.io"
API_VERSION = f"{GROUP}/v1"

_LISTENERS = ({"name": "http", "port": 80, "protocol": "HTTP"},)
_PASSED_ON = ("addresses", "infrastructure", "allowed_listeners", "tls", "default_scope")


@dataclass(frozen=True)
class GatewayPlan:
    """A Gateway that belongs to the service.

    Attributes:
        name: Its name.
        annotations: Its own annotations; values may be Outputs.
        spec: Its spec: class, listeners and the user's other fields.
    """

    name: str
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def listeners(self) -> tuple[Mapping[str, Any], ...]:
        """Its listeners."""
        return tuple(self.spec["listeners"])


def find_implementation(args: RoleArgs) -> Implementation:
    """Return what is known of the gateway's implementation; `UNKNOWN` where it is not named."""
    named = args.gateway.implementation if args.gateway is not None else None
    return IMPLEMENTATIONS.get(named, UNKNOWN) if named is not None else UNKNOWN


def plan_gateway(service: str, args: RoleArgs) -> GatewayPlan | None:
    """Plan the service's own Gateway; None where the route attaches to existing ones.

    With `parentRefs`, `gateway: {implementation: ...}` describes those Gateways; with `routedBy`
    or `refs`, the Gateways of the external route.
    """
    gateway = args.gateway
    if gateway is None or gateway.refs is not None or args.is_routed_externally:
        return None
    attached = args.httproute is not None and bool(args.httproute.parent_refs)
    if attached and not gateway.model_fields_set - {"implementation"}:
        return None
    default = find_implementation(args).gateway_class
    spec: dict[str, Any] = {
        "gatewayClassName": gateway.gateway_class_name or default,
        "listeners": list(gateway.listeners or _LISTENERS),
    }
    for field in _PASSED_ON:
        if getattr(gateway, field) is not None:
            spec[GatewayArgs.model_fields[field].alias or field] = getattr(gateway, field)
    return GatewayPlan(object_names.gateway(service), gateway.annotations, spec)


def gateway_object(meta: ServiceMeta, gateway: GatewayPlan) -> Manifest:
    """Build the Gateway."""
    built = metadata(meta, gateway.name)
    if gateway.annotations:
        built["annotations"] = {**built.get("annotations", {}), **gateway.annotations}
    return build_object(API_VERSION, "Gateway", built, spec=dict(gateway.spec))
