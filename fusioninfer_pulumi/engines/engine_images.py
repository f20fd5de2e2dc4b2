"""Parses container image references: the engine and its release."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

ReleaseNumber = tuple[int, ...]  # (0, 11, 0) for v0.11.0

_RELEASE_PREFIX = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?![0-9])")

# An image tag of the engine projects, `v0.5.10.post1-cu129`: a release and platform suffixes.
_RELEASE = re.compile(
    r"v?(?P<release>[0-9]+\.[0-9]+\.[0-9]+(\.post[0-9]+)?)"
    r"(-(cu[0-9.]+|x86_64|aarch64|amd64|arm64|ubuntu[0-9.]+|rocm[0-9.]*|mi[0-9]+x?|cann[0-9.]+"
    r"|a[23]|910b|npu|xeon|xpu|gaudi|runtime|dev|srt|b200|gb200))*"
)

# Images of the engine projects, by the end of the repository's path, so that mirrors match too.
_STOCK = {"vllm/vllm-openai": "vllm", "lmsysorg/sglang": "sglang"}
# vLLM's images for CPUs and AMD GPUs. Their `release` selects the argument table and is compared
# between prefill and decode. They have no `stock_release`, so defaults that depend on it do not
# apply.
_OTHER_BUILDS = ("vllm/vllm-openai-cpu", "vllm/vllm-openai-rocm")


class Image(NamedTuple):
    """A parsed image reference.

    Attributes:
        name: The reference, or None for an Output.
        engine: `vllm` or `sglang` if the repository's name contains it, otherwise None.
        is_stock: Whether it is one of `_STOCK`, or a mirror of it.
        tag: The tag; `latest` if there is neither tag nor digest; None for a digest without a tag
            and for an unknown reference.
        stock_release: The numbers at the start of a stock image's tag ((0, 11, 0) for `v0.11.0`),
            or None for other tags and images.
        release: The release (`0.5.10.post1`) of a stock image or an image for CPUs or AMD GPUs if
            its tag has only that and platform suffixes, otherwise None.
    """

    name: str | None = None
    engine: str | None = None
    is_stock: bool = False
    tag: str | None = None
    stock_release: ReleaseNumber | None = None
    release: str | None = None

    @property
    def repository(self) -> str:
        """The reference without tag and digest; empty for an Output."""
        return _split_reference(self.name or "")[0]


def _split_reference(reference: str) -> tuple[str, str | None]:
    path, slash, last = reference.partition("@")[0].rpartition("/")
    last, colon, tag = last.partition(":")  # an earlier colon precedes the registry's port
    return f"{path}{slash}{last}", tag if colon else None


def parse_image(reference: Any) -> Image:
    """Parse an image reference; an Output yields an empty `Image`."""
    if not isinstance(reference, str):
        return Image()
    repository, tag = _split_reference(reference)
    last = repository.rpartition("/")[2]
    stock_name = next((end for end in _STOCK if f"/{repository}".endswith(f"/{end}")), "")
    engine_in_name = next((engine for engine in ("sglang", "vllm") if engine in last.lower()), None)
    match = _RELEASE_PREFIX.match(tag or "") if stock_name else None
    ends = tuple(f"/{end}" for end in (*_STOCK, *_OTHER_BUILDS))
    has_release_tags = f"/{repository}".endswith(ends)
    release = _RELEASE.fullmatch(tag or "") if has_release_tags else None
    return Image(
        name=reference,
        engine=_STOCK.get(stock_name, engine_in_name),
        is_stock=bool(stock_name),
        tag="latest" if tag is None and "@" not in reference else tag,
        stock_release=(int(match[1]), int(match[2]), int(match[3])) if match else None,
        release=release["release"] if release else None,
    )


def format_release(release: ReleaseNumber) -> str:
    """Return a release as in image tags: `v0.11.0`."""
    return "v" + ".".join(str(part) for part in release)
