"""Which family an image belongs to, and the images that are used by default.

The repository's last part and the tag decide, so that a mirror (`registry.example/mirror/epp`)
is recognised: upstream's three names are unambiguous, and a tag is a release. A digest, a
`latest`, a development build or any other name says nothing, and the user must state the family.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, Version, version_text
from fusioninfer_pulumi.findings import shown

#: Endpoint picker that the router document pins.
DEFAULT_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1"
#: Endpoint picker that holds requests while no pod has room for them, which that one cannot.
DEFAULT_HOLDING_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
#: Endpoint picker for `pd-disaggregation`, which no image of the inference extension supports.
DEFAULT_PD_IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"

_TAG = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


def family_of(image: str) -> EppFamily | None:
    """The family of an endpoint picker's image, None when its reference does not say it."""
    return _family(image, lambda family: family.repository)


def family_of_sidecar(image: str) -> EppFamily | None:
    """The family of a prefill/decode sidecar's image, None when its reference does not say it."""
    return _family(image, lambda family: family.sidecar_repository)


def _family(image: str, repository: Callable[[EppFamily], str | None]) -> EppFamily | None:
    name, version = _parts(image)
    if version is None:
        return None
    for family in FAMILIES.values():
        expected, (first, last) = repository(family), family.versions
        if expected is not None and _name(expected) == name and first <= version <= last:
            return family
    return None


def unknown_image(image: str) -> str:
    """Why `family_of` knows nothing of an image, and what to do, for a message."""
    name, version = _parts(image)
    known = [family for family in FAMILIES.values() if _name(family.repository) == name]
    why = "is no endpoint picker that is known by name"
    if name == "lwepp" or (name == "epp" and version is not None and version >= (1, 6, 0)):
        why = "is no endpoint picker with plugins (the last one of that project is v1.5.0)"
    elif known and version is None:
        why = "has no release tag, so its version is not known"
    elif known:
        ranges = ", ".join(" to ".join(map(version_text, family.versions)) for family in known)
        why = f"is not among the known versions ({ranges})"
    families = ", ".join(FAMILIES)
    return (
        f"{shown(image)} {why}; state endpointPicker.family, one of {families}, or use one of "
        f"{', '.join(family.image for family in FAMILIES.values())}"
    )


def _parts(image: str) -> tuple[str, Version | None]:
    """Last part of an image's repository, and the version in its tag."""
    path, _, digest = image.strip().partition("@")
    name, _, tag = _name(path).partition(":")
    match = _TAG.fullmatch(tag)
    if match is None or (digest and not tag):
        return name, None
    major, minor, patch = (int(part) for part in match.groups())
    return name, (major, minor, patch)


def _name(repository: str) -> str:
    return repository.rpartition("/")[2]
