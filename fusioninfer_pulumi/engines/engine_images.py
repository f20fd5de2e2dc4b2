"""Reads container image references: which engine's image, which version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Version = tuple[int, ...]

_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?![0-9])")

# A release as the projects tag it: `v0.5.10.post1-cu129`. The suffixes name a platform.
_RELEASE = re.compile(
    r"v?(?P<release>[0-9]+\.[0-9]+\.[0-9]+(\.post[0-9]+)?)"
    r"(-(cu[0-9.]+|x86_64|aarch64|amd64|arm64|ubuntu[0-9.]+|rocm[0-9.]*|mi[0-9]+x?|cann[0-9.]+"
    r"|a[23]|910b|npu|xeon|xpu|gaudi|runtime|dev|srt|b200|gb200))*"
)

# The engine projects' images, by the end of the repository's path, so that mirrors match as well.
_STOCK = {"vllm/vllm-openai": "vllm", "lmsysorg/sglang": "sglang"}
# Their builds for processors and AMD. The release decides which arguments are known, and is
# compared between prefill and decode; no other default depends on it, so pods do not change.
_OTHER_BUILDS = ("vllm/vllm-openai-cpu", "vllm/vllm-openai-rocm")


@dataclass(frozen=True)
class Image:
    """A parsed image reference.

    Attributes:
        name: The reference, None for an Output.
        engine: `vllm` or `sglang` if the repository's name contains it, else None.
        stock: Whether it is the engine project's image, or a mirror of it.
        tag: The tag; `latest` when there is neither tag nor digest; None for a bare digest and
            for an unknown reference.
        version: The version in a stock image's tag (`v0.11.0` is (0, 11, 0)), else None.
        release: The release that the tag of a stock image, or of a build for processors or AMD,
            names and nothing else (`0.5.10.post1`), else None.
    """

    name: str | None = None
    engine: str | None = None
    stock: bool = False
    tag: str | None = None
    version: Version | None = None
    release: str | None = None

    @property
    def repository(self) -> str:
        """The reference without tag and digest, empty when it is unknown."""
        return _parts(self.name or "")[0]


def _parts(reference: str) -> tuple[str, str | None]:
    """Return the repository of a reference, and its tag."""
    path, slash, last = reference.partition("@")[0].rpartition("/")
    last, colon, tag = last.partition(":")  # a colon further left belongs to a registry's port
    return f"{path}{slash}{last}", tag if colon else None


def read_image(reference: Any) -> Image:
    """Parse an image reference; an Output yields an empty one."""
    if not isinstance(reference, str):
        return Image()
    repository, tag = _parts(reference)
    last = repository.rpartition("/")[2]
    stock = next((end for end in _STOCK if f"/{repository}".endswith(f"/{end}")), "")
    named = next((engine for engine in ("sglang", "vllm") if engine in last.lower()), None)
    match = _VERSION.match(tag or "") if stock else None
    released = stock or f"/{repository}".endswith(tuple(f"/{end}" for end in _OTHER_BUILDS))
    release = _RELEASE.fullmatch(tag or "") if released else None
    return Image(
        name=reference,
        engine=_STOCK.get(stock, named),
        stock=bool(stock),
        tag="latest" if tag is None and "@" not in reference else tag,
        version=(int(match[1]), int(match[2]), int(match[3])) if match else None,
        release=release["release"] if release else None,
    )


def version_text(version: Version) -> str:
    """Write a version as image tags do: `v0.11.0`."""
    return "v" + ".".join(str(part) for part in version)
