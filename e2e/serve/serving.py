"""A cluster with a node that runs pods, and what tests and `make serve` do with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.harness import KUBE_SCHEDULER, LWS, VOLCANO, Cluster, Object
from e2e.harness.pods import is_ready
from e2e.serve.engine import vllm
from e2e.serve.node import ADDRESS, Node, describe, logs, prepare_network, stuck

START_SECONDS = 600.0
"""Until an engine must serve: some start at once on a processor or two."""


class StuckPodError(Exception):
    """A pod will not become ready; the message carries its state and its log's end."""


class Serving:
    """A cluster and its node.

    Attributes:
        cluster: The cluster.
        node: The node that its pods run on.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.cluster = cluster
        self.node = node

    def apply(self, manifests: Sequence[Object], namespace: str | None = None) -> None:
        """Bring the images of these objects to the node, and apply them."""
        self.node.bring(manifests)
        self.cluster.apply(manifests, namespace=namespace)

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        """Pods that are not about to end."""
        pods = self.cluster.pods(namespace, selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def wait_ready(
        self, namespace: str, count: int, selector: str = "", timeout: float = START_SECONDS
    ) -> list[Object]:
        """Wait until exactly so many pods are there and ready; return them.

        Raises:
            StuckPodError: If a container cannot start, or has ended.
            TimeoutError: With the pods' states and the ends of their logs.
        """

        def ready() -> list[Object]:
            pods = self.pods(namespace, selector)
            if reasons := stuck(pods):
                raise StuckPodError(f"{reasons}\n{self.report(namespace)}")
            return pods if len(pods) == count and all(map(is_ready, pods)) else []

        return self.cluster.wait(ready, timeout, lambda: self.report(namespace))

    def report(self, namespace: str) -> str:
        """How the pods of a namespace are, with the ends of their logs."""
        pods = self.cluster.pods(namespace)
        parts = [describe(pods)]
        parts += [logs(self.node, namespace, pod["metadata"]["name"]) for pod in pods]
        return "\n".join(parts)


@contextmanager
def serving() -> Iterator[Serving]:
    """Start a cluster with a node in this enclosure; the enclosure's end is theirs."""
    prepare_network()
    directory = Path(os.environ["TMPDIR"]) / "node"
    with Cluster({LWS, VOLCANO, KUBE_SCHEDULER}, address=ADDRESS) as cluster:
        yield Serving(cluster, Node(cluster, directory, [vllm()]))
