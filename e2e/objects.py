"""Objects that do not use the library's builders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2e.harness import Cluster, Object

IMAGE = "registry.example/engine:1"


def pod_spec(gpus: int = 0, **more: object) -> Object:
    container: Object = {"name": "engine", "image": IMAGE}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [container], **more}


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


def devices(driver: str, counts: Mapping[str, int]) -> list[Object]:
    """Return a driver's DeviceClass, and a ResourceSlice with devices for each node."""
    api = "resource.k8s.io/v1"
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    made: list[Object] = [
        {
            "apiVersion": api,
            "kind": "DeviceClass",
            "metadata": {"name": driver},
            "spec": {"selectors": [selector]},
        }
    ]
    for node, count in counts.items():
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{index}", "attributes": {"type": {"string": "gpu"}}}
                for index in range(count)
            ],
        }
        metadata = {"name": f"{node}.{driver}"}
        made.append(
            {"apiVersion": api, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        )
    return made


@contextmanager
def bound_claim(cluster: Cluster, namespace: str, name: str = "shared") -> Iterator[None]:
    """Create a claim that pods can mount, and its volume, which is deleted afterwards."""
    volume = f"{namespace}-{name}"
    access: Object = {"accessModes": ["ReadWriteMany"]}
    cluster.apply([
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
         "spec": {**access, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/mnt"},
                  "claimRef": {"namespace": namespace, "name": name}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": name, "namespace": namespace,
                      "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
         "spec": {**access, "volumeName": volume, "storageClassName": "",
                  "resources": {"requests": {"storage": "1Gi"}}}},
    ])  # fmt: skip
    try:
        yield
    finally:
        cluster.delete("PersistentVolume", volume)
