"""Roles that follow metrics: the real controller of autoscalers, with numbers of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Cluster, Object
from e2e.live import LiveService
from e2e.metrics import MetricsStandIn, metrics
from e2e.test_autoscaling import HPA, LWS, manifest

AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}


@pytest.fixture(scope="module")
def adapter(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsStandIn]:
    with metrics(cluster, tmp_path_factory.mktemp("adapter")) as serving:
        yield serving


def scaled(nodes: int, metric: Object) -> Object:
    return manifest(
        nodes, {"maxReplicas": 4, "metrics": [metric], "behavior": AT_ONCE}, {"inference": 1}
    )


@pytest.mark.proves(
    "a HorizontalPodAutoscaler that is served metrics scales a role through its LeaderWorkerSet, "
    "up and down, by the mean of its leaders"
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_role_follows_a_metric_of_its_pods(
    cluster: Cluster, namespace: str, adapter: MetricsStandIn, nodes: int
) -> None:
    cluster.add_nodes(4 * nodes)
    adapter.of_pods["waiting"] = 5
    live = LiveService(cluster, namespace, scaled(nodes, {"name": "waiting", "target": 5}))
    live.apply()
    (name,) = live.sets()

    def replicas() -> Any:
        return cluster.get(LWS, name, namespace)["spec"]["replicas"]

    def told() -> object:
        return replicas(), cluster.get(HPA, "svc-inference", namespace).get("status")

    def current() -> list[Any]:
        status = cluster.get(HPA, "svc-inference", namespace).get("status", {})
        return [each["pods"]["current"]["averageValue"]
                for each in status.get("currentMetrics") or () if "pods" in each]  # fmt: skip

    # As many as it has are right: workers, which serve nothing, do not count.
    cluster.wait(lambda: current() == ["5"] and replicas() == 2, 120, told)
    adapter.of_pods["waiting"] = 9
    cluster.wait(lambda: replicas() == 4, 60, told)
    cluster.wait(lambda: len(cluster.bound(namespace)) == 4 * nodes, 60, told)
    adapter.of_pods["waiting"] = 0
    cluster.wait(lambda: replicas() == 1, 90, told)
    assert all("worker-index=0" in each for each in adapter.asked)


@pytest.mark.proves("a role follows an external metric, whose value is shared by its replicas")
def test_a_role_follows_an_external_metric(
    cluster: Cluster, namespace: str, adapter: MetricsStandIn
) -> None:
    cluster.add_nodes(4)
    adapter.external["queue"] = 11
    metric = {"name": "queue", "source": "External", "target": 4}
    live = LiveService(cluster, namespace, scaled(1, metric))
    live.apply()
    (name,) = live.sets()

    def replicas() -> Any:
        return cluster.get(LWS, name, namespace)["spec"]["replicas"]

    def told() -> object:
        return replicas(), cluster.get(HPA, "svc-inference", namespace).get("status")

    cluster.wait(lambda: replicas() == 3, 120, told)
    adapter.external["queue"] = 3
    cluster.wait(lambda: replicas() == 1, 90, told)
