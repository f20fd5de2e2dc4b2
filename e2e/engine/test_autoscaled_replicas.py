"""Autoscaling: what updates do with replica counts that an autoscaler set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.engine.services import LWS, Stack, role, service
from e2e.harness import Object
from e2e.metrics import run_metrics_adapter

NAME = "svc-serve"
BUDGET = "policy/v1/PodDisruptionBudget"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
MONITOR = "monitoring.coreos.com/v1/PodMonitor"
AUTOSCALING: dict[str, Any] = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": 5}]}


def make_scaled_service(namespace: str, tag: str = "1", **more: Any) -> Object:
    scaled = role(replicas=2, tag=tag, **{"autoscaling": AUTOSCALING, **more})
    scaled["template"]["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8000}]
    fields = {key: value for key, value in scaled.items() if value is not None}
    return service(namespace, fields, layout="PerRole", disruptionBudget={}, monitoring={})


def scale(stack: Stack, replicas: int) -> None:
    # Patched, because the controller also updates the object.
    change = {"spec": {"replicas": replicas}}
    stack.cluster.patch(LWS, NAME, change, stack.namespace, subresource="scale")


@pytest.mark.verifies(
    "Updates leave the replica count that the HorizontalPodAutoscaler set from a metric"
)
def test_updates_keep_replicas_of_autoscaler(stack: Stack, tmp_path: Path) -> None:
    stack.cluster.add_nodes(4)
    with run_metrics_adapter(stack.cluster, tmp_path) as adapter:
        adapter.pod_metrics["waiting"] = 9
        stack.deploy_services(make_scaled_service(stack.namespace))
        stack.cluster.wait(lambda: stack.count_ready() == {"serve": 4}, 120)
        # Without the metric, the autoscaler does not change the replicas again.
        del adapter.pod_metrics["waiting"]
        stack.deploy_services(make_scaled_service(stack.namespace, tag="2"))
        assert stack.count_ready() == {"serve": 4}
        images = {
            container["image"]
            for pod in stack.cluster.pods(stack.namespace)
            for container in pod["spec"]["containers"]
        }
        assert images == {"registry.example/engine:2"}


@pytest.mark.verifies(
    "After autoscaling is removed, a forced update restores the program's replica count"
)
def test_forced_update_restores_replicas_without_autoscaling(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy_services(make_scaled_service(stack.namespace))
    scale(stack, 3)
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 3}, 60)

    scaled = make_scaled_service(stack.namespace)["spec"]["roles"][0]
    del scaled["autoscaling"]
    stack.deploy(scaled, layout="PerRole")
    # The autoscaler still owns the field, and the program's value has not changed.
    assert stack.count_ready() == {"serve": 3}

    force = {"annotations": {"pulumi.com/patchForce": "true"}}
    stack.deploy(scaled, layout="PerRole", metadata=force)
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 2}, 60)
    for kind in (BUDGET, HPA, MONITOR):
        assert not stack.cluster.exists(kind, NAME, stack.namespace)
