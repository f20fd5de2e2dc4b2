"""Reads where a model comes from: `hf://`, `pvc://`, `s3://`, `oci://`."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The forms, for messages.
FORMS = "hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], s3://BUCKET/KEY or oci://IMAGE"

_REPO = re.compile(r"([\w.-]+/[\w.-]+?)(?:[@:]([\w./-]+))?", re.ASCII)
_CLAIM = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?:/(.*))?")
_BUCKET = re.compile(r"([a-z0-9][a-z0-9.-]*)/(\S+)")
_IMAGE = re.compile(r"[\w][\w./:@-]*", re.ASCII)


@dataclass(frozen=True)
class ModelSource:
    """A source that was read.

    Attributes:
        scheme: `hf`, `pvc`, `s3` or `oci`.
        place: The repository, claim, bucket with its key, or image.
        path: Path inside of the claim, without slashes at its ends; else empty.
        revision: Revision of the repository, None for its main branch.
    """

    scheme: str
    place: str
    path: str = ""
    revision: str | None = None

    @property
    def fetched(self) -> str:
        """The source in the words of KServe's storage-initializer."""
        revision = f":{self.revision}" if self.revision else ""
        return f"{self.scheme}://{self.place}{revision}"


def read_source(uri: str) -> ModelSource | None:
    """Reads a source; None when it has none of the forms.

    A revision of a repository stands behind `@`, or `:` as in KServe's documents.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark or any(character.isspace() for character in rest):
        return None
    if scheme == "hf":
        match = _REPO.fullmatch(rest)
        return ModelSource("hf", match[1], revision=match[2]) if match else None
    if scheme == "pvc":
        match = _CLAIM.fullmatch(rest)
        path = (match[3] or "").strip("/") if match else ""
        # A subPath may neither leave its volume nor hold what the kubelet would expand.
        if match is None or ".." in path.split("/"):
            return None
        return ModelSource("pvc", match[1], path)
    if scheme == "s3":
        match = _BUCKET.fullmatch(rest)
        return ModelSource("s3", rest) if match else None
    if scheme == "oci":
        return ModelSource("oci", rest) if _IMAGE.fullmatch(rest) else None
    return None
