"""Hand-written objects for the tests of the harness, independent of the library's builders."""

from __future__ import annotations

from collections.abc import Mapping

from e2e.harness import Object

IMAGE = "registry.example/engine:1"
QUEUE_GROUP = "scheduling.k8s.io/group-name"


def pod_spec(gpus: int = 0, **more: object) -> Object:
    container: Object = {"name": "engine", "image": IMAGE}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [container], **more}


def pod(name: str, *, annotations: Mapping[str, str] | None = None) -> Object:
    """A pod that needs no accelerators."""
    meta = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()}


def gang(name: str, *, pods: int, gpus: int) -> list[Object]:
    """A PodGroup that needs all of its pods, and the pods."""
    group: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": pods, "queue": "default"},
    }
    members: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{index}", "annotations": {QUEUE_GROUP: name}},
            "spec": pod_spec(gpus, schedulerName="volcano"),
        }
        for index in range(pods)
    ]
    return [group, *members]


def leader_worker_set(name: str, *, size: int, replicas: int = 1) -> Object:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod_spec()}},
        },
    }
