"""Which family an image belongs to.

The repository's last part and the tag decide, so that a mirror (`registry.example/mirror/epp`)
is recognised: upstream's three names are unambiguous, and a tag is a release. A digest, a
`latest`, a development build or any other name says nothing, and the user must state the family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusioninfer_pulumi.findings import shown
from fusioninfer_pulumi.pickers.family import PickerFamily, Version
from fusioninfer_pulumi.pickers.table import FAMILIES

#: Picker that the router document pins.
DEFAULT_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1"
#: Picker for `pd-disaggregation`, which no image of the inference extension supports.
DEFAULT_PD_IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"

_TAG = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


def family_of(image: str) -> PickerFamily | None:
    """The family of an image, None when its reference does not say it.

    Args:
        image: Image reference, `registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1`.
    """
    return _family(image, {row.image: row for row in FAMILIES.values()})


def family_of_sidecar(image: str) -> PickerFamily | None:
    """The family of a prefill/decode sidecar's image, None when its reference does not say it."""
    return _family(
        image, {row.sidecar_image: row for row in FAMILIES.values() if row.sidecar_image}
    )


def _family(image: str, images: Mapping[str, PickerFamily]) -> PickerFamily | None:
    name, version = _parts(image)
    if version is None:
        return None
    for newest, family in images.items():
        first, last = family.versions
        if _parts(newest)[0] == name and first <= version <= last:
            return family
    return None


def unknown_image(image: str) -> str:
    """Why an image has no family, and what to do, for a message.

    Args:
        image: Reference of which `family_of` knows nothing.
    """
    name, version = _parts(image)
    known = [each for each in FAMILIES.values() if _parts(each.image)[0] == name]
    why = "is no endpoint picker that is known by name"
    if name == "lwepp" or (name == "epp" and version is not None and version >= (1, 6, 0)):
        why = "is no endpoint picker with plugins (the last one of that project is v1.5.0)"
    elif known and version is None:
        why = "has no release tag, so its version is not known"
    elif known:
        ranges = ", ".join(f"{_dotted(a)} to {_dotted(b)}" for a, b in (k.versions for k in known))
        why = f"is not among the known versions ({ranges})"
    families = ", ".join(FAMILIES)
    return (
        f"{shown(image)} {why}; state endpointPicker.family, one of {families}, or use one of "
        f"{', '.join(each.image for each in FAMILIES.values())}"
    )


def _parts(image: str) -> tuple[str, Version | None]:
    """Last part of an image's repository, and the version in its tag."""
    path, _, digest = image.strip().partition("@")
    name, _, tag = path.rpartition("/")[2].partition(":")
    match = _TAG.fullmatch(tag)
    if match is None or (digest and not tag):
        return name, None
    major, minor, patch = (int(part) for part in match.groups())
    return name, (major, minor, patch)


def _dotted(version: Version) -> str:
    return "v" + ".".join(str(part) for part in version)
