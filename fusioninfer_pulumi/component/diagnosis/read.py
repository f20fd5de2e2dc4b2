"""Reads snapshots of a service from its cluster, with the official client."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.component.diagnosis._pods import Object, name_of, shows_reason
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.topology.gang import API_VERSION, NATIVE_API_VERSION

#: More pods than this are not counted against the nodes: it would take too long.
_MOST_PODS = 20_000
#: LeaderWorkerSet says as a normal event that it deletes a group whose container has restarted.
_EVENTS = ("type=Warning", "type=Normal,reason=RecreateGroup")
#: Labels of nodes that Karpenter has added, also as part of EKS and AKS.
_KARPENTER = {"karpenter.sh/nodepool", "karpenter.sh/provisioner-name"}
#: ConfigMap in which the Cluster Autoscaler writes its status: its name and namespace.
_CLUSTER_AUTOSCALER = ("cluster-autoscaler-status", "kube-system")
_HOLD_A_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class Snapshot:
    """Pods, events and PodGroups of one service, and the nodes around them.

    Attributes:
        nodes: All nodes, None where they were not read.
        bound: Pods of any namespace that hold a node, None where they were not read.
        unread: What could not be read, and why.
        workloads: Kueue's Workloads of the namespace, where pods wait for one.
    """

    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    nodes: Sequence[Object] | None = None
    bound: Sequence[Object] | None = None
    unread: Sequence[str] = ()
    workloads: Sequence[Object] = ()


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cluster, and what holds them.

    Attributes:
        nodes: All nodes, None where they were not read.
        bound: Pods of any namespace that hold a node, None where they were not all read.
        come_on_demand: Whether a node autoscaler was seen.
    """

    nodes: Sequence[Object] | None
    bound: Sequence[Object] | None
    come_on_demand: bool


def read_service(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> Snapshot:
    """Snapshot of a service's pods, their warnings, its PodGroups, and what nodes have free.

    `kubeconfig` is a path or text; it and `context` are None for what kubectl would use. What one
    has no rights to read is in `unread`. Raises UnreadableError where nothing can be read.
    """
    api = KubernetesApi(kubeconfig, context)
    selector = f"{labels.SERVICE}={service}"
    pods = api.objects("v1", "Pod", namespace, labelSelector=selector) or []
    events = [
        event
        for fields in _EVENTS
        for event in api.objects("v1", "Event", namespace, fieldSelector=fields) or ()
    ]
    native = any(pod["spec"].get("schedulingGroup") for pod in pods)
    version = NATIVE_API_VERSION if native else API_VERSION
    groups = api.objects(version, "PodGroup", namespace, labelSelector=selector) or []
    nodes = bound = None
    if any(not pod["spec"].get("nodeName") for pod in pods):
        nodes = api.objects("v1", "Node")
        bound = _bound(api) if nodes is not None else None
    # Kueue's Workloads, asked for only where one of the pods waits for Kueue.
    gates = [gate for pod in pods for gate in pod["spec"].get("schedulingGates") or ()]
    waits = any(gate["name"] == labels.KUEUE_GATE for gate in gates)
    workloads = api.objects("kueue.x-k8s.io", "Workload", namespace) if waits else None
    return Snapshot(pods, events, groups, nodes, bound, tuple(api.unread), workloads or ())


def read_nodes(kubeconfig: str | None, context: str | None, _namespace: str) -> Nodes:
    """Nodes, the pods that hold them, and whether a node autoscaler runs.

    Raises UnreadableError where the cluster does not answer.
    """
    api = KubernetesApi(kubeconfig, context)
    nodes = api.objects("v1", "Node")
    if nodes is None:
        return Nodes(None, None, come_on_demand=False)
    on_demand = any(_KARPENTER & (node["metadata"].get("labels") or {}).keys() for node in nodes)
    if not on_demand:
        name, namespace = _CLUSTER_AUTOSCALER
        on_demand = api.get("v1", "ConfigMap", namespace, name) is not None
    return Nodes(nodes, _bound(api), on_demand)


def read_pods(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> Snapshot:
    """Snapshot of a service's pods alone; raises UnreadableError where they cannot be read."""
    api = KubernetesApi(kubeconfig, context)
    selector = f"{labels.SERVICE}={service}"
    pods = api.objects("v1", "Pod", namespace, labelSelector=selector) or ()
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return Snapshot(pods)


def watch_service(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    service: str,
    known: Snapshot,
    enough: Callable[[Snapshot], bool],
    seconds: float,
) -> Snapshot:
    """Watches a service's pods: what a crashed pod shows may be gone at the next read.

    Returns `known` with each pod as it was when it last showed a reason, or as it is; unchanged
    where one has no right to watch. It ends when `enough` says so or after `seconds`.
    """
    api = KubernetesApi(kubeconfig, context)
    pods = {name_of(pod): pod for pod in known.pods}
    snapshot = known
    selector = f"{labels.SERVICE}={service}"
    changes = api.changes("v1", "Pod", namespace, seconds=seconds, labelSelector=selector)
    with contextlib.closing(changes):
        for kind, pod in changes:
            before = pods.get(name_of(pod))
            if shows_reason(pod) or before is None or not shows_reason(before):
                pods[name_of(pod)] = pod
            if kind == "DELETED" and not shows_reason(pods[name_of(pod)]):
                del pods[name_of(pod)]
            snapshot = replace(known, pods=list(pods.values()))
            if enough(snapshot):
                break
    return snapshot


def _bound(api: KubernetesApi) -> Sequence[Object] | None:
    """Pods of all namespaces that hold a node; None where they cannot all be read."""
    return api.objects("v1", "Pod", most=_MOST_PODS, fieldSelector=_HOLD_A_NODE)
