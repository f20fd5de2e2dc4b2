"""Turns live nodes and pods into an inventory; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import labels, quantity
from fusioninfer_pulumi.findings import InvalidServiceError, error
from fusioninfer_pulumi.plan.resources import is_accelerator, pod_requests
from fusioninfer_pulumi.spec.inventory import InventoryArgs, TaintEffect

Node = Mapping[str, Any]


def inventory_of(
    nodes: Iterable[Node],
    pods: Iterable[Mapping[str, Any]],
    *,
    pool_label: str | None = None,
    services: Collection[str] = (),
) -> InventoryArgs:
    """Groups nodes by a label.

    A pool is the nodes of one value of the label that offer accelerators, are ready and may be
    scheduled on. It has the labels that all of its nodes have, and every taint of any of them. What
    pods of others hold on a node, and what it offers less than the best one, is in use.

    Args:
        nodes: Node objects as JSON.
        pods: Pod objects as JSON; those that ended or have no node do not count.
        pool_label: Label that tells the pools apart; by default the one of GKE, EKS, AKS or
            Karpenter that most of these nodes have.
        services: Services (`name` or `namespace/name`) whose own pods do not count: those that
            are about to be placed.

    Returns:
        The pools, by name.

    Raises:
        InvalidServiceError: No node with accelerators has the label.
    """
    usable = [node for node in nodes if _is_usable(node) and _offers(node)]
    key = pool_label or _usual_label(usable)
    groups: dict[str, list[Node]] = {}
    for node in usable:
        if key in _labels(node):
            groups.setdefault(_labels(node)[key], []).append(node)
    if not groups:
        wanted = key or " or ".join(labels.NODE_POOLS)
        raise InvalidServiceError(
            [error("", f"no ready node with accelerators has the label {wanted}")]
        )
    held = _held(pods, services)
    return InventoryArgs.model_validate(
        {"poolLabel": key, "pools": [_pool(name, groups[name], held) for name in sorted(groups)]}
    )


def _pool(name: str, nodes: Sequence[Node], held: Mapping[str, Counter[str]]) -> dict[str, Any]:
    resource = Counter(_resource(node) for node in nodes).most_common(1)[0][0]
    offered = {_name(node): _offers(node).get(resource, 0) for node in nodes}
    most = max(offered.values())
    taken = [
        min(most, most - offered[node] + held.get(node, Counter())[resource])
        for node in sorted(offered)
    ]
    common = dict(_labels(nodes[0]))
    for node in nodes[1:]:
        common = {key: value for key, value in common.items() if _labels(node).get(key) == value}
    common.pop(labels.HOSTNAME, None)
    taints = {
        (taint["key"], taint.get("value") or "", taint["effect"])
        for node in nodes
        for taint in node["spec"].get("taints") or ()
    }
    return {
        "name": name,
        "nodes": len(nodes),
        "accelerators": most,
        "resource": resource,
        "inUse": sorted((each for each in taken if each), reverse=True),
        "device": _device(common),
        "labels": common,
        "taints": [
            {"key": key, "value": value, "effect": effect} for key, value, effect in sorted(taints)
        ],
    }


def _device(common: Mapping[str, str]) -> dict[str, Any]:
    model = next((common[key] for key in labels.ACCELERATOR_MODEL if key in common), None)
    memory = next((common[key] for key in labels.ACCELERATOR_MEMORY if key in common), None)
    device: dict[str, Any] = {"attributes": {"model": model} if model else {}}
    if memory is not None and memory.isdecimal() and int(memory):
        device["memory"] = f"{memory}Mi"
    return device


def _held(pods: Iterable[Mapping[str, Any]], services: Collection[str]) -> dict[str, Counter[str]]:
    """Accelerators that pods of others hold, by node and resource."""
    held: dict[str, Counter[str]] = {}
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        owner = (metadata.get("labels") or {}).get(labels.SERVICE)
        own = owner in services or f"{metadata.get('namespace')}/{owner}" in services
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if node is None or ended or (owner is not None and own):
            continue
        for name, amount in pod_requests(pod).items():
            if is_accelerator(name):
                held.setdefault(node, Counter())[name] += int(amount)
    return held


def _is_usable(node: Node) -> bool:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in (node.get("status") or {}).get("conditions") or ()
    )
    passing = any(
        taint["key"].startswith(labels.NODE_CONDITION_TAINTS)
        and taint["effect"] != TaintEffect.PREFER_NO_SCHEDULE.value
        for taint in node["spec"].get("taints") or ()
    )
    return ready and not passing and not node["spec"].get("unschedulable")


def _offers(node: Node) -> dict[str, int]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        name: int(quantity.parse(amount))
        for name, amount in allocatable.items()
        if is_accelerator(name) and quantity.parse(amount) >= 1
    }


def _resource(node: Node) -> str:
    """The accelerators that a node has most of."""
    offers = _offers(node)
    return min(offers, key=lambda name: (-offers[name], name))


def _usual_label(nodes: Sequence[Node]) -> str | None:
    counts = Counter(key for node in nodes for key in labels.NODE_POOLS if key in _labels(node))
    return counts.most_common(1)[0][0] if counts else None


def _labels(node: Node) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def _name(node: Node) -> str:
    return str(node["metadata"]["name"])
