"""Devices of fake nodes, as a driver of dynamic resource allocation publishes them."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.harness import Object


def devices(driver: str, nodes: Sequence[str], count: int) -> list[Object]:
    """A DeviceClass of a driver, and what it publishes of so many devices on each node."""
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
    for node in nodes:
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(count)],
        }
        metadata = {"name": f"{node}.{driver}"}
        made.append(
            {"apiVersion": api, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        )
    return made
