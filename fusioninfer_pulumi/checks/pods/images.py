"""Image references that no registry has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusioninfer_pulumi.api.rules import INVALID_IMAGE
from fusioninfer_pulumi.findings import Finding, Location, error, shown
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
#: The grammar of references (distribution/reference).
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,})?"
)


def image_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Rejects references that no kubelet can pull."""
    for pod in pods.written:
        for field in ("containers", "initContainers"):
            for index, container in enumerate(pod.written["spec"].get(field) or ()):
                at = (*pod.path, "spec", field, index, "image")
                image = container.get("image")
                # `checks/pods/containers.py` refuses blanks.
                if isinstance(image, str) and image and not re.search(r"\s", image):
                    yield from _reference(at, image)


def _reference(at: Location, image: str) -> Iterator[Finding]:
    if _REFERENCE.fullmatch(image):
        return
    message = "must be REPOSITORY:TAG in lower case, without https://"
    yield error(INVALID_IMAGE, at, f"{message}, got {shown(image)}")
