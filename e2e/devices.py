"""Devices of fake nodes, as a driver of dynamic resource allocation publishes them."""

from __future__ import annotations

from collections.abc import Mapping

from e2e.harness import Object


def devices(driver: str, counts: Mapping[str, int]) -> list[Object]:
    """Return a driver's DeviceClass, and a ResourceSlice with so many devices of each node."""
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
