"""The Gateway: plan and object."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, GatewayArgs, GatewayRefArgs
from fusioninfer_pulumi.findings import Finding, Location, error, info, shown, similar, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.gateways import (
    DEFAULT_CLASS,
    IMPLEMENTATIONS,
    Implementation,
    PickerTls,
)
from fusioninfer_pulumi.routing.records import GatewayPlan, ParentPlan, RouterPlan

GROUP = "gateway.networking.k8s.io"

_LISTENERS = ({"name": "http", "port": 80, "protocol": "HTTP"},)
#: Names shorter than this differ from others by two letters: one alone is a slip.
_SHORT = 5
_PASSED_ON = ("addresses", "infrastructure", "allowed_listeners", "tls", "default_scope")


def implementation_of(args: RoleArgs) -> Implementation | None:
    """What is known of the gateway, None where it is not named or not known."""
    named = args.gateway.implementation if args.gateway is not None else None
    return IMPLEMENTATIONS.get(named) if named is not None else None


def is_managed(args: RoleArgs) -> bool:
    """Tells whether the service gets a Gateway of its own.

    `gateway: {implementation: ...}` beside `parentRefs` says what is behind those; beside
    `routedBy` or `refs`, what the route that is made elsewhere attaches to.
    """
    gateway = args.gateway
    if gateway is None or gateway.refs is not None:
        return False
    if args.httproute is not None and args.httproute.elsewhere is not None:
        return False
    attached = args.httproute is not None and bool(args.httproute.parent_refs)
    return not attached or bool(gateway.model_fields_set - {"implementation"})


def gateway_plan(service: str, args: RoleArgs) -> GatewayPlan | None:
    """Plans the service's own Gateway.

    Args:
        service: Name of the service.
        args: The router role.

    Returns:
        The Gateway, None where the route attaches to existing ones.
    """
    gateway = args.gateway
    if gateway is None or not is_managed(args):
        return None
    known = implementation_of(args)
    fallback = known.gateway_class if known is not None else DEFAULT_CLASS
    spec: dict[str, Any] = {
        "gatewayClassName": gateway.gateway_class_name or fallback,
        "listeners": list(gateway.listeners or _LISTENERS),
    }
    for field in _PASSED_ON:
        value = getattr(gateway, field)
        if value is not None:
            spec[GatewayArgs.model_fields[field].alias or field] = value
    return GatewayPlan(names.gateway(service), gateway.annotations, spec)


def parent_plans(
    namespace: Any, position: int, args: RoleArgs, gateway: GatewayPlan | None
) -> tuple[ParentPlan, ...]:
    """The Gateways that the route attaches to.

    Args:
        namespace: Namespace of the service; may be an Output.
        position: Index of the router in the spec.
        args: The router role.
        gateway: The service's own Gateway, None where there is none.

    Returns:
        Those that the route names, else those that follow from `gateway`.
    """
    at = ("roles", position)
    own = tuple(gateway.spec["listeners"]) if gateway is not None else None
    stated = args.httproute.parent_refs if args.httproute is not None else None
    if stated:
        return tuple(
            _stated((*at, "httproute", "parentRefs", index), parent, namespace, gateway)
            for index, parent in enumerate(stated)
            if parent.get("kind", "Gateway") == "Gateway" and parent.get("group", GROUP) == GROUP
        )
    if gateway is not None:
        return (ParentPlan((*at, "gateway"), gateway.name, namespace, None, None, own),)
    refs = (args.gateway.refs if args.gateway is not None else None) or ()
    return tuple(
        _referenced((*at, "gateway", "refs", index), ref, namespace)
        for index, ref in enumerate(refs)
    )


def parent_refs(
    args: RoleArgs, gateway: GatewayPlan | None
) -> tuple[Mapping[str, Any], ...] | None:
    """The route's `parentRefs`: the user's own, else those that follow from `gateway`."""
    stated = args.httproute.parent_refs if args.httproute is not None else None
    if stated:
        return tuple(stated)
    if gateway is not None:
        return ({"name": gateway.name},)
    refs = args.gateway.refs if args.gateway is not None else None
    return tuple(_reference(ref) for ref in refs) if refs else None


def gateway_findings(
    position: int, args: RoleArgs, gateway: GatewayPlan | None, parents: tuple[ParentPlan, ...]
) -> Iterator[Finding]:
    """What is to be said about the Gateway.

    Args:
        position: Index of the router in the spec.
        args: The router role.
        gateway: The service's own Gateway, None where there is none.
        parents: Gateways that the route attaches to.

    Yields:
        Findings, errors included.
    """
    at = ("roles", position)
    named = args.gateway.implementation if args.gateway is not None else None
    known = implementation_of(args)
    if known is None and (args.gateway is not None or args.httproute is not None):
        say = warning if _is_misspelt(named) else info
        rule = "gateway-unnamed" if named is None else "gateway-unknown"
        yield say(rule, (*at, "gateway", "implementation"), _unknown(named))
    if (
        gateway is not None
        and known is None
        and not (args.gateway or GatewayArgs()).gateway_class_name
    ):
        yield info(
            "gateway-class-defaulted",
            (*at, "gateway", "gatewayClassName"),
            f"is not given: {DEFAULT_CLASS}, a usual name for Envoy Gateway's, is taken",
        )
    if gateway is not None and all(parent.name != gateway.name for parent in parents):
        yield warning(
            "own-gateway-unattached",
            (*at, "httproute", "parentRefs"),
            f"do not name the service's own Gateway {gateway.name}: nothing attaches to it; "
            "remove them, or name it",
        )
    tls = (args.endpoint_picker or EndpointPickerArgs()).tls
    if (
        not tls.enabled
        and known is not None
        and known.picker_tls is not PickerTls.BY_DESTINATION_RULE
    ):
        say = error if known.picker_tls is PickerTls.ALWAYS else warning
        yield say(
            "picker-tls-required",
            (*at, "endpointPicker", "tls", "enabled"),
            f"{known.name} speaks TLS to the picker"
            + ("; remove it" if say is error else ", unless it is configured otherwise"),
        )


def _unknown(named: str | None) -> str:
    listed = ", ".join(IMPLEMENTATIONS)
    if named is None:
        return (
            "is not given: nothing is generated beside the route; name the gateway software "
            f"where it is one of {listed}"
        )
    close = similar(named, IMPLEMENTATIONS)
    hint = f"did you mean {close}?" if close else f"known: {listed}"
    return f"nothing is known of {shown(named)}, and nothing is generated beside the route; {hint}"


def _is_misspelt(named: str | None) -> bool:
    """Whether a name is that of a known gateway but for its case and one or two letters."""
    return named is not None and any(
        _edits(named.lower(), known) <= (1 if len(known) < _SHORT else 2)
        for known in IMPLEMENTATIONS
    )


def _edits(one: str, other: str) -> int:
    """Letters that are replaced, added or removed, in the way that difflib finds."""
    codes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for tag, a, b, c, d in codes if tag != "equal")


def _stated(
    at: Location, parent: Mapping[str, Any], namespace: Any, gateway: GatewayPlan | None
) -> ParentPlan:
    where = parent.get("namespace", namespace)
    own = gateway is not None and parent["name"] == gateway.name and same(where, namespace)
    return ParentPlan(
        at=at,
        name=parent["name"],
        namespace=where,
        section=parent.get("sectionName"),
        port=parent.get("port"),
        listeners=tuple(gateway.spec["listeners"]) if gateway is not None and own else None,
    )


def _referenced(at: Location, ref: GatewayRefArgs, namespace: Any) -> ParentPlan:
    return ParentPlan(
        at=at,
        name=ref.name,
        namespace=namespace if ref.namespace is None else ref.namespace,
        section=ref.section_name,
        port=ref.port,
        listeners=None if ref.listeners is None else tuple(ref.listeners),
    )


def _reference(ref: GatewayRefArgs) -> dict[str, Any]:
    given = {
        "name": ref.name,
        "namespace": ref.namespace,
        "sectionName": ref.section_name,
        "port": ref.port,
    }
    return {key: value for key, value in given.items() if value is not None}


def same(one: Any, other: Any) -> bool:
    """Tells whether two namespaces are surely the same: an Output is only the same as itself."""
    return one is other or (not is_output(one) and not is_output(other) and bool(one == other))


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
