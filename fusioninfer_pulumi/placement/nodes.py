"""Turns live nodes and pods into an inventory; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.findings import InvalidServiceError, error
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.resources import is_accelerator, pod_requests, takes_pods
from fusioninfer_pulumi.placement.devices import Device, DeviceId, LiveDevices, common_model

Node = Mapping[str, Any]
_NO_DEVICES = LiveDevices((), (), ())


def inventory_of(
    nodes: Iterable[Node],
    pods: Iterable[Mapping[str, Any]],
    *,
    pool_label: str | None = None,
    services: Collection[str] = (),
    devices: LiveDevices = _NO_DEVICES,
) -> InventoryArgs:
    """Groups nodes by a label.

    A pool is the nodes of one value of the label that offer accelerators, are ready and may be
    scheduled on. It has the labels that all of its nodes have, and every taint of any of them. What
    pods of others hold on a node, and what it offers less than the best one, is in use. The
    accelerators of a pool without such resources are the devices that pods may claim.

    Args:
        nodes: Node objects as JSON.
        pods: Pod objects as JSON; those that ended or have no node do not count.
        pool_label: Label that tells the pools apart; by default the one of GKE, EKS, AKS or
            Karpenter that most of these nodes have.
        services: Services (`name` or `namespace/name`) whose own pods do not count: those that
            are about to be placed.
        devices: Devices that pods may claim.

    Returns:
        The pools, by name.

    Raises:
        InvalidServiceError: No node with accelerators has the label.
    """
    nodes, pods = list(nodes), list(pods)
    claimable = {_name(node): devices.classes_of(_name(node)) for node in nodes}
    usable = [
        node for node in nodes if takes_pods(node) and (_offers(node) or claimable[_name(node)])
    ]
    key = pool_label or _usual_label(usable)
    groups: dict[str, list[Node]] = {}
    for node in usable:
        if key in _labels(node):
            groups.setdefault(_labels(node)[key], []).append(node)
    if not groups:
        wanted = key or " or ".join(labels.NODE_POOLS)
        raise InvalidServiceError(
            [
                error(
                    "no-node-with-label",
                    (),
                    f"no ready node with accelerators has the label {wanted}",
                )
            ]
        )
    held = _held(pods, services)
    taken = devices.held({_key(pod): _is_own(pod, services) for pod in pods})
    pools = []
    for name in sorted(groups):
        counts = Counter(_resource(node) for node in groups[name] if _offers(node))
        stock = (
            _by_resource(groups[name], counts.most_common(1)[0][0], held)
            if counts
            else _by_claims(groups[name], claimable, taken)
        )
        pools.append(_pool(name, groups[name], stock))
    return InventoryArgs.model_validate({"poolLabel": key, "pools": pools})


@dataclass(frozen=True)
class _Stock:
    """Accelerators of each node of a pool, and those that others hold."""

    offered: Mapping[str, int]
    held: Mapping[str, int]
    resource: str | None
    classes: Sequence[str] = ()
    device: Mapping[str, str] = field(default_factory=dict)


def _by_resource(nodes: Sequence[Node], resource: str, held: Mapping[str, Counter[str]]) -> _Stock:
    offered = {_name(node): _offers(node).get(resource, 0) for node in nodes}
    return _Stock(
        offered, {node: held.get(node, Counter())[resource] for node in offered}, resource
    )


def _by_claims(
    nodes: Sequence[Node],
    claimable: Mapping[str, Mapping[str, Sequence[Device]]],
    taken: Collection[DeviceId],
) -> _Stock:
    counts: Counter[str] = Counter()
    for node in nodes:
        for name, listed in claimable[_name(node)].items():
            counts[name] += len(listed)
    main = min(counts, key=lambda name: (-counts[name], name))
    own = {_name(node): claimable[_name(node)].get(main, ()) for node in nodes}
    return _Stock(
        offered={node: len(listed) for node, listed in own.items()},
        held={node: sum(each.key in taken for each in listed) for node, listed in own.items()},
        resource=None,
        # Other classes of the very same devices.
        classes=[
            name
            for name in sorted(counts)
            if all(claimable[node].get(name, ()) == listed for node, listed in own.items())
        ],
        device=common_model(each for listed in own.values() for each in listed),
    )


def _pool(name: str, nodes: Sequence[Node], stock: _Stock) -> dict[str, Any]:
    most = max(stock.offered.values())
    taken = [
        min(most, most - offered + stock.held[node])
        for node, offered in sorted(stock.offered.items())
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
        "resource": stock.resource,
        "deviceClasses": list(stock.classes),
        "inUse": sorted((each for each in taken if each), reverse=True),
        "device": _device(common, stock.device),
        "labels": common,
        "taints": [
            {"key": key, "value": value, "effect": effect} for key, value, effect in sorted(taints)
        ],
    }


def _device(common: Mapping[str, str], stated: Mapping[str, str]) -> dict[str, Any]:
    model = next((common[key] for key in labels.ACCELERATOR_MODEL if key in common), None)
    memory = next((common[key] for key in labels.ACCELERATOR_MEMORY if key in common), None)
    model = model or stated.get("model")
    device: dict[str, Any] = {"attributes": {"model": model} if model else {}}
    if memory is not None and memory.isdecimal() and int(memory):
        device["memory"] = f"{memory}Mi"
    elif "memory" in stated:
        device["memory"] = stated["memory"]
    return device


def _held(pods: Iterable[Mapping[str, Any]], services: Collection[str]) -> dict[str, Counter[str]]:
    """Accelerators that pods of others hold, by node and resource."""
    held: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if node is None or ended or _is_own(pod, services):
            continue
        for name, amount in pod_requests(pod).items():
            if is_accelerator(name):
                held.setdefault(node, Counter())[name] += int(amount)
    return held


def _is_own(pod: Mapping[str, Any], services: Collection[str]) -> bool:
    metadata = pod["metadata"]
    owner = (metadata.get("labels") or {}).get(labels.SERVICE)
    named = owner in services or f"{metadata.get('namespace')}/{owner}" in services
    return owner is not None and named


def _key(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"].get("name", "")


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
