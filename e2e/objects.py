"""Objects that do not use the library's builders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

import yaml

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


def read_objects(title: str, **values: object) -> list[Object]:
    """Return the objects with a title in objects.yaml, with these values substituted."""
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    objects: list[Object] = _fill(document[title], values)
    return objects


def _fill(field: Any, values: Mapping[str, object]) -> Any:
    if isinstance(field, dict):
        return {key: _fill(item, values) for key, item in field.items()}
    if isinstance(field, list):
        return [_fill(item, values) for item in field]
    if not isinstance(field, str):
        return field
    if field.startswith("$") and field[1:] in values:
        return values[field[1:]]  # A list or a number stays one.
    return Template(field).substitute(values)


def devices(driver: str, counts: Mapping[str, int]) -> list[Object]:
    """Return a driver's DeviceClass, and a ResourceSlice with devices for each node."""
    objects = read_objects("device class", driver=driver)
    for node, count in counts.items():
        gpus = [
            {"name": f"gpu-{index}", "attributes": {"type": {"string": "gpu"}}}
            for index in range(count)
        ]
        objects += read_objects("devices of a node", driver=driver, node=node, devices=gpus)
    return objects


@contextmanager
def bound_claim(cluster: Cluster, namespace: str, name: str = "shared") -> Iterator[None]:
    """Create a claim that pods can mount, and its volume, which is deleted afterwards."""
    volume = f"{namespace}-{name}"
    cluster.apply(read_objects("claimed volume", volume=volume, namespace=namespace, name=name))
    try:
        yield
    finally:
        cluster.delete("PersistentVolume", volume)
