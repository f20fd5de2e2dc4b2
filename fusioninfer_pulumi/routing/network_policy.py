"""NetworkPolicies (networking.k8s.io/v1), where they are asked for: who reaches which pods.

A policy says what is let in and shuts out the rest; the kubelet's probes pass. What leaves the
pods is not limited, and neither is RDMA, which no NetworkPolicy sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.router import MetricsMode, NetworkPolicyArgs
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.pods.kv_transfer import events_port
from fusioninfer_pulumi.routing.common import Manifest, picker_labels, router_metadata
from fusioninfer_pulumi.routing.records import RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology

_API_VERSION = "networking.k8s.io/v1"


def network_policies(plan: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds one policy for the picker's pods, and one for those of each role."""
    asked = router.args.network_policy
    if asked is None:
        return
    rules = [_rule(asked.gateway, GRPC_PORT, HEALTH_PORT)]
    if asked.metrics and router.picker.metrics is not MetricsMode.OFF:
        rules.append(_rule(asked.metrics, METRICS_PORT))
    yield _policy(
        plan,
        router,
        names.picker_network_policy(plan.service),
        picker_labels(router),
        rules,
    )
    for role in plan.roles:
        yield _policy(
            plan,
            router,
            names.role_network_policy(plan.service, role.name),
            _role_labels(plan, role),
            _role_rules(plan, router, role, asked),
        )


def _role_rules(
    plan: Topology, router: RouterPlan, role: RolePlan, asked: NetworkPolicyArgs
) -> list[Manifest]:
    port = role.serving.port
    rules: list[Manifest] = []
    if role.name in router.pool.roles:
        # The picker reads the metrics of every pod of the pool; requests come to prefill pods
        # from decode pods alone.
        sources = [_pods(picker_labels(router))]
        if not _is_prefill(plan, router, role):
            sources = [*asked.gateway, *sources]
        rules.append(_rule(sources, port))
        # Pickers subscribe to the events of each pod's KV cache.
        events = events_port(role.args)
        if events is not None:
            rules.append(_rule([_pods(picker_labels(router))], events))
    if asked.metrics:
        rules.append(_rule(asked.metrics, port))
    if role.nodes > 1:
        # Leader and workers of a replica talk on ports that their engine chooses.
        rules.append({"from": [_pods(_role_labels(plan, role))]})
    if _is_prefill(plan, router, role):
        rules += [
            {"from": [_pods(_role_labels(plan, other))]}
            for other in plan.roles
            if other.component_type is ComponentType.DECODER
        ]
    return rules


def _is_prefill(plan: Topology, router: RouterPlan, role: RolePlan) -> bool:
    """Tells whether a role's pods compute prompts for the service's decode pods."""
    decoders = any(
        other.component_type is ComponentType.DECODER and other.name in router.pool.roles
        for other in plan.roles
    )
    return role.component_type is ComponentType.PREFILLER and decoders


def _policy(
    plan: Topology,
    router: RouterPlan,
    name: str,
    pods: Mapping[str, str],
    ingress: list[Manifest],
) -> Manifest:
    return {
        "apiVersion": _API_VERSION,
        "kind": "NetworkPolicy",
        "metadata": router_metadata(plan, router, name),
        "spec": {
            "podSelector": {"matchLabels": dict(pods)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _rule(sources: Sequence[Mapping[str, Any]], *ports: int) -> Manifest:
    return {
        "from": list(sources),
        "ports": [{"protocol": "TCP", "port": port} for port in ports],
    }


def _pods(selected: Mapping[str, str]) -> Manifest:
    return {"podSelector": {"matchLabels": dict(selected)}}


def _role_labels(plan: Topology, role: RolePlan) -> dict[str, str]:
    return {labels.SERVICE: plan.service, labels.ROLE_NAME: role.name}
