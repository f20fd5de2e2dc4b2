"""NetworkPolicies for the pods of a service.

They list the peers that may connect; the kubelet's probes are always allowed. Egress is not
restricted, and RDMA traffic bypasses NetworkPolicies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode, NetworkPolicyArgs
from fusioninfer_pulumi.endpoint_pickers.picker_choice import find_picker_events_port
from fusioninfer_pulumi.endpoint_pickers.picker_config import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.pods.kv_cache import get_engine_events_port
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.gateway_implementations import Implementation, build_namespace_peer
from fusioninfer_pulumi.routing.http_route import ParentPlan
from fusioninfer_pulumi.routing.pool import PoolPlan
from fusioninfer_pulumi.topology.role_plan import RolePlan


class NetworkPolicyPlan(NamedTuple):
    """Peers outside the service that may connect to its pods.

    Attributes:
        gateway: NetworkPolicyPeers that match the gateway's proxies.
        metrics: NetworkPolicyPeers that match the readers of metrics.
    """

    gateway: tuple[Mapping[str, Any], ...]
    metrics: tuple[Mapping[str, Any], ...] = ()


def find_proxy_peers(
    namespace: Any, parents: Sequence[ParentPlan], implementation: Implementation
) -> tuple[Manifest, ...]:
    """Return the peers that match the Gateways' proxies; `namespace` is the service's."""
    peers: list[Manifest] = []
    if implementation.build_peers is None:
        return ()
    for parent in parents:
        # A Gateway may occur several times, once for each listener.
        for peer in implementation.build_peers(parent.name, parent.namespace, namespace):
            if peer not in peers:
                peers.append(peer)
    return tuple(peers)


def plan_network_policies(
    args: NetworkPolicyArgs | None, proxies: tuple[Manifest, ...]
) -> NetworkPolicyPlan | None:
    """Plan the NetworkPolicies; return None if disabled or if the gateway's peers are unknown."""
    args = args or NetworkPolicyArgs()
    if args.gateway_namespace is not None:
        proxies = (build_namespace_peer(args.gateway_namespace),)
    gateway = tuple(args.gateway or proxies)
    if not args.enabled or not gateway:
        return None
    return NetworkPolicyPlan(gateway, tuple(args.metrics or ()))


def build_picker_network_policy(
    meta: ServiceMeta,
    plan: NetworkPolicyPlan,
    epp: EppPlan,
    pool: PoolPlan,
    roles: Sequence[RolePlan],
) -> Manifest:
    """Build the policy for the endpoint picker's pods."""
    ingress = [_build_ingress_rule(plan.gateway, GRPC_PORT, HEALTH_PORT)]
    if plan.metrics and epp.args.metrics is not MetricsMode.OFF:
        ingress.append(_build_ingress_rule(plan.metrics, METRICS_PORT))
    events_port = find_picker_events_port(epp.config)
    publishers = [role for role in roles if role.name in pool.roles]
    if events_port is not None and publishers:
        # With this configuration, engines connect to the picker and send their KV events.
        peers = [_select_pods(meta, role) for role in publishers]
        ingress.append(_build_ingress_rule(peers, events_port))
    name = object_names.epp_network_policy(meta.service)
    return _build_policy(meta, name, build_picker_peer(epp), ingress)


def build_role_network_policies(
    meta: ServiceMeta,
    plan: NetworkPolicyPlan,
    roles: Sequence[RolePlan],
    backend_role_names: Collection[str],
    ports: Sequence[int],
    picker: Manifest | None,
) -> Iterator[Manifest]:
    """Build one policy for the pods of each role.

    `backend_role_names` are the roles in the pool or behind the Service, `ports` are their ports
    for requests, and `picker` is the peer that matches the endpoint picker's pods.
    """
    decoders = [role for role in roles if role.component_type is ComponentType.DECODER]
    prefillers = [role for role in roles if role.component_type is ComponentType.PREFILLER]
    requests_enter_at_decode = any(role.name in backend_role_names for role in decoders)
    for role in roles:
        is_reached_through_decode = (
            requests_enter_at_decode and role.component_type is ComponentType.PREFILLER
        )
        ingress = []
        if role.name in backend_role_names:
            # Requests reach prefill pods only through decode pods. With decode pods there is also a
            # picker, so `sources` is never empty; an empty list would allow all sources.
            sources = [] if is_reached_through_decode else list(plan.gateway)
            if picker is not None:
                # The endpoint picker reads the metrics of every pod of the pool.
                sources.append(picker)
            ingress.append(_build_ingress_rule(sources, *ports))
            # If engines listen for subscribers of KV events, the picker connects to each pod.
            events_port = get_engine_events_port(role.args)
            if events_port is not None and picker is not None:
                ingress.append(_build_ingress_rule([picker], events_port))
        if plan.metrics:
            ingress.append(_build_ingress_rule(plan.metrics, *role.pods.ports))
        if role.nodes > 1:
            # Leader and workers of a replica connect on ports that the engine chooses.
            ingress.append({"from": [_select_pods(meta, role)]})
        # Prefill and decode pods connect on ports that the connector chooses, in both directions:
        # NIXL's decode pods read from prefill pods, SGLang's prefill pods write to decode pods.
        if is_reached_through_decode:
            ingress += [{"from": [_select_pods(meta, decoder)]} for decoder in decoders]
        elif requests_enter_at_decode and role.component_type is ComponentType.DECODER:
            ingress += [{"from": [_select_pods(meta, peer)]} for peer in prefillers]
        name = object_names.role_network_policy(meta.service, role.name)
        yield _build_policy(meta, name, _select_pods(meta, role), ingress)


def build_picker_peer(epp: EppPlan) -> Manifest:
    """Return the NetworkPolicyPeer that matches the endpoint picker's pods."""
    return {"podSelector": {"matchLabels": epp.pod_labels}}


def _build_policy(
    meta: ServiceMeta, name: str, pods: Mapping[str, Any], ingress: list[Manifest]
) -> Manifest:
    spec = {**pods, "policyTypes": ["Ingress"], "ingress": ingress}
    object_meta = build_metadata(meta, name)
    return build_object("networking.k8s.io/v1", "NetworkPolicy", object_meta, spec=spec)


def _build_ingress_rule(sources: Sequence[Mapping[str, Any]], *ports: int) -> Manifest:
    return {"from": list(sources), "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def _select_pods(meta: ServiceMeta, role: RolePlan) -> Manifest:
    """Return the `podSelector` of a role's pods, for a peer or a policy."""
    selected = {labels.SERVICE: meta.service, labels.ROLE_NAME: role.name}
    return {"podSelector": {"matchLabels": selected}}
