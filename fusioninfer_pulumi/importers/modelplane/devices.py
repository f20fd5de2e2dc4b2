"""Requests for devices as claims of a role.

Modelplane takes the DeviceClass from the InferenceClass of the pool that it places a replica on.
Without one, the driver that the expressions name stands for it: drivers bring a class of that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Path
from fusioninfer_pulumi.importers.modelplane.models import Device, NodeSelector

#: `device.driver == "X"`, `device.attributes["X"]`, `device.capacity["X"]`, in either quotes.
_DRIVER = re.compile(
    r"""device\.(?:driver\s*==\s*|attributes\[|capacity\[)\s*["']([a-z0-9.-]+)["']"""
)


def carry_devices(
    carrier: Carrier, role: Path, members: Sequence[tuple[NodeSelector | None, At]]
) -> None:
    """Carries the devices of a role's pods over.

    Args:
        carrier: The service.
        role: Path of the role.
        members: What each kind of its pods asks for, and where that stands.
    """
    asked = [(selector, at) for selector, at in members if selector is not None]
    if not asked:
        return
    first, place = asked[0]
    if any(selector != first for selector, _ in members):
        for _, at in asked:
            carrier.book.lost(
                at, "the claims of a role are those of all of its pods, and its members differ"
            )
        return
    for index, device in enumerate(first.devices):
        _claim(carrier, (*role, "resourceClaims"), device, place / "devices" / index)
    # The others say the same.
    carrier.book.read(*(at for _, at in asked[1:]))


def _claim(carrier: Carrier, claims: Path, device: Device, at: At) -> None:
    expressions = [selector.cel for selector in device.selectors]
    drivers = sorted({driver for each in expressions for driver in _DRIVER.findall(each)})
    if len(drivers) != 1:
        carrier.book.lost(
            at,
            "its expressions must name one driver, which stands for the DeviceClass, got "
            f'{" and ".join(drivers) or "none"}; add device.driver == "NAME"',
        )
        return
    target = (*claims, len(carrier.held(claims) or ()))
    carrier.put((*target, "name"), device.name, at / "name")
    carrier.origin(target, at)
    carrier.derive((*target, "deviceClassName"), drivers[0], at / "selectors")
    carrier.book.note(
        at / "selectors",
        f"DeviceClass {drivers[0]}, by the driver in the expressions, takes the place of the "
        "InferenceClass's",
    )
    carrier.put((*target, "count"), device.count, at / "count")
    carrier.derive((*target, "selectors"), expressions, at / "selectors")
    for number, _ in enumerate(expressions):
        cel = at / "selectors" / number / "cel"
        carrier.origin((*target, "selectors", number), cel, whole=True)
