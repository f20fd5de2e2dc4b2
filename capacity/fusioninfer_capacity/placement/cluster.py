"""Reads node pools and the current placement of services from a live cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_capacity.placement.devices import Device, DeviceId, LiveDevices, common_model
from fusioninfer_capacity.placement.result import PreviousPool, service_key
from fusioninfer_pulumi.plugins.capacity import (
    InferenceServiceArgs,
    InvalidServiceError,
    InventoryArgs,
    KubernetesApi,
    Rule,
    UnreadableError,
    accelerators,
    error,
    is_accelerator,
    labels,
    pod_requests,
    quantity,
    takes_pods,
)

NO_NODE_WITH_LABEL = Rule("no-node-with-label")

Object = Mapping[str, Any]
_LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_DEVICES = "resource.k8s.io"
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
_NO_DEVICES = LiveDevices((), (), ())


def read_inventory(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    pool_label: str | None = None,
    services: Iterable[InferenceServiceArgs | str] = (),
) -> InventoryArgs:
    """Read the node pools of a cluster, and what is in use there.

    Needs the right to list nodes and pods of all namespaces. Devices that
    pods claim (dynamic resource allocation) are read where ResourceSlices may be listed; then
    DeviceClasses and ResourceClaims of all namespaces must be, too.

    Args:
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.
        pool_label: Node label that identifies a pool; by default the one of GKE, EKS, AKS or
            Karpenter that most nodes with accelerators have.
        services: The services to place (or `name`, `namespace/name`): accelerators of their own
            pods count as free.

    Returns:
        The pools, by name.

    Raises:
        UnreadableError: The cluster cannot be read.
        InvalidServiceError: No ready node with accelerators has the label.
    """
    api = KubernetesApi(kubeconfig, context)
    nodes = api.objects("v1", "Node") or ()
    pods = api.objects("v1", "Pod", fieldSelector=_RUNNING) or ()
    devices = _devices(api)
    _reject_partial_reads(api)
    service_keys = {
        service if isinstance(service, str) else service_key(service.namespace, service.name or "")
        for service in services
    }
    return inventory_of(nodes, pods, pool_label=pool_label, services=service_keys, devices=devices)


def read_placement(
    inventory: InventoryArgs, kubeconfig: str | None = None, context: str | None = None
) -> Mapping[str, Mapping[str, PreviousPool]]:
    """Read on which pools services run, from their LeaderWorkerSets.

    Needs the right to list LeaderWorkerSets of all namespaces.

    Args:
        inventory: The pools; roles on none of them are left out.
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.

    Returns:
        The `previous` of `place`.

    Raises:
        UnreadableError: The cluster cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    lws = api.objects(*_LWS, labelSelector=labels.SERVICE) or ()
    _reject_partial_reads(api)
    return placement_of(lws, inventory)


def inventory_of(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    *,
    pool_label: str | None = None,
    services: Collection[str] = (),
    devices: LiveDevices = _NO_DEVICES,
) -> InventoryArgs:
    """Return groups nodes into pools by a label; pure.

    A pool is the nodes of one value of the label that offer accelerators, are ready and may be
    scheduled on. It has the labels that all of its nodes have, and every taint of any of them. What
    pods of others hold on a node, and what it offers less than the best one, is in use; pods of
    `services` (`name` or `namespace/name`) do not count. The accelerators of a pool without such
    resources are the devices that pods may claim.
    """
    nodes, pods = list(nodes), list(pods)
    claimable = {_name(node): devices.classes_of(_name(node)) for node in nodes}
    usable = [
        node for node in nodes if takes_pods(node) and (_offers(node) or claimable[_name(node)])
    ]
    key = pool_label or _usual_label(usable)
    groups: dict[str, list[Object]] = {}
    for node in usable:
        if key in _labels(node):
            groups.setdefault(_labels(node)[key], []).append(node)
    if not groups:
        wanted = key or " or ".join(labels.NODE_POOLS)
        raise InvalidServiceError(
            [
                error(
                    NO_NODE_WITH_LABEL,
                    (),
                    f"no ready node with accelerators has the label {wanted}",
                )
            ]
        )
    in_use = _held(pods, services)
    allocated = devices.allocated({_key(pod) for pod in pods if _is_own(pod, services)})
    pools = []
    for name in sorted(groups):
        counts = Counter(_resource(node) for node in groups[name] if _offers(node))
        accelerators = (
            _by_resource(groups[name], counts.most_common(1)[0][0], in_use)
            if counts
            else _by_claims(groups[name], claimable, allocated)
        )
        pools.append(_pool(name, groups[name], accelerators))
    return InventoryArgs.model_validate({"poolLabel": key, "pools": pools})


def placement_of(
    lws: Iterable[Object], inventory: InventoryArgs
) -> Mapping[str, Mapping[str, PreviousPool]]:
    """Return the pools of services from all their LeaderWorkerSets; pure."""
    by_value = {inventory.selector_value(pool): pool.name for pool in inventory.pools}
    previous: dict[str, dict[str, PreviousPool]] = {}
    for item in lws:
        metadata, spec = item["metadata"], item["spec"]
        lws_labels = metadata.get("labels") or {}
        group = spec["leaderWorkerTemplate"]
        worker = group["workerTemplate"]
        selector = worker["spec"].get("nodeSelector") or {}
        pool = by_value.get(str(selector.get(inventory.selector_label or "")))
        if pool is None or labels.ROLE_NAME not in lws_labels or labels.SERVICE not in lws_labels:
            continue
        leader = group.get("leaderTemplate") or worker
        one = accelerators(leader) + accelerators(worker) * (group.get("size", 1) - 1)
        roles = previous.setdefault(
            service_key(metadata["namespace"], lws_labels[labels.SERVICE]), {}
        )
        before = roles.get(lws_labels[labels.ROLE_NAME], PreviousPool(pool, 0))
        # Claims of pods are objects of their own.
        claims = any(template["spec"].get("resourceClaims") for template in (leader, worker))
        unknown = claims or before.accelerators is None
        amount = None if unknown else (before.accelerators or 0) + one * spec.get("replicas", 1)
        roles[lws_labels[labels.ROLE_NAME]] = PreviousPool(before.name, amount)
    return previous


