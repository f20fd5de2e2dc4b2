"""Protocols and flags of the prefill/decode sidecar in each release.

Tested with v0.9.0 and v0.10.0 of llm-d-router, built from source: each accepts exactly these flags,
and starts with the generated ones for each of its protocols. It exits with status 2 on an unknown
flag, and with status 0 and a log line on an invalid value, so neither may be generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    FAMILIES,
    PICKER_FAMILY_UNKNOWN,
    EppFamily,
    Family,
    find_sidecar_image_family,
    split_image,
)
from fusioninfer_pulumi.engines.engine_images import format_version
from fusioninfer_pulumi.findings import Finding, error, show
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

#: Names by which a sidecar in a user's template is recognized: image repositories and containers of
#: llm-d up to v0.10, KServe, Modelplane and llm-d-modelservice.
KNOWN_IMAGES = frozenset(
    {
        "llm-d-routing-sidecar",
        "llm-d-router-disagg-sidecar",
        "llm-d-inference-scheduler-disagg-sidecar",
    }
)
KNOWN_NAMES = frozenset(
    {
        "routing-proxy",
        "routing-sidecar",
        "llm-d-routing-sidecar",
        "pd-sidecar",
        "disagg-sidecar",
    }
)

#: Path that answers 200 once the sidecar listens, even if the engine does not serve yet.
HEALTH_PATH = "/health"
#: User ID of its image (`Dockerfile.sidecar`, distroless nonroot).
USER = 65532

# Protocol by vLLM connector.
_PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "SharedStorageConnector": "shared-storage",
    "MooncakeConnector": "mooncake",
    "OffloadingConnector": "offloading",
}

# Flags that the library sets, with messages for users who set them.
OWNED_FLAGS = {
    "port": "follows from the pool's port; remove it",
    "vllm-port": "is set by kvTransfer.enginePort; remove it here",
    "model-server-port": "is set by kvTransfer.enginePort; remove it here",
    "kv-connector": "is set by kvTransfer.sidecar.connector; remove it here",
    "connector": "is set by kvTransfer.sidecar.connector; remove it here",
    "enable-ssrf-protection": "is set by kvTransfer.sidecar.ssrfProtection; remove it here",
    "inference-pool": "follows from the service's pool; remove it",
    "enable-tls": "follows from the engines' own arguments; remove it",
}


def choose_sidecar_family(
    image: Any, explicit: str | None, picker: EppFamily
) -> EppFamily | Finding:
    """Return the family of a sidecar, which has its flags, or an error for its family or image.

    The family is the one that the user names (`explicit`), else the image's, else the endpoint
    picker's. The image may be an Output, and is None by default.
    """
    if explicit is not None:
        able = [name for name, row in FAMILIES.items() if row.sidecar_repository is not None]
        if explicit not in able:
            message = f"must be one of {', '.join(able)}, got {show(explicit)}"
            return error(PICKER_FAMILY_UNKNOWN, ("family",), message)
        return FAMILIES[explicit]
    if image is None or is_output(image):
        return picker
    name, version = split_image(image)
    oldest = FAMILIES[Family.LLM_D_0_9].versions[0]
    if name == "llm-d-routing-sidecar" or (
        name == "llm-d-router-disagg-sidecar" and () < version < oldest
    ):
        needed = format_version(oldest)
        message = f"{show(image)} is too old; the oldest supported release is {needed}"
        return error(PICKER_FAMILY_UNKNOWN, ("image",), message)
    return find_sidecar_image_family(image) or picker


def find_protocol(names: Sequence[str]) -> str | None:
    """Return the protocol of the first connector that has one, None if none has."""
    return next((_PROTOCOLS[name] for name in names if name in _PROTOCOLS), None)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether a container is a prefill/decode sidecar, by its name or its image."""
    image = container.get("image")
    name = split_image(image)[0] if isinstance(image, str) else ""
    return container.get("name") in KNOWN_NAMES or name in KNOWN_IMAGES
