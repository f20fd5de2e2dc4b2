"""Reads node pools and the current placement of services from a live cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_capacity.placement.devices import Device, DeviceId, LiveDevices, find_common_model
from fusioninfer_capacity.placement.result import PreviousPool, make_key
from fusioninfer_pulumi.plugins.capacity import (
    InferenceServiceArgs,
    InvalidServiceError,
    InventoryArgs,
    KubernetesApi,
    Rule,
    UnreadableError,
    count_accelerators,
    error,
    is_accelerator,
    is_schedulable,
    labels,
    pod_requests,
    quantity,
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
    """Read the node pools of a cluster and their accelerators in use.

    Requires permission to list nodes, and pods of all namespaces. Devices for dynamic resource
    allocation are read if ResourceSlices may be listed; then permission to list DeviceClasses, and
    ResourceClaims of all namespaces, is required, too.

    Args:
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.
        pool_label: Node label that identifies a pool; by default the one of GKE, EKS, AKS or
            Karpenter that most nodes with accelerators have.
        services: The services to place, or their names (`name`, `namespace/name`): accelerators of
            their pods count as free.

    Returns:
        The pools, sorted by name.

    Raises:
        UnreadableError: The cluster cannot be read.
        InvalidServiceError: No ready node with accelerators has the label.
    """
    api = KubernetesApi(kubeconfig, context)
    nodes = api.list_objects("v1", "Node") or ()
    pods = api.list_objects("v1", "Pod", fieldSelector=_RUNNING) or ()
    devices = _read_devices(api)
    _reject_partial_reads(api)
    service_keys = {
        service if isinstance(service, str) else make_key(service.namespace, service.name or "")
        for service in services
    }
    return build_inventory(
        nodes, pods, pool_label=pool_label, services=service_keys, devices=devices
    )


def read_placement(
    inventory: InventoryArgs, kubeconfig: str | None = None, context: str | None = None
) -> Mapping[str, Mapping[str, PreviousPool]]:
    """Read on which pools services run, from their LeaderWorkerSets.

    Requires permission to list LeaderWorkerSets of all namespaces.

    Args:
        inventory: The pools; roles on other pools are left out.
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.

    Returns:
        The argument `previous` of `place`.

    Raises:
        UnreadableError: The cluster cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    lws = api.list_objects(*_LWS, labelSelector=labels.SERVICE) or ()
    _reject_partial_reads(api)
    return build_placement(lws, inventory)


def build_inventory(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    *,
    pool_label: str | None = None,
    services: Collection[str] = (),
    devices: LiveDevices = _NO_DEVICES,
) -> InventoryArgs:
    """Group nodes into pools by a label; pure.

    A pool consists of the ready, schedulable nodes with accelerators and one value of the label. It
    has the labels that all of its nodes have, and the taints of any of them. Accelerators of pods
    are in use, except those of `services` (`name` or `namespace/name`). All nodes of a pool get the
    size of the largest one, and what smaller nodes lack counts as in use. If a pool has no
    accelerator resource, its accelerators are the devices that pods may claim.
    """
    nodes, pods = list(nodes), list(pods)
    claimable = {_get_name(node): devices.find_classes(_get_name(node)) for node in nodes}
    usable = [
        node
        for node in nodes
        if is_schedulable(node) and (_get_offers(node) or claimable[_get_name(node)])
    ]
    key = pool_label or _find_label(usable)
    groups: dict[str, list[Object]] = {}
    for node in usable:
        if key in _get_labels(node):
            groups.setdefault(_get_labels(node)[key], []).append(node)
    if not groups:
        label = key or " or ".join(labels.NODE_POOLS)
        raise InvalidServiceError(
            [
                error(
                    NO_NODE_WITH_LABEL, (), f"no ready node with accelerators has the label {label}"
                )
            ]
        )
    in_use = _count_in_use(pods, services)
    allocated = devices.find_allocated({_get_key(pod) for pod in pods if _is_pod_of(pod, services)})
    pools = []
    for name in sorted(groups):
        counts = Counter(_choose_resource(node) for node in groups[name] if _get_offers(node))
        accelerators = (
            _count_by_resource(groups[name], counts.most_common(1)[0][0], in_use)
            if counts
            else _count_by_claims(groups[name], claimable, allocated)
        )
        pools.append(_build_pool(name, groups[name], accelerators))
    return InventoryArgs.model_validate({"poolLabel": key, "pools": pools})


