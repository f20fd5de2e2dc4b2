"""Devices of a cluster that pods may claim, by node and DeviceClass, and their allocation; pure.

A DeviceClass selects devices with CEL. Only `device.driver == "X"`, `device.attributes["X"].name ==
value` and their conjunctions are read, which the DeviceClasses of drivers use. Devices of other
DeviceClasses are not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Object = Mapping[str, Any]
#: Driver, pool and name of a device, which identify it.
DeviceId = tuple[str, str, str]

#: Drivers whose devices are accelerators.
ACCELERATOR_DRIVERS = (
    "gpu.nvidia.com",
    "gpu.amd.com",
    "gpu.intel.com",
    "gaudi.intel.com",
    "tpu.google.com",
)
_LITERAL = r"""(?:"(?P<double>[^"\\]*)"|'(?P<single>[^'\\]*)'|(?P<word>true|false|-?\d+))"""
_DRIVER = re.compile(rf"device\.driver\s*==\s*{_LITERAL}")
_ATTRIBUTE = re.compile(
    r"""device\.attributes\[\s*["'](?P<domain>[^"']+)["']\s*\]\.(?P<name>\w+)\s*==\s*""" + _LITERAL
)


@dataclass(frozen=True)
class Device:
    """One device of a node.

    Attributes:
        key: Its identifier.
        values: Attributes by domain and name.
        memory: Its capacity `memory`, or None if it has none.
    """

    key: DeviceId
    values: Mapping[tuple[str, str], Any]
    memory: str | None


@dataclass(frozen=True)
class LiveDevices:
    """ResourceSlices, DeviceClasses and the ResourceClaims of all namespaces, as JSON."""

    slices: Sequence[Object]
    classes: Sequence[Object]
    claims: Sequence[Object]

    @cached_property
    def on_nodes(self) -> Mapping[str, Sequence[Device]]:
        """Devices by node, without devices that several nodes can use."""
        newest: dict[tuple[str, str], int] = {}
        for resource_slice in self.slices:
            pool = resource_slice["spec"]["pool"]
            key = (resource_slice["spec"]["driver"], pool["name"])
            newest[key] = max(newest.get(key, 0), pool.get("generation", 0))
        by_node: dict[str, list[Device]] = {}
        for resource_slice in self.slices:
            spec = resource_slice["spec"]
            pool, node = spec["pool"], spec.get("nodeName")
            current = newest[spec["driver"], pool["name"]] == pool.get("generation", 0)
            if node is not None and current:
                by_node.setdefault(node, []).extend(
                    _read_device(item, spec["driver"], pool["name"])
                    for item in spec.get("devices") or ()
                )
        return by_node

    def find_classes(self, node: str) -> Mapping[str, Sequence[Device]]:
        """Return the accelerators of a node by the DeviceClass that selects them."""
        by_class = {}
        for name, conditions in self._conditions.items():
            members = [
                device for device in self.on_nodes.get(node, ()) if _is_met(device, conditions)
            ]
            if members and all(device.key[0] in ACCELERATOR_DRIVERS for device in members):
                by_class[name] = members
        return by_class

    def find_allocated(self, ignored: Collection[tuple[str, str]]) -> Collection[DeviceId]:
        """Return devices allocated to claims, except claims that only ignored pods use."""
        ids: set[DeviceId] = set()
        for claim in self.claims:
            status = claim.get("status") or {}
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results")
            users = [
                (claim["metadata"].get("namespace", ""), consumer["name"])
                for consumer in status.get("reservedFor") or ()
            ]
            if users and all(user in ignored for user in users):
                continue
            ids |= {
                (result["driver"], result["pool"], result["device"])
                for result in results or ()
                if not result.get("adminAccess")
            }
        return ids

    @cached_property
    def _conditions(self) -> Mapping[str, Sequence[tuple[tuple[str, str] | None, Any]]]:
        by_class = {}
        for device_class in self.classes:
            texts = [
                (selector.get("cel") or {}).get("expression", "")
                for selector in (device_class.get("spec") or {}).get("selectors") or ()
            ]
            conditions = list(_parse_conditions(texts))
            if conditions and None not in conditions:
                by_class[device_class["metadata"]["name"]] = [
                    item for item in conditions if item is not None
                ]
        return by_class


def find_common_model(devices: Iterable[Device]) -> Mapping[str, str]:
    """Return `model` and `memory` of the devices; a value that differs is left out."""
    common: dict[str, str] = {}
    all_devices = list(devices)
    models = Counter(
        next((value for (_, name), value in device.values.items() if name == "productName"), None)
        for device in all_devices
    )
    memories = Counter(device.memory for device in all_devices)
    for name, values in (("model", models), ("memory", memories)):
        value = next(iter(values), None)
        if len(values) == 1 and isinstance(value, str):
            common[name] = value
    return common


def _read_device(device: Object, driver: str, pool: str) -> Device:
    basic = device.get("basic") or device  # v1beta1 has one level more
    values = {}
    for name, attribute in (basic.get("attributes") or {}).items():
        domain, _, attribute_name = name.rpartition("/")
        values[domain or driver, attribute_name] = next(iter(attribute.values()), None)
    memory = (basic.get("capacity") or {}).get("memory")
    amount = memory.get("value") if isinstance(memory, Mapping) else memory
    return Device((driver, pool, device["name"]), values, amount)


def _parse_conditions(texts: Iterable[str]) -> Iterator[tuple[tuple[str, str] | None, Any] | None]:
    """Yield the attribute (None for the driver) and value of each condition; None if unknown."""
    for text in texts:
        for part in text.split("&&"):
            condition = part.strip()
            if match := _DRIVER.fullmatch(condition):
                yield None, _parse_value(match)
            elif match := _ATTRIBUTE.fullmatch(condition):
                yield (match["domain"], match["name"]), _parse_value(match)
            else:
                yield None


def _parse_value(match: re.Match[str]) -> Any:
    if match["word"] is None:
        return match["double"] if match["double"] is not None else match["single"]
    return match["word"] == "true" if match["word"].isalpha() else int(match["word"])


def _is_met(device: Device, conditions: Iterable[tuple[tuple[str, str] | None, Any]]) -> bool:
    return all(
        (device.key[0] if attribute is None else device.values.get(attribute)) == value
        for attribute, value in conditions
    )
