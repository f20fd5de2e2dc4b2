"""Roles that follow metrics: the real controller of autoscalers, with numbers of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Scaled:
    """The one set of a role, and what its autoscaler says."""

    cluster: Cluster
    namespace: str
    name: str

    def replicas(self) -> Any:
        """How many replicas the set shall have."""
        return self.cluster.get(LWS, self.name, self.namespace)["spec"]["replicas"]

    def status(self) -> Object:
        """The autoscaler's status, as far as there is one."""
        return self.cluster.get(HPA, "svc-inference", self.namespace).get("status") or {}

    def output(self) -> object:
        """What to show of both when a wait ends in vain."""
        return self.replicas(), self.status()


def scaled(nodes: int, metric: Object) -> Object:
    return manifest(
        nodes, {"maxReplicas": 4, "metrics": [metric], "behavior": AT_ONCE}, {"inference": 1}
    )


@pytest.mark.proves("An HPA scales a role by the mean of a leader metric")
@pytest.mark.parametrize("nodes", [1, 2])
def test_hpa_scales_by_pod_metric(
    cluster: Cluster, namespace: str, adapter: MetricsStandIn, nodes: int
) -> None:
    cluster.add_nodes(4 * nodes)
    adapter.of_pods["waiting"] = 5
    live = LiveService(cluster, namespace, scaled(nodes, {"name": "waiting", "target": 5}))
    live.apply()
    (name,) = live.lws()
    seen = Scaled(cluster, namespace, name)

    def current() -> list[Any]:
        listed = seen.status().get("currentMetrics") or ()
        return [each["pods"]["current"]["averageValue"] for each in listed if "pods" in each]

    # As many as it has are right: workers, which serve nothing, do not count.
    cluster.wait(lambda: current() == ["5"] and seen.replicas() == 2, 120, seen.output)
    adapter.of_pods["waiting"] = 9
    cluster.wait(lambda: seen.replicas() == 4, 60, seen.output)
    cluster.wait(lambda: len(cluster.bound(namespace)) == 4 * nodes, 60, seen.output)
    adapter.of_pods["waiting"] = 0
    cluster.wait(lambda: seen.replicas() == 1, 90, seen.output)
    assert all("worker-index=0" in each for each in adapter.asked)


@pytest.mark.proves("An HPA scales a role by an external metric")
def test_hpa_scales_by_external_metric(
    cluster: Cluster, namespace: str, adapter: MetricsStandIn
) -> None:
    cluster.add_nodes(4)
    adapter.external["queue"] = 11
    metric = {"name": "queue", "source": "External", "target": 4}
    live = LiveService(cluster, namespace, scaled(1, metric))
    live.apply()
    (name,) = live.lws()
    seen = Scaled(cluster, namespace, name)

    cluster.wait(lambda: seen.replicas() == 3, 120, seen.output)
    adapter.external["queue"] = 3
    cluster.wait(lambda: seen.replicas() == 1, 90, seen.output)
