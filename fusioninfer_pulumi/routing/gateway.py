"""The Gateway of a service: plan, object, and checks against what its implementation does."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.route import GatewayArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, FailureMode
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    info,
    shown,
    similar,
    warning,
)
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.routing.gateways import (
    IMPLEMENTATIONS,
    UNKNOWN,
    EppTls,
    Implementation,
)

FAILURE_MODE_UNVERIFIED = Rule(
    "failure-mode-unverified",
    "info",
    "Whether the gateway reads the pool's failure mode is known.",
    remedy="Test it.",
)
FAILURE_MODE_IGNORED = Rule(
    "failure-mode-ignored",
    ("info", "warning"),
    "The gateway reads the pool's failure mode.",
    remedy="Remove it, or use a gateway that reads it.",
)
GATEWAY_CLASS_DEFAULTED = Rule(
    "gateway-class-defaulted",
    "info",
    "The GatewayClass is stated.",
    remedy="Set `gatewayClassName`.",
)
OWN_GATEWAY_UNATTACHED = Rule(
    "own-gateway-unattached",
    "warning",
    "The route attaches to the service's own Gateway.",
    remedy="Remove `parentRefs`, or name the Gateway.",
)
PICKER_TLS_REQUIRED = Rule(
    "picker-tls-required",
    ("error", "warning"),
    "The gateway and the picker agree on TLS.",
    remedy="Remove `endpointPicker.tls.enabled`, or configure the gateway.",
)
GATEWAY_IMPLEMENTATION_MISSING = Rule(
    "gateway-implementation-missing",
    "info",
    "The gateway software is stated, so that its extra objects are made.",
    remedy="Set `gateway.implementation`.",
)
GATEWAY_IMPLEMENTATION_UNKNOWN = Rule(
    "gateway-implementation-unknown",
    ("info", "warning"),
    "The gateway software is one that is known.",
    remedy="Correct `gateway.implementation`.",
)

GROUP = "gateway.networking.k8s.io"
API_VERSION = f"{GROUP}/v1"

_LISTENERS = ({"name": "http", "port": 80, "protocol": "HTTP"},)
#: Names shorter than this differ from others by two letters: one alone is a slip.
_SHORT = 5
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


def implementation_of(args: RoleArgs) -> Implementation:
    """What is known of the gateway's implementation; `UNKNOWN` where it is not named."""
    named = args.gateway.implementation if args.gateway is not None else None
    return IMPLEMENTATIONS.get(named, UNKNOWN) if named is not None else UNKNOWN


def _is_managed(args: RoleArgs) -> bool:
    """Whether the service gets a Gateway of its own.

    `gateway: {implementation: ...}` beside `parentRefs` says what implements those; beside
    `routedBy` or `refs`, what implements the Gateways of the external route.
    """
    gateway = args.gateway
    if gateway is None or gateway.refs is not None:
        return False
    if args.httproute is not None and args.httproute.external_field is not None:
        return False
    attached = args.httproute is not None and bool(args.httproute.parent_refs)
    return not attached or bool(gateway.model_fields_set - {"implementation"})


def gateway_plan(service: str, args: RoleArgs) -> GatewayPlan | None:
    """Plans the service's own Gateway; None where the route attaches to existing ones."""
    gateway = args.gateway
    if gateway is None or not _is_managed(args):
        return None
    default = implementation_of(args).gateway_class
    spec: dict[str, Any] = {
        "gatewayClassName": gateway.gateway_class_name or default,
        "listeners": list(gateway.listeners or _LISTENERS),
    }
    for field in _PASSED_ON:
        value = getattr(gateway, field)
        if value is not None:
            spec[GatewayArgs.model_fields[field].alias or field] = value
    return GatewayPlan(names.gateway(service), gateway.annotations, spec)


def failure_mode_findings(at: Location, args: RoleArgs) -> Iterator[Finding]:
    """Says where the gateway does not follow `failureMode`."""
    explicit = (args.endpoint_picker or EndpointPickerArgs()).failure_mode
    field = (*at, "endpointPicker", "failureMode")
    mode = explicit or FailureMode.FAIL_OPEN
    known = implementation_of(args)
    if known.honours_failure_mode is None:
        if explicit is not None:
            yield info(
                FAILURE_MODE_UNVERIFIED, field, f"whether {known.name} reads it is not known"
            )
    elif not known.honours_failure_mode and mode is not FailureMode.FAIL_CLOSE:
        say = warning if explicit is not None else info
        yield say(
            FAILURE_MODE_IGNORED,
            field,
            f"{mode.value} is ignored by {known.name}, which always drops requests while "
            "the picker does not answer (FailClose)",
        )


def gateway_findings(
    at: Location, args: RoleArgs, gateway: GatewayPlan | None, parents: Collection[str]
) -> Iterator[Finding]:
    """Checks the Gateway; `parents` are the names of the Gateways that the route attaches to."""
    named = args.gateway.implementation if args.gateway is not None else None
    known = implementation_of(args)
    if known is UNKNOWN and (args.gateway is not None or args.httproute is not None):
        yield _unknown_implementation((*at, "gateway", "implementation"), named)
    if (
        gateway is not None
        and known is UNKNOWN
        and not (args.gateway or GatewayArgs()).gateway_class_name
    ):
        yield info(
            GATEWAY_CLASS_DEFAULTED,
            (*at, "gateway", "gatewayClassName"),
            f"is not given: {known.gateway_class}, a usual name for Envoy Gateway's, is taken",
        )
    if gateway is not None and gateway.name not in parents:
        yield warning(
            OWN_GATEWAY_UNATTACHED,
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


def _unknown_implementation(at: Location, named: str | None) -> Finding:
    listed = ", ".join(IMPLEMENTATIONS)
    if named is None:
        return info(
            GATEWAY_IMPLEMENTATION_MISSING,
            at,
            "is not given: nothing is generated beside the route; name the gateway software "
            f"where it is one of {listed}",
        )
    close = similar(named, IMPLEMENTATIONS)
    hint = f"did you mean {close}?" if close else f"known: {listed}"
    say = warning if _is_misspelt(named) else info
    return say(
        GATEWAY_IMPLEMENTATION_UNKNOWN,
        at,
        f"nothing is known of {shown(named)}, and nothing is generated beside the route; {hint}",
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


def gateway_object(meta: ServiceMeta, gateway: GatewayPlan) -> Manifest:
    """Builds the Gateway."""
    built = metadata(meta, gateway.name)
    if gateway.annotations:
        built["annotations"] = {**built.get("annotations", {}), **gateway.annotations}
    return {
        "apiVersion": API_VERSION,
        "kind": "Gateway",
        "metadata": built,
        "spec": dict(gateway.spec),
    }
