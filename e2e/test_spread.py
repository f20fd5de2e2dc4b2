"""Leaders spread over zones by the real schedulers, in a gang and without one."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import role, service
from e2e.live import LiveService

ZONE = "topology.kubernetes.io/zone"
HARD = [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]


def zones_of_leaders(cluster: Cluster, live: LiveService) -> Counter[str]:
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "")
        for node in cluster.list("v1/Node")
    }
    return Counter(
        zones[pod["spec"]["nodeName"]]
        for pod in live.pods()
        if pod["spec"].get("nodeName")
        and pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    )


def spread(cluster: Cluster, namespace: str, manifest: Object, small: int = 2) -> LiveService:
    """A service on a zone with much room, and one with little."""
    cluster.add_nodes(8, labels={ZONE: "large"})
    cluster.add_nodes(small, labels={ZONE: "small"})
    live = LiveService(cluster, namespace, manifest)
    live.apply()
    return live


@pytest.mark.proves("The default scheduler spreads four leaders over two zones")
def test_default_scheduler_spreads_leaders(cluster: Cluster, namespace: str) -> None:
    made = role("inference", "worker", 4, 1, 8, topologySpread=HARD)
    live = spread(cluster, namespace, service("svc", made))
    live.becomes({f"inference-{index}": 1 for index in range(4)})
    assert zones_of_leaders(cluster, live) == {"large": 2, "small": 2}


@pytest.mark.proves("Volcano spreads the leaders of a gang")
@pytest.mark.parametrize(
    ("minimum", "small"), [(None, 2), ({"inference": 1}, 8)], ids=["literal", "partial"]
)
def test_volcano_spreads_leaders(
    cluster: Cluster, namespace: str, minimum: dict[str, int] | None, small: int
) -> None:
    made = role("inference", "worker", 4, 2, 8, topologySpread=HARD)
    live = spread(cluster, namespace, service("svc", made, minimum=minimum), small)
    live.becomes({f"inference-{index}": 2 for index in range(4)})
    assert zones_of_leaders(cluster, live) == {"large": 2, "small": 2}


@pytest.mark.proves("A gang whose leaders cannot be spread stays pending")
def test_gang_that_cannot_be_spread_stays_pending(cluster: Cluster, namespace: str) -> None:
    # The small zone has room for two leaders, so a fifth of the large one's would skew by two.
    made = role("inference", "worker", 6, 1, 8, topologySpread=HARD)
    other = role("other", "worker", 1, 2, 0)
    live = spread(cluster, namespace, service("svc", made, other))
    cluster.settle(8)
    assert set(live.bound().values()) == {0}
