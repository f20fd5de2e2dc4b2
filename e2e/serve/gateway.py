"""A real Envoy in front of a service, configured from its HTTPRoute and InferencePool or Service.

No controller for InferencePools can be built from published Go modules: Envoy Gateway needs an
extension, and neither extensions nor Istio and kgateway are on the module proxy. So this module
writes the configuration as the inference extension's standalone mode does: Envoy sends each request
to the picker (ext_proc) and then to the address in the picker's header. For a Service, addresses
come from EndpointSlices, as in most gateways. This does not test that a controller translates the
objects in the same way and writes their status.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.harness import Cluster, Object
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, find_ports
from e2e.serve.engine import envoy

GATEWAYS = "gateway.networking.k8s.io/v1/Gateway"
SLICES = "discovery.k8s.io/v1/EndpointSlice"
ROUTES = "gateway.networking.k8s.io/v1/HTTPRoute"
POOLS = "inference.networking.k8s.io/v1/InferencePool"
DESTINATION = "x-gateway-destination-endpoint"

_TYPES = "type.googleapis.com/envoy.extensions"
_MANAGER = f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_PROCESSOR = f"{_TYPES}.filters.http.ext_proc.v3.ExternalProcessor"
_ROUTER = f"{_TYPES}.filters.http.router.v3.Router"
_TLS = f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"
_CERTIFICATE = f"{_TYPES}.transport_sockets.tls.v3.DownstreamTlsContext"
_HTTP = f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions"

_MATCHES = {"PathPrefix": "prefix", "Exact": "path"}


@dataclass(frozen=True)
class Certificate:
    """A listener's certificate and key, in PEM format."""

    chain: str
    key: str


class Gateway:
    """An Envoy for an HTTPRoute with one InferencePool or Service as backend.

    If the route's Gateway exists and has an HTTPS listener, Envoy uses the certificate of its
    Secret.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        route: str,
        pods: Sequence[Object] = (),
        *,
        sends_answers: bool = True,
    ) -> None:
        """Start Envoy. The route and its backend must exist.

        Args:
            cluster: The cluster.
            namespace: Namespace of the route.
            route: Name of the HTTPRoute.
            pods: Pods that Envoy uses if the picker does not respond, or instead of a Service's
                EndpointSlices.
            sends_answers: Whether the picker gets the bodies of responses, as with all gateways
                that support InferencePools.
        """
        self.port, admin = find_ports(2)
        self._cluster = cluster
        self._name = f"envoy-{namespace}-{route}{'-open' if pods else ''}"
        self._name += "" if sends_answers else "-requests"
        stored = cluster.get(ROUTES, route, namespace)
        self.host = (stored["spec"].get("hostnames") or ["localhost"])[0]
        self._certificate = _read_certificate(cluster, stored)
        listens = ((LOOPBACK, self.port), (LOOPBACK, admin))
        name = get_backend_name(stored)
        if has_service_backend(stored):
            self._name += "-service"
            (port,) = {r["port"] for rule in stored["spec"]["rules"] for r in rule["backendRefs"]}
            known = [(pod["status"]["podIP"], port) for pod in pods]
            addresses = known or list_endpoints(cluster, namespace, name)
            settings = configure_service_route(stored, addresses, *listens)
        else:
            pool = cluster.get(POOLS, name, namespace)
            reference = pool["spec"]["endpointPickerRef"]
            service = cluster.get("v1/Service", reference["name"], namespace)
            picker = (service["spec"]["clusterIP"], reference["port"]["number"])
            port = pool["spec"]["targetPorts"][0]["number"]
            known = [(pod["status"]["podIP"], port) for pod in pods]
            clusters = [
                _make_engine_cluster(known),
                _make_picker_cluster(picker, secure=_is_secure(cluster, service)),
            ]
            settings = configure_pool_route(
                stored, pool, clusters, *listens, self._certificate, sends_answers=sends_answers
            )
        path = cluster.directory / f"{self._name}.json"
        path.write_text(json.dumps(settings, indent=2), encoding="utf-8")
        command: list[str | Path] = [find_envoy(), "--config-path", path, "--concurrency", "1"]
        command += ["--log-level", "warn", "--use-dynamic-base-id"]
        self.program = cluster.programs.start(self._name, command)
        wait_http(self.program, f"http://{LOOPBACK}:{admin}/ready")

    @property
    def url(self) -> str:
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://{LOOPBACK}:{self.port}"

    def close(self) -> None:
        self._cluster.programs.stop(self._name)


def find_envoy() -> Path:
    """Return Envoy's executable, which the wheel's script would exec."""
    (path,) = envoy().directory.glob("lib/python*/site-packages/envoy/_bin/envoy")
    return path


def get_backend_name(route: Object) -> str:
    rules = route["spec"]["rules"]
    (name,) = {ref["name"] for rule in rules for ref in rule["backendRefs"]}
    return str(name)


def has_service_backend(route: Object) -> bool:
    rules = route["spec"]["rules"]
    return {ref.get("kind", "Service") for rule in rules for ref in rule["backendRefs"]} == {
        "Service"
    }


def list_endpoints(cluster: Cluster, namespace: str, service: str) -> list[tuple[str, int]]:
    """Return addresses of the ready endpoints of a Service."""
    return [
        (address, slice_["ports"][0]["port"])
        for slice_ in cluster.list(SLICES, namespace)
        if slice_["metadata"]["labels"].get("kubernetes.io/service-name") == service
        for endpoint in slice_["endpoints"]
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    ]


def _read_certificate(cluster: Cluster, route: Object) -> Certificate | None:
    """Return the certificate of the HTTPS listener of a route's Gateway, if it has one."""
    meta = route["metadata"]
    for parent in route["spec"].get("parentRefs") or ():
        namespace = parent.get("namespace") or meta["namespace"]
        if not cluster.exists(GATEWAYS, parent["name"], namespace):
            continue
        for listener in cluster.get(GATEWAYS, parent["name"], namespace)["spec"]["listeners"]:
            if listener["protocol"] == "HTTPS":
                (reference,) = listener["tls"]["certificateRefs"]
                secret = cluster.get("v1/Secret", reference["name"], namespace)["data"]
                chain, key = (base64.b64decode(secret[f"tls.{end}"]) for end in ("crt", "key"))
                return Certificate(chain.decode(), key.decode())
    return None