@dataclass(frozen=True)
class _Accelerators:
    """Accelerators of each node of a pool, and those that others hold."""

    offered: Mapping[str, int]
    in_use: Mapping[str, int]
    resource: str | None
    classes: Sequence[str] = ()
    device: Mapping[str, str] = field(default_factory=dict)


def _by_resource(
    nodes: Sequence[Object], resource: str, in_use: Mapping[str, Counter[str]]
) -> _Accelerators:
    offered = {_name(node): _offers(node).get(resource, 0) for node in nodes}
    return _Accelerators(
        offered, {node: in_use.get(node, Counter())[resource] for node in offered}, resource
    )


def _by_claims(
    nodes: Sequence[Object],
    claimable: Mapping[str, Mapping[str, Sequence[Device]]],
    allocated: Collection[DeviceId],
) -> _Accelerators:
    counts: Counter[str] = Counter()
    for node in nodes:
        for name, listed in claimable[_name(node)].items():
            counts[name] += len(listed)
    main = min(counts, key=lambda name: (-counts[name], name))
    devices = {_name(node): claimable[_name(node)].get(main, ()) for node in nodes}
    return _Accelerators(
        offered={node: len(listed) for node, listed in devices.items()},
        in_use={
            node: sum(device.key in allocated for device in listed)
            for node, listed in devices.items()
        },
        resource=None,
        # Further device classes that select exactly these devices.
        classes=[
            name
            for name in sorted(counts)
            if all(claimable[node].get(name, ()) == listed for node, listed in devices.items())
        ],
        device=common_model(device for listed in devices.values() for device in listed),
    )


def _pool(name: str, nodes: Sequence[Object], accelerators: _Accelerators) -> dict[str, Any]:
    most = max(accelerators.offered.values())
    taken = [
        min(most, most - offered + accelerators.in_use[node])
        for node, offered in sorted(accelerators.offered.items())
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
        "resource": accelerators.resource,
        "deviceClasses": list(accelerators.classes),
        "inUse": sorted((amount for amount in taken if amount), reverse=True),
        "device": _device(common, accelerators.device),
        "labels": common,
        "taints": [
            {"key": key, "value": value, "effect": effect} for key, value, effect in sorted(taints)
        ],
    }


def _device(common: Mapping[str, str], claimed: Mapping[str, str]) -> dict[str, Any]:
    model = next((common[key] for key in labels.ACCELERATOR_MODEL if key in common), None)
    memory = next((common[key] for key in labels.ACCELERATOR_MEMORY if key in common), None)
    model = model or claimed.get("model")
    device: dict[str, Any] = {"attributes": {"model": model} if model else {}}
    if memory is not None and memory.isdecimal() and int(memory):
        device["memory"] = f"{memory}Mi"
    elif "memory" in claimed:
        device["memory"] = claimed["memory"]
    return device


def _held(pods: Iterable[Object], services: Collection[str]) -> dict[str, Counter[str]]:
    """Return accelerators that pods of others hold, by node and resource."""
    in_use: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if node is None or ended or _is_own(pod, services):
            continue
        for name, amount in pod_requests(pod).items():
            if is_accelerator(name):
                in_use.setdefault(node, Counter())[name] += int(amount)
    return in_use


def _is_own(pod: Object, services: Collection[str]) -> bool:
    metadata = pod["metadata"]
    owner = (metadata.get("labels") or {}).get(labels.SERVICE)
    named = owner in services or f"{metadata.get('namespace')}/{owner}" in services
    return owner is not None and named


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"].get("name", "")


def _offers(node: Object) -> dict[str, int]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        name: int(quantity.parse(amount))
        for name, amount in allocatable.items()
        if is_accelerator(name) and quantity.parse(amount) >= 1
    }


def _resource(node: Object) -> str:
    """Return the accelerators that a node has most of."""
    offers = _offers(node)
    return min(offers, key=lambda name: (-offers[name], name))


def _usual_label(nodes: Sequence[Object]) -> str | None:
    counts = Counter(key for node in nodes for key in labels.NODE_POOLS if key in _labels(node))
    return counts.most_common(1)[0][0] if counts else None


def _labels(node: Object) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _devices(api: KubernetesApi) -> LiveDevices:
    """Return the devices that pods may claim; none where ResourceSlices cannot be read."""
    before = dict(api.unread)
    slices = api.objects(_DEVICES, "ResourceSlice")
    if slices:
        more = (api.objects(_DEVICES, kind) or () for kind in ("DeviceClass", "ResourceClaim"))
        return LiveDevices(slices, *map(tuple, more))
    api.unread = before
    return LiveDevices((), (), ())


def _reject_partial_reads(api: KubernetesApi) -> None:
    """Reject a part of the cluster: it would show accelerators as free that are not."""
    if api.unread:
        raise UnreadableError(f"the cluster cannot be read: {'; '.join(api.unread)}")
