"""Devices that the pods of a role claim, as far as they can be counted before pods exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs
from fusioninfer_pulumi.pods.device_claims import claim_requests, claim_template
from fusioninfer_pulumi.topology.role import RolePlan

_EXACT = "ExactCount"


@dataclass(frozen=True)
class Claimed:
    """What each pod of a role claims.

    Attributes:
        devices: Devices of classes that the inventory knows.
        classes: These classes.
        uncounted: What else is claimed, and why it is not counted; one text each.
        selectors: Whether CEL expressions say more about the devices.
    """

    devices: int = 0
    classes: frozenset[str] = frozenset()
    uncounted: tuple[str, ...] = ()
    selectors: bool = False


def claimed(service: str, role: RolePlan, known: Collection[str]) -> Claimed:
    """Counts the devices that each pod of a role claims.

    Args:
        service: Name of the service.
        role: The role.
        known: DeviceClasses of the inventory.
    """
    devices, classes, uncounted, selectors = 0, set(), [], False
    claims = role.args.resource_claims or ()
    for claim in claims:
        if not claim.made:
            uncounted.append(f"{claim.name}: what it asks for stands in an object of the cluster")
        for request in _requests(service, role.name, claim):
            exactly = request.get("exactly")
            if not isinstance(exactly, Mapping):
                uncounted.append(f"{claim.name}: has alternatives")
                continue
            name, mode = exactly.get("deviceClassName"), exactly.get("allocationMode", _EXACT)
            count = exactly.get("count", 1)
            if exactly.get("adminAccess"):
                continue  # shares devices with those who hold them
            if name not in known:
                uncounted.append(f"{claim.name}: no pool names DeviceClass {name}")
            elif mode != _EXACT or not isinstance(count, int) or isinstance(count, bool):
                uncounted.append(f"{claim.name}: asks for {mode} devices, not for a number")
            else:
                devices += count
                classes.add(str(name))
                selectors = selectors or bool(exactly.get("selectors"))
    ours = {claim.name for claim in claims}
    uncounted += [
        f"{name}: is a claim of the pod template's own"
        for name in dict.fromkeys(_own(role))
        if name not in ours
    ]
    return Claimed(devices, frozenset(classes), tuple(uncounted), selectors)


def _requests(service: str, role: str, claim: ResourceClaimArgs) -> list[Mapping[str, Any]]:
    return claim_requests(claim_template(service, role, claim).spec) if claim.made else []


def _own(role: RolePlan) -> Iterator[str]:
    templates = [role.leader_template, *([role.worker_template] if role.nodes > 1 else [])]
    for template in templates:
        for each in (template.get("spec") or {}).get("resourceClaims") or ():
            yield str(each.get("name"))