def _is_secure(cluster: Cluster, service: Object) -> bool:
    """Return whether the picker uses TLS, by its generated flags."""
    meta = service["metadata"]
    deployment = cluster.get("apps/v1/Deployment", meta["name"], meta["namespace"])
    container, *_ = deployment["spec"]["template"]["spec"]["containers"]
    return "--secure-serving=false" not in container["args"]


def configure_pool_route(
    route: Object,
    pool: Object,
    clusters: Sequence[Object],
    listen: tuple[str, int],
    admin: tuple[str, int],
    certificate: Certificate | None,
    *,
    sends_answers: bool,
) -> Object:
    response_modes = ("FULL_DUPLEX_STREAMED", "SEND") if sends_answers else ("NONE", "SKIP")
    processor = {
        "@type": _PROCESSOR,
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker", "authority": "picker"},
                         "timeout": "10s"},
        "processing_mode": {
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "response_body_mode": response_modes[0],
            "request_trailer_mode": "SEND",
            "response_trailer_mode": response_modes[1],
        },
        "message_timeout": "1000s",
        "failure_mode_allow": pool["spec"]["endpointPickerRef"].get("failureMode") == "FailOpen",
    }  # fmt: skip
    ext_proc = {"name": "picker", "typed_config": processor}
    return _make_configuration(route, [ext_proc], clusters, listen, admin, certificate)


def configure_service_route(
    route: Object, pods: Sequence[tuple[str, int]], listen: tuple[str, int], admin: tuple[str, int]
) -> Object:
    cluster = {
        "name": "picked",
        "connect_timeout": "10s",
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": _make_assignment(pods),
    }
    return _make_configuration(route, [], [cluster], listen, admin, None)


