"""NetworkPolicies, where they are asked for: who reaches which pods.

A policy lists who may connect and excludes everyone else; the kubelet's probes pass. Egress is not
limited, and neither is RDMA, which no NetworkPolicy sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode, NetworkPolicyArgs
from fusioninfer_pulumi.endpoint_pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.pods.kv_transfer import events_port
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.pool import PoolPlan
from fusioninfer_pulumi.topology.role import RolePlan


def network_policies(
    meta: ServiceMeta,
    args: NetworkPolicyArgs,
    epp: EppPlan,
    pool: PoolPlan,
    roles: Sequence[RolePlan],
) -> Iterator[Manifest]:
    """Builds one policy for the endpoint picker's pods, and one for those of each role."""
    ingress = [_ingress_rule(args.gateway, GRPC_PORT, HEALTH_PORT)]
    if args.metrics and epp.metrics is not MetricsMode.OFF:
        ingress.append(_ingress_rule(args.metrics, METRICS_PORT))
    yield _policy(meta, names.epp_network_policy(meta.service), epp.pod_labels, ingress)
    decoders = [role for role in roles if role.component_type is ComponentType.DECODER]
    paired = any(role.name in pool.roles for role in decoders)
    for role in roles:
        # Requests come to prefill pods from decode pods alone.
        prefill = paired and role.component_type is ComponentType.PREFILLER
        ingress = []
        if role.name in pool.roles:
            # The endpoint picker reads the metrics of every pod of the pool.
            sources = [_pods(epp.pod_labels)]
            if not prefill:
                sources = [*args.gateway, *sources]
            ingress.append(_ingress_rule(sources, *pool.ports))
            # It also subscribes to the events of each pod's KV cache.
            events = events_port(role.args)
            if events is not None:
                ingress.append(_ingress_rule([_pods(epp.pod_labels)], events))
        if args.metrics:
            ingress.append(_ingress_rule(args.metrics, *role.serving.ports))
        if role.nodes > 1:
            # Leader and workers of a replica talk on ports that their engine chooses.
            ingress.append({"from": [_pods(_role_labels(meta, role))]})
        if prefill:
            ingress += [{"from": [_pods(_role_labels(meta, decoder))]} for decoder in decoders]
        name = names.role_network_policy(meta.service, role.name)
        yield _policy(meta, name, _role_labels(meta, role), ingress)


def _policy(
    meta: ServiceMeta, name: str, pods: Mapping[str, str], ingress: list[Manifest]
) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(meta, name),
        "spec": {
            "podSelector": {"matchLabels": dict(pods)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _ingress_rule(sources: Sequence[Mapping[str, Any]], *ports: int) -> Manifest:
    return {
        "from": list(sources),
        "ports": [{"protocol": "TCP", "port": port} for port in ports],
    }


def _pods(selected: Mapping[str, str]) -> Manifest:
    return {"podSelector": {"matchLabels": dict(selected)}}


def _role_labels(meta: ServiceMeta, role: RolePlan) -> dict[str, str]:
    return {labels.SERVICE: meta.service, labels.ROLE_NAME: role.name}
