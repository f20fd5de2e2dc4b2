"""KV caches that are offloaded: what pods get for it is accepted, and counts for the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.volumes import bound_claim

CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
         "resources": {"requests": {"storage": "10Gi"}}}  # fmt: skip
SHARED = {"fileSystem": {"pvc": {"ref": {"name": "shared", "path": "kv"}}}}
TIERS = [
    {"fileSystem": {"emptyDir": {"size": "200Gi"}}},
    {"fileSystem": {"pvc": {"spec": CLAIM}}},
    SHARED,
]
FORMS: dict[str, Object] = {
    "host memory": {"kvCacheOffloading": {"cpu": "64Gi"}},
    "every tier": {
        "kvCacheOffloading": {"cpu": "64Gi", "evictionPolicy": "arc", "secondary": TIERS}
    },
    "several nodes": {
        "kvCacheOffloading": {"cpu": "16Gi", "secondary": TIERS},
        "parallelism": {"tensor": 2, "data": 4, "dataLocal": 2},
    },
}


def role(name: str = "serve", component_type: str = "worker", **more: object) -> Object:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.22.0", "args": ["--model", "m"],
                 "resources": {"limits": {"nvidia.com/gpu": 4, "memory": "128Gi"}}}  # fmt: skip
    template = {"spec": {"containers": [container]}}
    return {"name": name, "componentType": component_type, "template": template, **more}


@pytest.mark.proves("A gang that offloads to disks and a shared claim is scheduled")
def test_gang_with_offloading_tiers_is_scheduled(cluster: Cluster, namespace: str) -> None:
    given = {"cpu": "16Gi", "secondary": [TIERS[0], SHARED]}
    form = {**FORMS["several nodes"], "kvCacheOffloading": given, "replicas": 2}
    plan = inputs.plan_of(inputs.service("svc", role(**form)))
    cluster.add_nodes(2, 8)
    with bound_claim(cluster, namespace):
        cluster.apply(inputs.with_namespace(inputs.objects_of(plan), namespace))
        cluster.wait(lambda: len(cluster.bound(namespace)) == plan.total_pods == 4, 60)


@pytest.mark.proves("The emptyDir of kvCacheOffloading counts against the node's disk")
def test_offloading_disk_counts_for_scheduling(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1, 8)  # with a disk of 10Ti
    disk = {"fileSystem": {"emptyDir": {"size": "6Ti"}}}
    given = {"cpu": "16Gi", "secondary": [disk]}
    form: dict[str, Any] = {
        "kvCacheOffloading": given,
        "parallelism": {"tensor": 4},
        "replicas": 2,
    }
    plan = inputs.plan_of(inputs.service("svc", role(**form)))
    cluster.apply(inputs.with_namespace(inputs.objects_of(plan), namespace))
    cluster.wait(lambda: len(cluster.bound(namespace)) == 1, 60)
    cluster.settle(3)
    assert len(cluster.bound(namespace)) == 1, "the accelerators would do for both"
