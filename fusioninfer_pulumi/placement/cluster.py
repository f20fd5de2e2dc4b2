"""Reads node pools, and where services run already, from a live cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.resources import accelerators
from fusioninfer_pulumi.placement.devices import LiveDevices
from fusioninfer_pulumi.placement.needs import Previous
from fusioninfer_pulumi.placement.nodes import inventory_of
from fusioninfer_pulumi.placement.previous import service_key

_SETS = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
_DEVICES = "resource.k8s.io"
_DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


def read_inventory(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    pool_label: str | None = None,
    services: Iterable[InferenceServiceArgs | str] = (),
) -> InventoryArgs:
    """Reads the node pools of a cluster, and what is in use there.

    Needs the extra `cluster`, and the right to list nodes and pods of all namespaces. Devices that
    pods claim (dynamic resource allocation) are read where ResourceSlices may be listed; then
    DeviceClasses and ResourceClaims of all namespaces must be, too.

    Args:
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.
        pool_label: Node label that tells the pools apart; by default the one of GKE, EKS, AKS or
            Karpenter that most nodes with accelerators have.
        services: The services that are about to be placed (or `name`, `namespace/name`): what
            their own pods hold counts as free.

    Returns:
        The pools, by name.

    Raises:
        UnreadableError: The cluster cannot be read.
        InvalidServiceError: No ready node with accelerators has the label.
    """
    api = KubernetesApi(kubeconfig, context)
    core = api.client.CoreV1Api(api.connection)
    nodes = list(api.each("Nodes", core.list_node))
    pods = list(api.each("Pods", core.list_pod_for_all_namespaces, field_selector=_RUNNING))
    devices = _devices(api)
    _demand_all_read(api)
    own = {
        each if isinstance(each, str) else service_key(each.namespace, each.name or "")
        for each in services
    }
    return inventory_of(nodes, pods, pool_label=pool_label, services=own, devices=devices)


def read_placement(
    inventory: InventoryArgs, kubeconfig: str | None = None, context: str | None = None
) -> Mapping[str, Mapping[str, Previous]]:
    """Reads on which pools services run, from their LeaderWorkerSets.

    Needs the extra `cluster`, and the right to list LeaderWorkerSets of all namespaces.

    Args:
        inventory: The pools; sets that select none of them are left out.
        kubeconfig: Path or text of a kubeconfig; by default the one that kubectl would use.
        context: Its context; by default the current one.

    Returns:
        The `previous` of `place`.

    Raises:
        UnreadableError: The cluster cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    listing = api.client.CustomObjectsApi(api.connection).list_cluster_custom_object
    sets = list(api.each("LeaderWorkerSets", listing, *_SETS, label_selector=labels.SERVICE))
    _demand_all_read(api)
    return placement_of(sets, inventory)


def placement_of(
    sets: Iterable[Mapping[str, Any]], inventory: InventoryArgs
) -> Mapping[str, Mapping[str, Previous]]:
    """Reads off LeaderWorkerSets where their services are placed; pure.

    Args:
        sets: The objects as JSON, all sets of each service.
        inventory: The pools.
    """
    by_value = {inventory.selected_by(pool): pool.name for pool in inventory.pools}
    found: dict[str, dict[str, Previous]] = {}
    for each in sets:
        metadata, spec = each["metadata"], each["spec"]
        own = metadata.get("labels") or {}
        group = spec["leaderWorkerTemplate"]
        worker = group["workerTemplate"]
        selector = worker["spec"].get("nodeSelector") or {}
        pool = by_value.get(str(selector.get(inventory.selector_label or "")))
        if pool is None or labels.ROLE_NAME not in own or labels.SERVICE not in own:
            continue
        leader = group.get("leaderTemplate") or worker
        one = accelerators(leader) + accelerators(worker) * (group.get("size", 1) - 1)
        roles = found.setdefault(service_key(metadata["namespace"], own[labels.SERVICE]), {})
        before = roles.get(own[labels.ROLE_NAME], Previous(pool, 0))
        # What pods claim stands in other objects.
        claims = any(template["spec"].get("resourceClaims") for template in (leader, worker))
        unknown = claims or before.accelerators is None
        held = None if unknown else (before.accelerators or 0) + one * spec.get("replicas", 1)
        roles[own[labels.ROLE_NAME]] = Previous(before.pool, held)
    return found


def _devices(api: KubernetesApi) -> LiveDevices:
    """The devices that pods may claim; none where ResourceSlices may not be read."""
    listing = api.client.CustomObjectsApi(api.connection).list_cluster_custom_object
    for version in _DEVICE_VERSIONS:
        before = dict(api.unread)
        slices = list(api.each("ResourceSlices", listing, _DEVICES, version, "resourceslices"))
        if api.unread != before:
            api.unread = before
            break
        if slices:
            more = {
                kind: tuple(api.each(kind, listing, _DEVICES, version, kind.lower()))
                for kind in ("DeviceClasses", "ResourceClaims")
            }
            return LiveDevices(slices, more["DeviceClasses"], more["ResourceClaims"])
    return LiveDevices((), (), ())


def _demand_all_read(api: KubernetesApi) -> None:
    """A part would say that there is room where there is none."""
    if api.unread:
        raise UnreadableError(f"the cluster cannot be read: {'; '.join(api.unread)}")
