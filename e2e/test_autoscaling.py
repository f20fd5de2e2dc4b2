"""Autoscalers under the real controller of HorizontalPodAutoscalers, which has no metrics here.

It keeps the replicas within the bounds without them, so moving the bounds makes it scale.
"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import role, service
from e2e.live import LiveService

LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
METRIC = {"name": "vllm_num_requests_waiting", "target": 5}


def manifest(nodes: int, autoscaling: Object, minimum: dict[str, int] | None = None) -> Object:
    built = service(
        "svc",
        role("inference", "worker", 2, nodes, 8, autoscaling=autoscaling, disruptionBudget={}),
        minimum=minimum,
    )
    built["spec"]["layout"] = "PerRole"
    return built


def condition(hpa: Object, kind: str) -> dict[str, Any]:
    found = hpa.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


@pytest.mark.proves("An HPA scales a gang's LeaderWorkerSet and selects its leaders")
def test_hpa_scales_lws_of_gang(cluster: Cluster, namespace: str) -> None:
    autoscaling = {"maxReplicas": 4, "metrics": [METRIC]}
    live = LiveService(cluster, namespace, manifest(2, autoscaling, {"inference": 1}))
    cluster.add_nodes(8)
    live.apply()
    (name,) = live.lws()

    def bound() -> int:
        return sum(1 for pod in live.pods() if pod["spec"].get("nodeName"))

    def output() -> object:
        return cluster.get(HPA, "svc-inference", namespace).get("status"), bound()

    cluster.wait(lambda: bound() == 4, 60, output)
    resolved = cluster.wait(
        lambda: condition(cluster.get(HPA, "svc-inference", namespace), "AbleToScale"), 60, output
    )
    assert (resolved["status"], resolved["reason"]) == ("True", "SucceededGetScale")
    scale = cluster.request("GET", f"{cluster.resource(LWS).path(name, namespace)}/scale")
    leaders = cluster.pods(namespace, scale["status"]["selector"])
    assert sorted(pod["metadata"]["name"] for pod in leaders) == [f"{name}-0", f"{name}-1"]

    group = cluster.get("PodGroup", "svc", namespace)["spec"]
    for replicas in (3, 1):
        bounds = {"spec": {"minReplicas": replicas, "maxReplicas": replicas}}
        cluster.patch(HPA, "svc-inference", bounds, namespace)

        def scaled(wanted: int = replicas) -> bool:
            live = cluster.get(LWS, name, namespace)["spec"]["replicas"]
            return bool(live == wanted and bound() == wanted * 2)

        cluster.wait(scaled, 90, output)
    assert cluster.get("PodGroup", "svc", namespace)["spec"] == group


@pytest.mark.proves("The disruption budget of a scaled role follows its replicas")
def test_budget_follows_replicas(cluster: Cluster, namespace: str) -> None:
    autoscaling = {"maxReplicas": 4, "metrics": [METRIC]}
    live = LiveService(cluster, namespace, manifest(2, autoscaling, {"inference": 1}))
    cluster.add_nodes(8)
    live.apply()
    (name,) = live.lws()

    def counts() -> tuple[int, int]:
        status = cluster.get("PodDisruptionBudget", "svc-inference", namespace).get("status", {})
        return status.get("desiredHealthy", -1), status.get("disruptionsAllowed", -1)

    cluster.wait(lambda: counts() == (3, 1), 60, counts)
    cluster.patch(LWS, name, {"spec": {"replicas": 3}}, namespace, subresource="scale")
    cluster.wait(lambda: counts() == (5, 1), 60, counts)