def build_placement(
    lws: Iterable[Object], inventory: InventoryArgs
) -> Mapping[str, Mapping[str, PreviousPool]]:
    """Return the pools of services from all their LeaderWorkerSets; pure."""
    by_value = {inventory.selector_value(pool): pool.name for pool in inventory.pools}
    previous: dict[str, dict[str, PreviousPool]] = {}
    for item in lws:
        metadata, spec = item["metadata"], item["spec"]
        lws_labels = metadata.get("labels") or {}
        lws_template = spec["leaderWorkerTemplate"]
        worker = lws_template["workerTemplate"]
        selector = worker["spec"].get("nodeSelector") or {}
        pool = by_value.get(str(selector.get(inventory.selector_label or "")))
        if pool is None or labels.ROLE_NAME not in lws_labels or labels.SERVICE not in lws_labels:
            continue
        leader = lws_template.get("leaderTemplate") or worker
        per_replica = count_accelerators(leader) + count_accelerators(worker) * (
            lws_template.get("size", 1) - 1
        )
        roles = previous.setdefault(make_key(metadata["namespace"], lws_labels[labels.SERVICE]), {})
        before = roles.get(lws_labels[labels.ROLE_NAME], PreviousPool(pool, 0))
        # Claimed devices are defined in other objects, so their number is unknown.
        has_claims = any(template["spec"].get("resourceClaims") for template in (leader, worker))
        amount = None
        if not has_claims and before.accelerators is not None:
            amount = before.accelerators + per_replica * spec.get("replicas", 1)
        roles[lws_labels[labels.ROLE_NAME]] = PreviousPool(before.name, amount)
    return previous


@dataclass(frozen=True)
class _Accelerators:
    """Accelerators of each node of a pool, and those in use."""

    offered: Mapping[str, int]
    in_use: Mapping[str, int]
    resource: str | None
    device_classes: Sequence[str] = ()
    device: Mapping[str, str] = field(default_factory=dict)


def _count_by_resource(
    nodes: Sequence[Object], resource: str, in_use: Mapping[str, Counter[str]]
) -> _Accelerators:
    offered = {_get_name(node): _get_offers(node).get(resource, 0) for node in nodes}
    return _Accelerators(
        offered, {node: in_use.get(node, Counter())[resource] for node in offered}, resource
    )


def _count_by_claims(
    nodes: Sequence[Object],
    claimable: Mapping[str, Mapping[str, Sequence[Device]]],
    allocated: Collection[DeviceId],
) -> _Accelerators:
    counts: Counter[str] = Counter()
    for node in nodes:
        for name, items in claimable[_get_name(node)].items():
            counts[name] += len(items)
    largest = min(counts, key=lambda name: (-counts[name], name))
    devices = {_get_name(node): claimable[_get_name(node)].get(largest, ()) for node in nodes}
    return _Accelerators(
        offered={node: len(items) for node, items in devices.items()},
        in_use={
            node: sum(device.key in allocated for device in items)
            for node, items in devices.items()
        },
        resource=None,
        # The largest DeviceClass, and all others that select the same devices.
        device_classes=[
            name
            for name in sorted(counts)
            if all(claimable[node].get(name, ()) == items for node, items in devices.items())
        ],
        device=find_common_model(device for items in devices.values() for device in items),
    )


