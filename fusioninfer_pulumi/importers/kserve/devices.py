"""KServe's annotations for dynamic resource allocation as claims of each role."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.kserve.presets import MAIN

#: pkg/controller/v1alpha2/llmisvc/managed_dra.go of KServe's sources, as are the names below.
PREFIX = "serving.kserve.io/exp-dra-"
CLAIM = "managed-device"


def carry_devices(carrier: Carrier) -> None:
    """Gives every role that serves the claim that the annotations describe.

    Args:
        carrier: The service, with all of its roles.
    """
    annotations = carrier.main.metadata.get("annotations") or {}
    given = {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
    if not given:
        return

    def at(name: str) -> At:
        return carrier.main.at("metadata", "annotations", f"{PREFIX}{name}")

    device_class = given.pop(f"{PREFIX}device-class", None)
    if device_class is None:
        for key in given:
            place = carrier.main.at("metadata", "annotations", key)
            carrier.book.refuse(place, f"says nothing without {PREFIX}device-class")
        return
    claim: dict[str, tuple[Any, At]] = {"deviceClassName": (device_class, at("device-class"))}
    count = given.pop(f"{PREFIX}device-count", None)
    if count is not None and not str(count).isdecimal():
        carrier.book.refuse(at("device-count"), f"must be a number of devices, got {count}")
    elif count is not None:
        claim["count"] = (int(count), at("device-count"))
    selectors = given.pop(f"{PREFIX}cel-selector", None)
    if selectors is not None:
        lines = [line.strip() for line in str(selectors).splitlines() if line.strip()]
        claim["selectors"] = (lines, at("cel-selector"))
    container = given.pop(f"{PREFIX}container-name", None)
    if container not in (None, MAIN):
        carrier.book.lost(at("container-name"), "the container that serves gets the devices")
    for key in given:
        place = carrier.main.at("metadata", "annotations", key)
        carrier.book.lost(place, "claims have a class, a count and selectors")
    for index, role in enumerate(carrier.roles):
        if role["componentType"] == "router":
            continue
        target = ("spec", "roles", index, "resourceClaims", 0)
        carrier.imply((*target, "name"), CLAIM, at("device-class"))
        for field, (value, place) in claim.items():
            carrier.derive((*target, field), value, place)
