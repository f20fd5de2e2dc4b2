"""A cluster with real nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.harness import KUBE_SCHEDULER, LWS, VOLCANO, Cluster, Object
from e2e.harness.pods import is_ready
from e2e.serve.dns import start_dns
from e2e.serve.engine import NIXL_RELEASES, Vllm, vllm
from e2e.serve.node import Node, add_network, describe, find_stuck, prepare_network, read_logs
from e2e.serve.sandbox import ADDRESS

START_TIMEOUT = 600.0
"""Startup timeout of engines, several of which can share a CPU."""

MAX_UIDS = 3
"""Maximum number of UIDs of pods with one name, before `wait_ready` gives up."""


class StuckPodError(Exception):
    """A pod cannot become ready; the message contains its state and the end of its log."""


class Serving:
    """A cluster and its nodes."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        """Start the first node; `directory` is for files of all nodes."""
        self.cluster = cluster
        self._directory = directory
        self.nodes = [Node(cluster, directory / "node", _list_engines())]

    @property
    def node(self) -> Node:
        return self.nodes[0]

    def ensure_nodes(self, count: int) -> None:
        """Start nodes with the first node's images until this many run."""
        while len(self.nodes) < count:
            network = add_network(self.cluster, len(self.nodes) + 1)
            node = Node(self.cluster, self._directory / network.name, _list_engines(), network)
            node.load_images(self.node.images)
            self.nodes.append(node)

    @contextmanager
    def use_first_node_only(self) -> Iterator[None]:
        """Schedule no new pods on the additional nodes."""
        names = [node.name for node in self.nodes[1:]]
        for name in names:
            self.cluster.patch("v1/Node", name, {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            for name in names:
                self.cluster.patch("v1/Node", name, {"spec": {"unschedulable": False}})

    def load_manifest_images(self, manifests: Sequence[Object]) -> None:
        for node in self.nodes:
            node.load_manifest_images(manifests)

    def apply(self, manifests: Sequence[Object], namespace: str | None = None) -> None:
        """Load the images of objects on all nodes, and apply the objects."""
        self.load_manifest_images(manifests)
        self.cluster.apply(manifests, namespace=namespace)

    def processes(self, pod: Object) -> dict[int, str]:
        """Return names of the processes in a pod's containers, by process ID in the sandbox."""
        (node,) = (node for node in self.nodes if node.name == pod["spec"]["nodeName"])
        return node.processes(pod)

    def read_logs(self, pod: Object, lines: int = 1000) -> str:
        meta = pod["metadata"]
        parts = [read_logs(node, meta["namespace"], meta["name"], lines) for node in self.nodes]
        return "\n".join(filter(None, parts))

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        pods = self.cluster.pods(namespace, selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def wait_ready(
        self, namespace: str, count: int, selector: str = "", timeout: float = START_TIMEOUT
    ) -> list[Object]:
        """Wait until exactly this many pods exist and are ready; return them.

        Raises:
            StuckPodError: If a container cannot start, or a pod was replaced repeatedly.
            TimeoutError: With the pods' states and the ends of their logs.
        """
        seen: dict[str, set[str]] = {}

        def find_ready() -> list[Object]:
            pods = self.pods(namespace, selector)
            for pod in pods:
                seen.setdefault(pod["metadata"]["name"], set()).add(pod["metadata"]["uid"])
            reasons = find_stuck(pods)
            # LeaderWorkerSet recreates the replica after a container exits.
            reasons += [f"{name}: replaced" for name, uids in seen.items() if len(uids) > MAX_UIDS]
            if reasons:
                raise StuckPodError(f"{reasons}\n{self.report(namespace)}")
            return pods if len(pods) == count and all(map(is_ready, pods)) else []

        return self.cluster.wait(find_ready, timeout, lambda: self.report(namespace))

    def report(self, namespace: str) -> str:
        """Return the states of all pods in a namespace and the ends of their logs."""
        pods = self.cluster.pods(namespace)
        parts = [describe(pods)]
        parts += [self.read_logs(pod, 40) for pod in pods]
        return "\n".join(parts)


def _list_engines() -> list[Vllm]:
    return [engine for engine in map(vllm, NIXL_RELEASES) if engine.is_installed]


@contextmanager
def start_serving() -> Iterator[Serving]:
    """Start a cluster with a node in this sandbox."""
    prepare_network()
    with Cluster({LWS, VOLCANO, KUBE_SCHEDULER}, address=ADDRESS) as cluster:
        start_dns(cluster, ADDRESS)
        yield Serving(cluster, Path(os.environ["TMPDIR"]))