def _build_pool(name: str, nodes: Sequence[Object], accelerators: _Accelerators) -> dict[str, Any]:
    per_node = max(accelerators.offered.values())
    # What a node lacks, compared with the largest one, counts as in use.
    used = [
        min(per_node, per_node - offered + accelerators.in_use[node])
        for node, offered in sorted(accelerators.offered.items())
    ]
    common = dict(_get_labels(nodes[0]))
    for node in nodes[1:]:
        common = {
            key: value for key, value in common.items() if _get_labels(node).get(key) == value
        }
    common.pop(labels.HOSTNAME, None)
    taints = {
        (taint["key"], taint.get("value") or "", taint["effect"])
        for node in nodes
        for taint in node["spec"].get("taints") or ()
    }
    return {
        "name": name,
        "nodes": len(nodes),
        "accelerators": per_node,
        "resource": accelerators.resource,
        "deviceClasses": list(accelerators.device_classes),
        "inUse": sorted((amount for amount in used if amount), reverse=True),
        "device": _build_device(common, accelerators.device),
        "labels": common,
        "taints": [
            {"key": key, "value": value, "effect": effect} for key, value, effect in sorted(taints)
        ],
    }


def _build_device(common: Mapping[str, str], claimed: Mapping[str, str]) -> dict[str, Any]:
    model = next((common[key] for key in labels.ACCELERATOR_MODEL if key in common), None)
    memory = next((common[key] for key in labels.ACCELERATOR_MEMORY if key in common), None)
    model = model or claimed.get("model")
    device: dict[str, Any] = {"attributes": {"model": model} if model else {}}
    if memory is not None and memory.isdecimal() and int(memory):
        device["memory"] = f"{memory}Mi"
    elif "memory" in claimed:
        device["memory"] = claimed["memory"]
    return device


def _count_in_use(pods: Iterable[Object], services: Collection[str]) -> dict[str, Counter[str]]:
    """Return the accelerators of pods outside `services`, by node and resource."""
    in_use: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        is_finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if node is None or is_finished or _is_pod_of(pod, services):
            continue
        for name, amount in pod_requests(pod).items():
            if is_accelerator(name):
                in_use.setdefault(node, Counter())[name] += int(amount)
    return in_use


def _is_pod_of(pod: Object, services: Collection[str]) -> bool:
    metadata = pod["metadata"]
    owner = (metadata.get("labels") or {}).get(labels.SERVICE)
    is_listed = owner in services or f"{metadata.get('namespace')}/{owner}" in services
    return owner is not None and is_listed


def _get_key(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"].get("name", "")


def _get_offers(node: Object) -> dict[str, int]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        name: int(quantity.parse(amount))
        for name, amount in allocatable.items()
        if is_accelerator(name) and quantity.parse(amount) >= 1
    }


def _choose_resource(node: Object) -> str:
    """Return the accelerator resource with the largest amount on a node."""
    offers = _get_offers(node)
    return min(offers, key=lambda name: (-offers[name], name))


def _find_label(nodes: Sequence[Object]) -> str | None:
    counts = Counter(key for node in nodes for key in labels.NODE_POOLS if key in _get_labels(node))
    return counts.most_common(1)[0][0] if counts else None


def _get_labels(node: Object) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def _get_name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _read_devices(api: KubernetesApi) -> LiveDevices:
    """Return the devices that pods may claim; none if ResourceSlices cannot be read."""
    before = api.unread.copy()
    slices = api.list_objects(_DEVICES, "ResourceSlice")
    if slices:
        objects = (
            api.list_objects(_DEVICES, kind) or () for kind in ("DeviceClass", "ResourceClaim")
        )
        return LiveDevices(slices, *map(tuple, objects))
    api.unread = before
    return _NO_DEVICES


def _reject_partial_reads(api: KubernetesApi) -> None:
    """Raise an error if some objects are unreadable: accelerators in use would count as free."""
    if api.unread:
        raise UnreadableError(f"the cluster cannot be read: {'; '.join(api.unread)}")