def _make_configuration(
    route: Object,
    filters_before: Sequence[Object],
    clusters: Sequence[Object],
    listen: tuple[str, int],
    admin: tuple[str, int],
    certificate: Certificate | None,
) -> Object:
    host = {
        "name": route["metadata"]["name"],
        "domains": [*(route["spec"].get("hostnames") or ()), "*"],
        "routes": [r for rule in route["spec"]["rules"] for r in _make_routes(rule)],
    }
    last = {"name": "router", "typed_config": {"@type": _ROUTER}}
    manager = {
        "@type": _MANAGER,
        "stat_prefix": "requests",
        "route_config": {"name": "routes", "virtual_hosts": [host]},
        "http_filters": [*filters_before, last],
    }
    filters = [{"name": "http", "typed_config": manager}]
    chain: dict[str, Any] = {"filters": filters}
    if certificate is not None:
        pair = {"certificate_chain": {"inline_string": certificate.chain},
                 "private_key": {"inline_string": certificate.key}}  # fmt: skip
        context = {"@type": _CERTIFICATE, "common_tls_context": {"tls_certificates": [pair]}}
        chain["transport_socket"] = {"name": "tls", "typed_config": context}
    listener = {"name": "http", "address": _make_address(*listen), "filter_chains": [chain]}
    return {
        "admin": {"address": _make_address(*admin)},
        "static_resources": {"listeners": [listener], "clusters": list(clusters)},
    }


def _make_routes(rule: Object) -> Sequence[Object]:
    timeout = (rule.get("timeouts") or {}).get("request", "0s")
    action = {"cluster": "picked", "timeout": timeout}
    for match in rule.get("matches") or ():
        if set(match) - {"path"}:
            raise ValueError(f"only path matches are supported, got {match}")
    paths = [match["path"] for match in rule.get("matches") or () if "path" in match]
    routes = [{"match": {_MATCHES[p["type"]]: p["value"]}, "route": action} for p in paths]
    return routes or [{"match": {"prefix": "/"}, "route": action}]


def _make_engine_cluster(pods: Sequence[tuple[str, int]]) -> Object:
    """Return the Envoy cluster of engines, whose address the picker's header contains."""
    thresholds = [{"max_connections": 40000, "max_pending_requests": 40000, "max_requests": 40000}]
    common = {
        "name": "picked",
        "connect_timeout": "10s",
        "circuit_breakers": {"thresholds": thresholds},
    }
    if not pods:
        chosen = {"use_http_header": True, "http_header_name": DESTINATION}
        return {**common, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED",
                "original_dst_lb_config": chosen}  # fmt: skip
    round_robin = _make_policy("round_robin", "RoundRobin")
    policy = _make_policy(
        "override_host",
        "OverrideHost",
        override_host_sources=[{"header": DESTINATION}],
        fallback_policy={"policies": [round_robin]},
    )
    return {**common, "type": "STATIC", "load_balancing_policy": {"policies": [policy]},
            "load_assignment": _make_assignment(pods)}  # fmt: skip


def _make_assignment(pods: Sequence[tuple[str, int]]) -> Object:
    endpoints = [{"endpoint": {"address": _make_address(*pod)}} for pod in pods]
    return {"cluster_name": "picked", "endpoints": [{"lb_endpoints": endpoints}]}


def _make_policy(name: str, message: str, **settings: Any) -> Object:
    kind = f"{_TYPES}.load_balancing_policies.{name}.v3.{message}"
    config = {"name": f"envoy.load_balancing_policies.{name}",
              "typed_config": {"@type": kind, **settings}}  # fmt: skip
    return {"typed_extension_config": config}


def _make_picker_cluster(address: tuple[str, int], *, secure: bool) -> Object:
    protocol = {"@type": _HTTP, "explicit_http_config": {"http2_protocol_options": {}}}
    endpoint = {"endpoint": {"address": _make_address(*address)}}
    cluster: dict[str, Any] = {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "10s",
        "typed_extension_protocol_options": {_HTTP.removeprefix("type.googleapis.com/"): protocol},
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if secure:
        # Gateways do not verify the self-signed certificate.
        cluster["transport_socket"] = {"name": "tls", "typed_config": {"@type": _TLS}}
    return cluster


def _make_address(host: str, port: int) -> Object:
    return {"socket_address": {"address": host, "port_value": port}}
