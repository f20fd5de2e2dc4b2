"""Leaders spread over zones by the real schedulers, in a gang and without one."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e.harness import Cluster
from e2e.inputs import role, service
from e2e.live import LiveService

ZONE = "topology.kubernetes.io/zone"
HARD = [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]


def spread(
    cluster: Cluster, namespace: str, replicas: int, nodes: int, small: int,
    minimum: dict[str, int] | None,
) -> LiveService:  # fmt: skip
    """Apply a service on a zone of eight nodes, and one of `small`; six leaders are in a gang."""
    cluster.add_nodes(8, labels={ZONE: "large"})
    cluster.add_nodes(small, labels={ZONE: "small"})
    roles = [role("inference", "worker", replicas, nodes, topologySpread=HARD)]
    roles += [role("other", "worker", 1, 2, 0)] if replicas == 6 else []
    live = LiveService(cluster, namespace, service("svc", *roles, minimum=minimum))
    live.apply()
    return live


@pytest.mark.proves("Volcano spreads leaders of a gang over zones, kube-scheduler those of none")
@pytest.mark.parametrize(
    ("nodes", "small", "minimum"),
    [(1, 2, None), (2, 2, None), (2, 8, {"inference": 1})],
    ids=["no gang", "literal", "partial"],
)
def test_leaders_are_spread(
    cluster: Cluster, namespace: str, nodes: int, small: int, minimum: dict[str, int] | None
) -> None:
    live = spread(cluster, namespace, 4, nodes, small, minimum)
    live.becomes({f"inference-{index}": nodes for index in range(4)})
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "")
        for node in cluster.list("v1/Node")
    }
    leader = "leaderworkerset.sigs.k8s.io/worker-index=0"
    found = Counter(zones[pod["spec"]["nodeName"]] for pod in cluster.bound(namespace, leader))
    assert found == {"large": 2, "small": 2}


@pytest.mark.proves("A gang whose leaders cannot be spread stays pending")
def test_gang_that_cannot_be_spread_stays_pending(cluster: Cluster, namespace: str) -> None:
    # The small zone has room for two leaders, so a fifth of the large one's would skew by two.
    live = spread(cluster, namespace, 6, 1, 2, None)
    cluster.settle(8)
    assert set(live.bound().values()) == {0}
