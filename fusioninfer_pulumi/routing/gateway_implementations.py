"""The Gateway of a service, and facts about the implementations that support InferencePools.

The name of a GatewayClass does not identify its implementation, so users name it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.route import GatewayArgs
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, build_object, metadata
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.topology.role_plan import RolePlan


class SeveralPools(enum.Enum):
    """What a gateway does with a rule that leads to several InferencePools.

    The Gateway API lets every rule have several backends, and the inference extension's conformance
    test GatewayWeightedAcrossTwoInferencePools (v1.1.0 and later) asks it for pools.
    """

    #: Passes the test: agentgateway 1.0.0, NGINX Gateway Fabric 2.3.0 (the extension's reports).
    SPLIT = "split"
    #: Passes it too (1.30.1), but asks the endpoint picker of one pool for all requests of the
    #: rule: pods of the others get requests in turn, and a pool without ready pods fails the whole
    #: rule (istio#61594; fixed by istio#61601 of September 2026).
    ONE_EPP = "one picker"
    #: Takes one pool in a rule (Envoy AI Gateway 1.1; envoyproxy/ai-gateway#2657 proposes it).
    NO = "no"
    #: No report since the test exists.
    UNTESTED = "untested"
    #: The implementation is not named, or not known.
    UNKNOWN = "unknown"


#: Builds the objects that a gateway needs besides the route, from the service's metadata, endpoint
#: picker (None without one), the reference to its pool or Service, the port, and the roles behind.
Extras = Callable[
    [ServiceMeta, EppPlan | None, Mapping[str, Any], int, Sequence[RolePlan]], Iterator[Manifest]
]


def _istio_extras(meta: ServiceMeta, epp: EppPlan | None, *_: object) -> Iterator[Manifest]:
    """Return a DestinationRule, without which Istio speaks plain gRPC to the endpoint picker."""
    if epp is None or not epp.args.tls.enabled:
        return
    host = epp.name
    if not is_output(meta.namespace):
        # Istio takes a short name for one of the rule's own namespace, but advises against it.
        host = f"{host}.{meta.namespace}.svc.cluster.local"
    policy = {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}}
    spec = {"host": host, "trafficPolicy": policy}
    named = metadata(meta, epp.name)
    yield build_object("networking.istio.io/v1", "DestinationRule", named, spec=spec)


# The load balancer's own limit is 30 s for a whole answer, which a stream exceeds; upstream's
# chart has 300.
_GKE_TIMEOUT_SECONDS = 3600
_HEALTH_PATH = "/health"


def _gke_extras(
    meta: ServiceMeta,
    _: EppPlan | None,
    backend: Mapping[str, Any],
    port: int,
    served: Sequence[RolePlan],
) -> Iterator[Manifest]:
    """Return the policies with which GKE's load balancers check health and end long requests."""
    target = {key: backend.get(key, "") for key in ("group", "kind", "name")}
    engines = [role.pods.command.engine for role in served]
    paths = {_HEALTH_PATH if engine is None else engine.health_path for engine in engines}
    path = paths.pop() if len(paths) == 1 else _HEALTH_PATH
    health = {"type": "HTTP", "httpHealthCheck": {"requestPath": path, "port": port}}
    for kind, default in (
        ("HealthCheckPolicy", {"config": health}),
        ("GCPBackendPolicy", {"timeoutSec": _GKE_TIMEOUT_SECONDS}),
    ):
        spec, named = {"targetRef": target, "default": default}, metadata(meta, target["name"])
        yield build_object("networking.gke.io/v1", kind, named, spec=spec)


#: Builds the NetworkPolicyPeers that match the proxies of a Gateway, of the Gateway's name and
#: namespace and of the service's namespace.
Proxies = Callable[[str, Any, Any], Iterator[Manifest]]

_GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"


def namespace_peer(namespace: Any) -> Manifest:
    """Return the NetworkPolicyPeer that matches all pods of a namespace."""
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def _beside_gateway(name: str, namespace: Any, service_namespace: Any) -> Iterator[Manifest]:
    """Yield the proxies in their Gateway's namespace, with its name in a label (GEP-1762)."""
    if is_known_equal(namespace, service_namespace):
        # Other pods of the service's namespace must not get access.
        yield {"podSelector": {"matchLabels": {_GATEWAY_NAME: name}}}
    else:
        yield namespace_peer(namespace)


def _envoy_gateway(name: str, namespace: Any, _service_namespace: Any) -> Iterator[Manifest]:
    """Yield the proxies next to Envoy Gateway, or (`GatewayNamespace` mode) their Gateway."""
    owner = "gateway.envoyproxy.io/owning-gateway-name"
    yield namespace_peer("envoy-gateway-system")
    yield {**namespace_peer(namespace), "podSelector": {"matchLabels": {owner: name}}}


class Implementation(NamedTuple):
    """One gateway implementation.

    Attributes:
        gateway_class: The GatewayClass that it is usually installed with.
        route_timeouts: Whether it takes an HTTPRoute with timeouts.
        several_pools: What it does with a rule that leads to several pools.
        picker_protocol: `appProtocol` of the port of the endpoint picker's Service.
        extras: Builds the objects it needs besides the route, None for none.
        proxies: Where the proxies of a Gateway run, None where that is not known.
        is_envoy_gateway: Whether its proxies have the metrics of Envoy Gateway's, or may have them.
    """

    name: str
    gateway_class: str
    route_timeouts: bool = True
    several_pools: SeveralPools = SeveralPools.SPLIT
    epp_protocol: str = "http2"
    extras: Extras | None = None
    proxies: Proxies | None = None
    is_envoy_gateway: bool = False


#: Used if the implementation is not named or not known. The class is that of KServe's documents.
UNKNOWN = Implementation("", "eg", several_pools=SeveralPools.UNKNOWN, is_envoy_gateway=True)

IMPLEMENTATIONS = {
    implementation.name: implementation
    for implementation in (
        Implementation(
            "envoy-ai-gateway",
            # The class must be created: Envoy Gateway brings none.
            "envoy-ai-gateway",
            # internal/extensionserver/inferencepool.go of v1.1.0: TLS without verification (:206),
            # FailureModeAllow is always false (:314).
            several_pools=SeveralPools.NO,
            proxies=_envoy_gateway,
            is_envoy_gateway=True,
        ),
        # controller/pkg/agentgateway/plugins/inference_plugin.go: TLS INSECURE_ALL, always.
        Implementation("agentgateway", "agentgateway", proxies=_beside_gateway),
        Implementation(
            "istio",
            "istio",
            several_pools=SeveralPools.ONE_EPP,
            extras=_istio_extras,
            proxies=_beside_gateway,
        ),
        Implementation("nginx-gateway-fabric", "nginx", proxies=_beside_gateway),
        Implementation(
            "gke",
            "gke-l7-regional-external-managed",
            # Load balancers reject the route; a GCPBackendPolicy has the timeout.
            route_timeouts=False,
            several_pools=SeveralPools.UNTESTED,
            epp_protocol="kubernetes.io/h2c",
            extras=_gke_extras,
        ),
    )
}


GROUP = "gateway.networking.k8s.io"
API_VERSION = f"{GROUP}/v1"

_LISTENERS = ({"name": "http", "port": 80, "protocol": "HTTP"},)
_PASSED_ON = ("addresses", "infrastructure", "allowed_listeners", "tls", "default_scope")


class GatewayPlan(NamedTuple):
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
