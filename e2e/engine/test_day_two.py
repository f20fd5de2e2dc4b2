"""Autoscaled roles and the other objects of day two, made, changed and removed by the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import SETS, ready, role, service
from e2e.harness import Cluster, Object
from e2e.metrics import metrics

Make = Callable[..., Project]
NAME = "svc-serve"
BUDGET = "policy/v1/PodDisruptionBudget"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
MONITOR = "monitoring.coreos.com/v1/PodMonitor"
AUTOSCALING: dict[str, Any] = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": 5}]}


def scaled(namespace: str, tag: str = "1", **more: Any) -> Object:
    made = role(replicas=2, tag=tag, **{"autoscaling": AUTOSCALING, **more})
    made["template"]["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8000}]
    kept = {key: value for key, value in made.items() if value is not None}
    return service(namespace, kept, layout="PerRole", disruptionBudget={}, monitoring={})


def scale(cluster: Cluster, namespace: str, replicas: int) -> None:
    """Scales as an autoscaler does."""
    # A patch, because the controller writes beside it.
    change = {"spec": {"replicas": replicas}}
    cluster.patch(SETS, NAME, change, namespace, subresource="scale")


@pytest.mark.proves("Updates leave the replicas of an autoscaled role alone", needs=ENGINE)
def test_updates_do_not_scale_back(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(scaled(namespace))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 2}
    for kind in (BUDGET, HPA, MONITOR):
        assert cluster.exists(kind, NAME, namespace)

    scale(cluster, namespace, 3)
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 3}, 60)
    stack.write(scaled(namespace, tag="2"))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
    images = {
        container["image"]
        for pod in cluster.pods(namespace)
        for container in pod["spec"]["containers"]
    }
    assert images == {"registry.example/engine:2"}
    assert cluster.get(SETS, NAME, namespace)["spec"]["replicas"] == 3


@pytest.mark.proves(
    "Updates leave the replica count that the HorizontalPodAutoscaler set from a metric",
    needs=ENGINE,
)
def test_updates_leave_what_the_autoscaler_made(
    cluster: Cluster, namespace: str, project: Make, tmp_path: Path
) -> None:
    cluster.add_nodes(4)
    stack = project()
    with metrics(cluster, tmp_path) as adapter:
        adapter.of_pods["waiting"] = 9
        stack.write(scaled(namespace))
        stack.up().assert_fine()
        cluster.wait(lambda: ready(cluster, namespace) == {"serve": 4}, 120)
        # Nothing would scale it again: without its metric, the autoscaler leaves it alone.
        del adapter.of_pods["waiting"]
        stack.write(scaled(namespace, tag="2"))
        stack.up().assert_fine()
        assert ready(cluster, namespace) == {"serve": 4}
        images = {
            container["image"]
            for pod in cluster.pods(namespace)
            for container in pod["spec"]["containers"]
        }
        assert images == {"registry.example/engine:2"}


@pytest.mark.proves(
    "After autoscaling is removed, a forced update restores the program's replica count",
    needs=ENGINE,
)
def test_a_role_that_is_no_longer_scaled(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(scaled(namespace))
    stack.up().assert_fine()
    scale(cluster, namespace, 3)
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 3}, 60)

    made = scaled(namespace)["spec"]["roles"][0]
    del made["autoscaling"]
    stack.write(service(namespace, made, layout="PerRole"))
    stack.up().assert_fine()
    # The field belongs to whoever scaled last, and the program has not changed it.
    assert ready(cluster, namespace) == {"serve": 3}

    force = {"annotations": {"pulumi.com/patchForce": "true"}}
    stack.write(service(namespace, made, layout="PerRole", metadata=force))
    stack.up().assert_fine()
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 2}, 60)
    for kind in (BUDGET, HPA, MONITOR):
        assert not cluster.exists(kind, NAME, namespace)
