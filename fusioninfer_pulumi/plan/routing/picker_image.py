"""Which endpoint picker runs: its image, and the family that it belongs to.

Asked by the router, whose picker it is, and by prefill and decode roles, which are wired for it.
"""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi import pickers
from fusioninfer_pulumi.findings import Finding, error, shown, warning
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.pickers import FAMILIES, PickerFamily
from fusioninfer_pulumi.plan.routing.group_pairing import Intent
from fusioninfer_pulumi.spec.role import Strategy
from fusioninfer_pulumi.spec.router import EndpointPickerArgs


def picker_image(
    at: str, given: EndpointPickerArgs, intent: Intent
) -> tuple[Any, PickerFamily | None, list[Finding]]:
    """Decides which picker runs.

    Args:
        at: Path of the router's `endpointPicker`.
        given: What the user says of it.
        intent: What it is for.

    Returns:
        The image, which may be an Output; its family, None where it is not known; what is to be
        said.
    """
    stated = None
    if given.family is not None:
        stated = FAMILIES.get(given.family)
        if stated is None:
            message = f"must be one of {', '.join(FAMILIES)}, got {shown(given.family)}"
            return given.image, None, [error(f"{at}.family", message)]
    image = given.image
    if image is None:
        pd = intent.strategy is Strategy.PD_DISAGGREGATION
        default = pickers.DEFAULT_PD_IMAGE if pd else pickers.DEFAULT_IMAGE
        image = stated.image if stated is not None else default
    if is_output(image):
        if stated is None:
            message = f"is required beside an image that is an Output: {', '.join(FAMILIES)}"
            return image, None, [error(f"{at}.family", message)]
        return image, stated, []
    known = pickers.family_of(image)
    if known is None and stated is None:
        return image, None, [error(f"{at}.image", pickers.unknown_image(image))]
    if known is not None and stated is not None and known is not stated:
        message = f"is {stated.name}, but {image} looks like {known.name}; remove one of them"
        return image, stated, [warning(f"{at}.family", message)]
    return image, stated or known, []
