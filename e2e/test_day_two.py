"""What the selectors of monitors find on real pods."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object

PORT = {"name": "http", "containerPort": 8000}


def monitored() -> Object:
    """A service of two replicas of two nodes with a picker, whose metrics are read."""
    serving = inputs.role("inference", "worker", 2, 2)
    (container,) = serving["template"]["spec"]["containers"]
    container |= {"image": "vllm/vllm-openai:v0.17.1", "args": ["--model", "m"], "ports": [PORT]}
    router = {
        "name": "router",
        "componentType": "router",
        "httproute": {"parentRefs": [{"name": "gateway"}]},
        "endpointPicker": {"metrics": "Authenticated"},
    }
    service = inputs.service("svc", router, serving, minimum={"inference": 1})
    service["spec"] |= {"layout": "PerRole", "monitoring": {"pickerToken": {"name": "reader"}}}
    return service


@pytest.mark.proves("Monitors select leaders and the picker's Service")
def test_monitors_select_leaders_and_picker(cluster: Cluster, namespace: str) -> None:
    plan = inputs.plan_of(monitored())
    kept = ("LeaderWorkerSet", "PodGroup", "PodMonitor", "ServiceMonitor", "Service")
    objects = [each for each in inputs.objects_of(plan) if each["kind"] in kept]
    cluster.add_nodes(4)
    stored = cluster.apply(inputs.with_namespace(objects, namespace))
    cluster.wait(lambda: len(cluster.bound(namespace)) == 4, 60, lambda: cluster.pods(namespace))
    monitors = {each["kind"]: each["spec"] for each in stored}

    def selected(kind: str, monitor: str) -> list[Object]:
        labels = monitors[monitor]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return cluster.list(kind, namespace, selector)

    pods = selected("v1/Pod", "PodMonitor")
    names = [pod["metadata"]["name"] for pod in pods]
    assert names == ["svc-inference-0", "svc-inference-1"]
    (endpoint,) = monitors["PodMonitor"]["podMetricsEndpoints"]
    assert endpoint["port"] == PORT["name"]
    for pod in pods:
        assert set(monitors["PodMonitor"]["podTargetLabels"]) <= set(pod["metadata"]["labels"])
    (picker,) = selected("v1/Service", "ServiceMonitor")
    assert picker["metadata"]["name"] == "svc-epp"
    (endpoint,) = monitors["ServiceMonitor"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in picker["spec"]["ports"]]
