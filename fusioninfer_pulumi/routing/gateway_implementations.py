"""The Gateway of a service, and facts about the implementations that support InferencePools.

Users set the implementation, because the name of a GatewayClass does not identify it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.routing.epp import EppPlan


class SeveralPools(enum.Enum):
    """How a gateway handles a rule with several InferencePools as backends.

    The inference extension's conformance test GatewayWeightedAcrossTwoInferencePools (v1.1.0 and
    later) requires weighted pools.
    """

    #: Passes the test: agentgateway 1.0.0, NGINX Gateway Fabric 2.3.0 (the extension's reports).
    SPLIT = "split"
    #: Passes the test (Istio 1.30.1), but asks the endpoint picker of only one pool. Pods of the
    #: other pools are chosen round-robin, and a pool without ready pods fails the whole rule
    #: (istio#61594; fixed by istio#61601 of September 2026).
    ONE_EPP = "one picker"
    #: Accepts one pool per rule (Envoy AI Gateway 1.1; envoyproxy/ai-gateway#2657 proposes more).
    NO = "no"
    #: No conformance report includes the test.
    UNTESTED = "untested"
    #: The implementation is unknown.
    UNKNOWN = "unknown"


#: Builds the objects that a gateway needs in addition to the route. The arguments are the service's
#: metadata, the endpoint picker if there is one, the route's reference to the pool or Service, and
#: the first port of the pods.
ExtrasBuilder = Callable[[ServiceMeta, EppPlan | None, Mapping[str, Any], int], Iterator[Manifest]]


def _build_istio_extras(meta: ServiceMeta, epp: EppPlan | None, *_: object) -> Iterator[Manifest]:
    """Build a DestinationRule; without it Istio does not use TLS to the endpoint picker."""
    if epp is None or not epp.args.tls.enabled:
        return
    host = epp.name
    if not is_output(meta.namespace):
        # Istio completes a short name with the rule's namespace, but advises against short names.
        host = f"{host}.{meta.namespace}.svc.cluster.local"
    policy = {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}}
    spec = {"host": host, "trafficPolicy": policy}
    object_meta = build_metadata(meta, epp.name)
    yield build_object("networking.istio.io/v1", "DestinationRule", object_meta, spec=spec)


# Long enough for streams: the load balancer's default is 30 s for a whole response, and the
# inference extension's chart sets 300 s.
_GKE_TIMEOUT_SECONDS = 3600
#: All supported engines answer 200 at this path once they serve.
_HEALTH_PATH = "/health"


def _build_gke_extras(
    meta: ServiceMeta, _: EppPlan | None, backend: Mapping[str, Any], port: int
) -> Iterator[Manifest]:
    """Build the policies that set the health check and the timeout of GKE's load balancers."""
    target = {key: backend.get(key, "") for key in ("group", "kind", "name")}
    health = {"type": "HTTP", "httpHealthCheck": {"requestPath": _HEALTH_PATH, "port": port}}
    for kind, default in (
        ("HealthCheckPolicy", {"config": health}),
        ("GCPBackendPolicy", {"timeoutSec": _GKE_TIMEOUT_SECONDS}),
    ):
        object_meta = build_metadata(meta, target["name"])
        spec = {"targetRef": target, "default": default}
        yield build_object("networking.gke.io/v1", kind, object_meta, spec=spec)


#: Builds the NetworkPolicyPeers that match a Gateway's proxies, from the Gateway's name and
#: namespace and the service's namespace.
PeersBuilder = Callable[[str, Any, Any], Iterator[Manifest]]

_GATEWAY_NAME_LABEL = "gateway.networking.k8s.io/gateway-name"


def build_namespace_peer(namespace: Any) -> Manifest:
    """Return the NetworkPolicyPeer that matches all pods of a namespace."""
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def _match_in_gateway_namespace(
    name: str, namespace: Any, service_namespace: Any
) -> Iterator[Manifest]:
    if is_known_equal(namespace, service_namespace):
        # Other pods of the service's namespace must not get access. The proxies have a label with
        # the Gateway's name (GEP-1762).
        yield {"podSelector": {"matchLabels": {_GATEWAY_NAME_LABEL: name}}}
    else:
        yield build_namespace_peer(namespace)


def _match_envoy_gateway(name: str, namespace: Any, _service_namespace: Any) -> Iterator[Manifest]:
    owner = "gateway.envoyproxy.io/owning-gateway-name"
    yield build_namespace_peer("envoy-gateway-system")
    # In mode GatewayNamespace, the proxies run in the Gateway's namespace.
    yield {**build_namespace_peer(namespace), "podSelector": {"matchLabels": {owner: name}}}


