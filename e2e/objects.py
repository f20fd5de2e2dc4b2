"""Objects that do not use the library's builders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2e.harness import Cluster, Object
from e2e.harness.resources import read_objects


def make_devices(driver: str, counts: Mapping[str, int]) -> list[Object]:
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
def create_bound_claim(cluster: Cluster, namespace: str, name: str = "shared") -> Iterator[None]:
    """Create a claim that pods can mount, and its volume, which is deleted afterwards."""
    volume = f"{namespace}-{name}"
    cluster.apply(read_objects("claimed volume", volume=volume, namespace=namespace, name=name))
    try:
        yield
    finally:
        cluster.delete("PersistentVolume", volume)
