"""What is known of each gateway that serves InferencePools; the only place that knows it.

A GatewayClass's name does not tell which software is behind it, so users name it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class PickerTls(str, enum.Enum):
    """How a gateway speaks to the endpoint picker. None of them verifies its certificate."""

    ALWAYS = "always"  #: TLS, whatever is configured
    BY_DESTINATION_RULE = "by-destination-rule"  #: plain, unless a DestinationRule says TLS
    BY_DEFAULT = "by-default"  #: TLS, unless the gateway itself is configured otherwise


class SeveralPools(enum.Enum):
    """What a gateway does with a rule that leads to several InferencePools.

    The Gateway API lets every rule have several backends, and the inference extension's conformance
    test GatewayWeightedAcrossTwoInferencePools (v1.1.0 and later) asks it for pools.
    """

    #: Passes the test: agentgateway 1.0.0, NGINX Gateway Fabric 2.3.0 (the extension's reports).
    SPLIT = "split"
    #: Passes it too (1.30.1), but asks the picker of one pool for all requests of the rule: pods
    #: of the others get requests in turn, and a pool without ready pods fails the whole rule
    #: (istio#61594; fixed by istio#61601 of September 2026).
    ONE_PICKER = "one picker"
    #: Takes one pool in a rule (Envoy AI Gateway 1.1; envoyproxy/ai-gateway#2657 proposes it).
    NO = "no"
    #: No report since the test exists.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Implementation:
    """One gateway.

    Attributes:
        name: As `gateway.implementation` names it.
        gateway_class: The GatewayClass that it is usually installed with.
        picker_tls: How it speaks to the endpoint picker.
        honours_failure_mode: Whether it reads `endpointPickerRef.failureMode`; None when that is
            not known.
        route_timeouts: Whether it takes an HTTPRoute with timeouts.
        several_pools: What becomes of a rule that leads to several pools.
        picker_protocol: `appProtocol` of the picker's Service port.
    """

    name: str
    gateway_class: str
    picker_tls: PickerTls
    honours_failure_mode: bool | None = True
    route_timeouts: bool = True
    several_pools: SeveralPools = SeveralPools.SPLIT
    picker_protocol: str = "http2"


#: GatewayClass where neither it nor the implementation is named, as in KServe's documents.
DEFAULT_CLASS = "eg"

IMPLEMENTATIONS = {
    each.name: each
    for each in (
        Implementation(
            "envoy-ai-gateway",
            # The class must be created: Envoy Gateway brings none.
            "envoy-ai-gateway",
            # internal/extensionserver/inferencepool.go of v1.1.0: TLS without verification (:206),
            # FailureModeAllow is always false (:314).
            PickerTls.ALWAYS,
            honours_failure_mode=False,
            several_pools=SeveralPools.NO,
        ),
        # controller/pkg/agentgateway/plugins/inference_plugin.go: TLS INSECURE_ALL, always.
        Implementation("agentgateway", "agentgateway", PickerTls.ALWAYS),
        Implementation(
            "istio",
            "istio",
            PickerTls.BY_DESTINATION_RULE,
            several_pools=SeveralPools.ONE_PICKER,
        ),
        Implementation("nginx-gateway-fabric", "nginx", PickerTls.BY_DEFAULT),
        Implementation(
            "gke",
            "gke-l7-regional-external-managed",
            PickerTls.BY_DEFAULT,
            honours_failure_mode=None,
            # Load balancers refuse the route; a GCPBackendPolicy has the timeout.
            route_timeouts=False,
            several_pools=SeveralPools.UNKNOWN,
            picker_protocol="kubernetes.io/h2c",
        ),
    )
}