class Implementation(NamedTuple):
    """One gateway implementation.

    Attributes:
        gateway_class: The implementation's usual GatewayClass.
        accepts_timeouts: Whether the gateway accepts an HTTPRoute with timeouts.
        several_pools: How the gateway handles a rule with several pools.
        epp_protocol: `appProtocol` that the gateway requires on the endpoint picker's Service.
        build_extras: Builds the objects that the gateway needs in addition to the route, or None
            if the route is enough.
        build_peers: Builds the peers that match the gateway's proxies, or None if it is unknown
            where the proxies run.
        may_be_envoy_gateway: Whether it is or may be Envoy Gateway, whose proxies have metrics.
    """

    name: str
    gateway_class: str
    accepts_timeouts: bool = True
    several_pools: SeveralPools = SeveralPools.SPLIT
    epp_protocol: str = "http2"
    build_extras: ExtrasBuilder | None = None
    build_peers: PeersBuilder | None = None
    may_be_envoy_gateway: bool = False


#: Used if the implementation is unknown, with the class of Envoy Gateway's and KServe's examples.
UNKNOWN = Implementation("", "eg", several_pools=SeveralPools.UNKNOWN, may_be_envoy_gateway=True)

IMPLEMENTATIONS = {
    implementation.name: implementation
    for implementation in (
        # Envoy AI Gateway does not verify the picker's certificate, and ignores `failureMode`
        # (lines 206 and 314 of internal/extensionserver/inferencepool.go, v1.1.0).
        Implementation(
            "envoy-ai-gateway",
            # The user must create this class, because Envoy Gateway installs none.
            "envoy-ai-gateway",
            several_pools=SeveralPools.NO,
            build_peers=_match_envoy_gateway,
            may_be_envoy_gateway=True,
        ),
        # agentgateway does not verify the picker's certificate (INSECURE_ALL in
        # controller/pkg/agentgateway/plugins/inference_plugin.go).
        Implementation("agentgateway", "agentgateway", build_peers=_match_in_gateway_namespace),
        Implementation(
            "istio",
            "istio",
            several_pools=SeveralPools.ONE_EPP,
            build_extras=_build_istio_extras,
            build_peers=_match_in_gateway_namespace,
        ),
        Implementation("nginx-gateway-fabric", "nginx", build_peers=_match_in_gateway_namespace),
        Implementation(
            "gke",
            "gke-l7-regional-external-managed",
            # The load balancers reject route timeouts; a GCPBackendPolicy sets one.
            accepts_timeouts=False,
            several_pools=SeveralPools.UNTESTED,
            epp_protocol="kubernetes.io/h2c",
            build_extras=_build_gke_extras,
        ),
    )
}


GATEWAY_GROUP = "gateway.networking.k8s.io"
GATEWAY_API_VERSION = f"{GATEWAY_GROUP}/v1"


class GatewayPlan(NamedTuple):
    """The Gateway that is created for a service.

    Attributes:
        annotations: The user's annotations; values may be Outputs.
        spec: The Gateway's class, listeners and the user's other fields.
    """

    name: str
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def listeners(self) -> tuple[Mapping[str, Any], ...]:
        """The listeners in the Gateway's spec."""
        return tuple(self.spec["listeners"])


def find_implementation(router: RoleArgs) -> Implementation:
    """Return the gateway implementation of a router role, or `UNKNOWN` if the role sets none."""
    if router.gateway is None or router.gateway.implementation is None:
        return UNKNOWN
    return IMPLEMENTATIONS.get(router.gateway.implementation, UNKNOWN)


def plan_gateway(service: str, router: RoleArgs) -> GatewayPlan | None:
    """Plan the Gateway of a service, or return None if no Gateway is created.

    No Gateway is created if `gateway` is not set, and in three other cases: `gateway.refs` is set;
    the route is external (`routedBy` or `httproute.refs`); or the route has `parentRefs`, and
    `gateway` sets nothing but `implementation`.
    """
    gateway = router.gateway
    if gateway is None or gateway.refs is not None or router.is_routed_externally:
        return None
    has_parents = router.httproute is not None and bool(router.httproute.parent_refs)
    sets_only_implementation = gateway.model_fields_set <= {"implementation"}
    if has_parents and sets_only_implementation:
        return None
    default = find_implementation(router).gateway_class
    name = object_names.gateway(service)
    return GatewayPlan(name, gateway.annotations, gateway.build_spec(default))


def build_gateway(meta: ServiceMeta, gateway: GatewayPlan) -> Manifest:
    """Build the Gateway."""
    annotated = replace(meta, annotations={**meta.annotations, **gateway.annotations})
    object_meta = build_metadata(annotated, gateway.name)
    return build_object(GATEWAY_API_VERSION, "Gateway", object_meta, spec=dict(gateway.spec))
