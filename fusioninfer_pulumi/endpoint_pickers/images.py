"""Which family an image belongs to, and the images that are used by default.

The repository's last part and the tag decide, so that a mirror (`registry.example/mirror/epp`)
is recognized: upstream's names are unambiguous, and a tag is a release. For a digest, `latest`, a
development build or any other name, the user must set the family.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, Family, Version, version_text
from fusioninfer_pulumi.findings import shown

#: Endpoint picker that the router document pins.
DEFAULT_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1"
#: Endpoint picker that can hold requests while there is no pod, which that one cannot.
DEFAULT_HOLDING_IMAGE = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
#: Endpoint picker for `pd-disaggregation`, which no image of the inference extension supports.
DEFAULT_PD_IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"

#: Repositories of llm-d before v0.9.
_FORMER = frozenset({"llm-d-inference-scheduler", "llm-d-routing-sidecar"})

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


def explain_unknown_image(image: str) -> str:
    """Return why `family_of` does not recognize an endpoint picker's image, and the fix."""
    name, version = _parts(image)
    closest = FAMILIES[Family.GAIE_1_5 if name in ("epp", "lwepp") else Family.LLM_D_0_10]
    why = "is not an endpoint picker that is known by name"
    if name == "lwepp" or (name == "epp" and version is not None and version >= (1, 6, 0)):
        why = "has no plugins; the last endpoint picker of that project is v1.5.0"
    elif is_too_old(image):
        oldest = FAMILIES[Family.GAIE_1_2 if name == "epp" else Family.LLM_D_0_9]
        closest = oldest
        why = f"is too old; the oldest supported release is {version_text(oldest.versions[0])}"
    elif version is None and name in _SUPPORTED:
        why = "has no release tag, so its version is not known"
    elif name in _SUPPORTED:
        why = f"is not a supported release; the newest is {version_text(closest.versions[1])}"
    return (
        f"{shown(image)} {why}; use {closest.image}, or set endpointPicker.family "
        f"({', '.join(FAMILIES)}) for a build of your own"
    )


def is_too_old(image: str) -> bool:
    """Whether an image is a picker or sidecar of a release before the oldest supported one."""
    name, version = _parts(image)
    oldest = _SUPPORTED.get(name)
    return name in _FORMER or (oldest is not None and version is not None and version < oldest)


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


#: Oldest supported release by the last part of a repository.
_SUPPORTED = {
    _name(repository): family.versions[0]
    for family in reversed(FAMILIES.values())
    for repository in (family.repository, family.sidecar_repository)
    if repository is not None
}
