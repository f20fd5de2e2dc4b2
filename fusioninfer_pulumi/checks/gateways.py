"""Checks of Gateways: their software, and which routes may attach to their listeners."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.router import EndpointPickerArgs, FailureMode
from fusioninfer_pulumi.findings import (
    Finding,
    Rule,
    error,
    shown,
    similar,
    warning,
)
from fusioninfer_pulumi.routing.endpoint import referenced_listeners, refusal
from fusioninfer_pulumi.routing.gateway import implementation_of
from fusioninfer_pulumi.routing.gateways import IMPLEMENTATIONS, UNKNOWN, EppTls
from fusioninfer_pulumi.routing.route import ParentPlan
from fusioninfer_pulumi.routing.router import Routing

ROUTE_WITHOUT_GATEWAY = Rule(
    "route-without-gateway",
    "warning",
    "A route attaches to a Gateway, and to the service's own if it has one.",
    remedy="Name the Gateway in `parentRefs` or `gateway.refs`.",
)

FAILURE_MODE_IGNORED = Rule(
    "failure-mode-ignored",
    "warning",
    "The gateway ignores the pool's failure mode.",
    remedy="Remove `failureMode`, or use another gateway.",
)
GATEWAY_IMPLEMENTATION_UNKNOWN = Rule(
    "gateway-implementation-unknown",
    "warning",
    "The name of the gateway software is misspelt.",
    remedy="Use the name in the message.",
)
LISTENERS_REFUSE_ROUTE = Rule(
    "listeners-refuse-route",
    "error",
    "The Gateway has the listener that the route names, and one that takes the route.",
    remedy="Change the listener, or the route.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)


PICKER_TLS_REQUIRED = Rule(
    "picker-tls-required",
    ("error", "warning"),
    "The gateway and the picker agree on TLS.",
    remedy="Remove `endpointPicker.tls.enabled`, or configure the gateway.",
)
#: Names shorter than this differ from others by two letters: one alone is a slip.
_SHORT = 5


def failure_mode_findings(parts: Routing) -> Iterator[Finding]:
    """Says where the gateway does not follow `failureMode`."""
    at, args = parts.at, parts.args
    if not parts.args.picks_endpoints:
        return
    explicit = (args.endpoint_picker or EndpointPickerArgs()).failure_mode
    known = implementation_of(args)
    if explicit is FailureMode.FAIL_OPEN and known.honours_failure_mode is False:
        yield warning(
            FAILURE_MODE_IGNORED,
            (*at, "endpointPicker", "failureMode"),
            f"{explicit.value} is ignored by {known.name}, which always drops requests while "
            "the picker does not answer (FailClose)",
        )


def gateway_findings(parts: Routing) -> Iterator[Finding]:
    """Checks the Gateway; `parents` are the names of the Gateways that the route attaches to."""
    at, args, gateway = parts.at, parts.args, parts.gateway
    parents = {parent.name for parent in parts.parents}
    named = args.gateway.implementation if args.gateway is not None else None
    known = implementation_of(args)
    if known is UNKNOWN and named is not None and _is_misspelt(named):
        yield warning(
            GATEWAY_IMPLEMENTATION_UNKNOWN,
            (*at, "gateway", "implementation"),
            f"nothing is known of {shown(named)}, so that nothing is generated beside the route; "
            f"did you mean {similar(named, IMPLEMENTATIONS)}?",
        )
    if gateway is not None and gateway.name not in parents:
        yield warning(
            ROUTE_WITHOUT_GATEWAY,
            (*at, "httproute", "parentRefs"),
            f"do not name the service's own Gateway {gateway.name}: nothing attaches to it; "
            "remove them, or name it",
        )
    tls = (args.endpoint_picker or EndpointPickerArgs()).tls
    if not tls.enabled and known.epp_tls in (EppTls.ALWAYS, EppTls.BY_DEFAULT):
        always = known.epp_tls is EppTls.ALWAYS
        say = error if always else warning
        yield say(
            PICKER_TLS_REQUIRED,
            (*at, "endpointPicker", "tls", "enabled"),
            f"{known.name} speaks TLS to the picker"
            + ("; remove it" if always else ", unless it is configured otherwise"),
        )


def _is_misspelt(named: str) -> bool:
    """Whether a name is that of a known implementation but for its case and one or two letters."""
    return any(
        _edits(named.lower(), known) <= (1 if len(known) < _SHORT else 2)
        for known in IMPLEMENTATIONS
    )


def _edits(one: str, other: str) -> int:
    """Letters that are replaced, added or removed, in the way that difflib finds."""
    codes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for tag, a, b, c, d in codes if tag != "equal")


def route_attachment_findings(parts: Routing) -> Iterator[Finding]:
    """Checks the Gateways that the service's own route attaches to."""
    if parts.route is not None:
        hostnames = parts.route.hostnames or ()
        yield from attachment_findings(parts.spec.namespace, hostnames, parts.parents)


def attachment_findings(
    namespace: Any, hostnames: Sequence[Any], parents: Sequence[ParentPlan]
) -> Iterator[Finding]:
    """Checks each Gateway that a route of the given namespace and host names attaches to.

    An error where no listener allows the route; nothing where the listeners are not known.
    """
    for parent in parents:
        if parent.listeners is None:
            continue
        listeners = referenced_listeners(parent)
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
                f"no listener of Gateway {parent.name} takes the route: {reasons}",
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
