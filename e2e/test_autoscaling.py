"""Autoscaling by the real HorizontalPodAutoscaler controller, with simulated metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import role, service
from e2e.live import LiveService
from e2e.metrics import run_metrics_adapter

LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
METRIC = {"name": "waiting", "target": 5}
AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def manifest(nodes: int, autoscaling: Object, minimum: dict[str, int] | None = None) -> Object:
    sized = role("inference", "worker", 2, nodes, autoscaling=autoscaling, disruptionBudget={})
    manifest = service("svc", sized, minimum=minimum)
    manifest["spec"]["layout"] = "PerRole"
    return manifest


@pytest.mark.verifies("An HPA scales a role by the mean of its leaders' metric; the PodGroup stays")
@pytest.mark.parametrize("nodes", [1, 2])
def test_hpa_scales_by_leader_metric(
    cluster: Cluster, namespace: str, tmp_path: Path, nodes: int
) -> None:
    cluster.add_nodes(4 * nodes)
    autoscaling = {"maxReplicas": 4, "metrics": [METRIC], "behavior": AT_ONCE}
    live = LiveService(cluster, namespace, manifest(nodes, autoscaling, {"inference": 1}))

    def status() -> Object:
        return cluster.get(HPA, "svc-inference", namespace).get("status") or {}

    def read_means() -> list[Any]:
        listed = status().get("currentMetrics") or ()
        return [item["pods"]["current"]["averageValue"] for item in listed if "pods" in item]

    def is_scaled(replicas: int) -> bool:
        wanted = cluster.get(LWS, "svc-inference", namespace)["spec"]["replicas"]
        return bool(wanted == replicas and len(cluster.bound_pods(namespace)) == replicas * nodes)

    with run_metrics_adapter(cluster, tmp_path) as adapter:
        adapter.pod_metrics["waiting"] = 5
        live.apply()
        # The metric is at its target, so the role keeps two replicas. Workers are not counted.
        cluster.wait(lambda: read_means() == ["5"] and is_scaled(2), 120, status)
        scale = cluster.request(
            "GET", f"{cluster.resource(LWS).path('svc-inference', namespace)}/scale"
        )
        leaders = cluster.pods(namespace, scale["status"]["selector"])
        assert [pod["metadata"]["name"] for pod in leaders] == [
            "svc-inference-0",
            "svc-inference-1",
        ]
        group = (live.pod_group() or {}).get("spec")
        adapter.pod_metrics["waiting"] = 9
        cluster.wait(lambda: is_scaled(4), 90, status)
        adapter.pod_metrics["waiting"] = 0
        cluster.wait(lambda: is_scaled(1), 90, status)
        assert all("worker-index=0" in item for item in adapter.selectors)
        assert (live.pod_group() or {}).get("spec") == group


@pytest.mark.verifies("The disruption budget of a scaled role follows its replicas")
def test_budget_follows_replicas(cluster: Cluster, namespace: str) -> None:
    autoscaling = {"maxReplicas": 4, "metrics": [METRIC]}
    LiveService(cluster, namespace, manifest(2, autoscaling, {"inference": 1})).apply()
    cluster.add_nodes(8)

    def read_budget() -> tuple[int, int]:
        status = cluster.get("PodDisruptionBudget", "svc-inference", namespace).get("status", {})
        return status.get("desiredHealthy", -1), status.get("disruptionsAllowed", -1)

    cluster.wait(lambda: read_budget() == (3, 1), 60, read_budget)
    scale = {"spec": {"replicas": 3}}
    cluster.patch(LWS, "svc-inference", scale, namespace, subresource="scale")
    cluster.wait(lambda: read_budget() == (5, 1), 60, read_budget)
