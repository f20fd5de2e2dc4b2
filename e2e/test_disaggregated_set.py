"""Updates of a DisaggregatedSet of LeaderWorkerSet 0.9 without spare nodes."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from e2e.harness import Cluster, Object
from e2e.harness.pods import is_ready

pytestmark = pytest.mark.upstream

KIND = "disaggregatedset.x-k8s.io/v1/DisaggregatedSet"
LABEL = "disaggregatedset.x-k8s.io"
GPU = "nvidia.com/gpu"
FULL = {"prefill": 2, "decode": 4}
WAIT = 120.0
#: How long nothing must change, where an update stands still.
STILL = 15.0


def disaggregated_set(tag: str) -> Object:
    """Two prefill and four decode pods, each with a whole node."""

    def role(name: str) -> Object:
        limits = {GPU: "8"}
        image = f"registry.example.com/engine:{tag}"
        container = {"name": "engine", "image": image, "resources": {"limits": limits}}
        template = {"spec": {"containers": [container]}}
        spec: Object = {
            "replicas": FULL[name],
            "leaderWorkerTemplate": {"size": 1, "workerTemplate": template},
        }
        return {"name": name, "spec": spec}

    return {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": "pair"},
        "spec": {"roles": [role("prefill"), role("decode")]},
    }


def counts(cluster: Cluster, namespace: str, *, ready: bool = True) -> Counter[tuple[str, str]]:
    """Pods by role and tag of their image: those that are ready, or all others."""
    return Counter(
        (pod["metadata"]["labels"][f"{LABEL}/role"], tag_of(pod))
        for pod in cluster.pods(namespace)
        if "deletionTimestamp" not in pod["metadata"] and is_ready(pod) == ready
    )


def tag_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def serves(cluster: Cluster, namespace: str, tag: str) -> bool:
    """Whether all pods are of this image, and ready."""
    wanted = {(role, tag): count for role, count in FULL.items()}
    return counts(cluster, namespace) == wanted and not counts(cluster, namespace, ready=False)


def put(cluster: Cluster, namespace: str, pair: Object) -> None:
    cluster.apply([pair], namespace=namespace)


def started(cluster: Cluster, namespace: str, nodes: int) -> None:
    """Create the first revision on so many nodes, and wait until it serves."""
    cluster.add_nodes(nodes)
    put(cluster, namespace, disaggregated_set("1"))
    await_image(cluster, namespace, "1")


def await_image(cluster: Cluster, namespace: str, tag: str) -> None:
    cluster.wait(
        lambda: serves(cluster, namespace, tag),
        WAIT,
        lambda: (
            f"{counts(cluster, namespace)}, not ready {counts(cluster, namespace, ready=False)}"
        ),
    )


@pytest.mark.proves("DisaggregatedSet: without free nodes, updates stall with an empty status")
@pytest.mark.parametrize("free", [0, 1])
def test_update_without_free_nodes_stalls(cluster: Cluster, namespace: str, free: int) -> None:
    started(cluster, namespace, 6 + free)
    put(cluster, namespace, disaggregated_set("2"))

    def waits() -> bool:
        waiting = counts(cluster, namespace, ready=False)
        return sum(waiting.values()) == 2 - free and all(tag == "2" for _, tag in waiting)

    cluster.wait(waits, WAIT, lambda: str(counts(cluster, namespace, ready=False)))
    before = sorted(pod["metadata"]["uid"] for pod in cluster.pods(namespace))
    time.sleep(STILL)
    assert sorted(pod["metadata"]["uid"] for pod in cluster.pods(namespace)) == before
    ready = counts(cluster, namespace)
    assert {role: ready[role, "1"] for role in FULL} == FULL
    (stored,) = cluster.list(KIND, namespace)
    assert not stored.get("status", {}).get("conditions")
    cluster.add_nodes(2 - free)
    await_image(cluster, namespace, "2")
