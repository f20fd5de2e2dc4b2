"""Checks of Gateways: their software, and which routes may attach to their listeners."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.findings import (
    Finding,
    Rule,
    closest_name,
    error,
    shown,
    warning,
)
from fusioninfer_pulumi.routing.endpoint import refusal, select_listeners
from fusioninfer_pulumi.routing.gateway_implementations import IMPLEMENTATIONS, UNKNOWN, EppTls
from fusioninfer_pulumi.routing.http_route import ParentPlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.routing.service_gateway import find_implementation

ROUTE_WITHOUT_GATEWAY = Rule("route-without-gateway")

GATEWAY_IMPLEMENTATION_UNKNOWN = Rule("gateway-implementation-unknown")
LISTENERS_REFUSE_ROUTE = Rule("listeners-refuse-route")


PICKER_TLS_REQUIRED = Rule("picker-tls-required")


def gateway_findings(parts: Routing) -> Iterator[Finding]:
    """Check the Gateway; `parents` are the names of the Gateways that the route attaches to."""
    at, args, gateway = parts.at, parts.args, parts.gateway
    parents = {parent.name for parent in parts.parents}
    named = args.gateway.implementation if args.gateway is not None else None
    known = find_implementation(args)
    meant = closest_name(named or "", IMPLEMENTATIONS, cutoff=0.8) if known is UNKNOWN else None
    # Names of other gateways differ from known ones by a word.
    if named is not None and meant is not None and abs(len(meant) - len(named)) < 2:
        yield warning(
            GATEWAY_IMPLEMENTATION_UNKNOWN,
            (*at, "gateway", "implementation"),
            f"unknown implementation {shown(named)}, so only the route is generated; did you mean "
            f"{meant}?",
        )
    if gateway is not None and gateway.name not in parents:
        yield warning(
            ROUTE_WITHOUT_GATEWAY,
            (*at, "httproute", "parentRefs"),
            f"do not include the service's own Gateway {gateway.name}, so nothing attaches to it; "
            "remove them, or add it",
        )
    tls = (args.endpoint_picker or EndpointPickerArgs()).tls
    if not tls.enabled and known.epp_tls in (EppTls.ALWAYS, EppTls.BY_DEFAULT):
        always = known.epp_tls is EppTls.ALWAYS
        make_finding = error if always else warning
        yield make_finding(
            PICKER_TLS_REQUIRED,
            (*at, "endpointPicker", "tls", "enabled"),
            f"{known.name} uses TLS to the endpoint picker"
            + ("; remove it" if always else ", unless it is configured otherwise"),
        )


def route_attachment_findings(parts: Routing) -> Iterator[Finding]:
    """Check the Gateways that the service's own route attaches to.

    An error where no listener allows the route; nothing where the listeners are not known.
    """
    if parts.route is None:
        return
    namespace, hostnames = parts.spec.namespace, parts.route.hostnames or ()
    for parent in parts.parents:
        if parent.listeners is None:
            continue
        listeners = select_listeners(parent)
        if not listeners:
            yield error(LISTENERS_REFUSE_ROUTE, parent.at, _no_listener(parent))
            continue
        refusals = [refusal(parent, listener, namespace, hostnames) for listener in listeners]
        if all(refusals):
            reasons = "; ".join(
                f"{listener['name']}: {reason}"
                for listener, reason in zip(listeners, refusals, strict=True)
            )
            yield error(
                LISTENERS_REFUSE_ROUTE,
                parent.at,
                f"no listener of Gateway {parent.name} accepts the route: {reasons}",
            )


def _no_listener(parent: ParentPlan) -> str:
    wanted = [
        text
        for text in (
            f"sectionName {parent.section}" if parent.section is not None else "",
            f"port {parent.port}" if parent.port is not None else "",
        )
        if text
    ]
    has = ", ".join(f"{listener['name']} {listener['port']}" for listener in parent.listeners or ())
    return f"Gateway {parent.name} has no listener of {' and '.join(wanted)}; it has {has}"
