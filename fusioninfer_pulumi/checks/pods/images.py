"""Image references that no registry has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusioninfer_pulumi.api.rules import INVALID_IMAGE
from fusioninfer_pulumi.engines.arguments import argument_table, release_numbers
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

IMAGE_TAG_UNKNOWN = Rule(
    "image-tag-unknown",
    ("warning", "info"),
    "The tag of an engine's own image is one of its releases.",
    remedy="Use a release that exists.",
    source="the tags of vllm/vllm-openai and lmsysorg/sglang",
)

ENGINE_RELEASE_UNSUPPORTED = Rule(
    "engine-release-unsupported",
    "error",
    "The image has an engine release that is older than the oldest supported one.",
    remedy="Use a newer image.",
)

_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
#: The grammar of references (distribution/reference).
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,})?"
)


def image_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Refuses references that no kubelet can pull, and doubts tags that no release has."""
    for pod in pods.written:
        for field in ("containers", "initContainers"):
            for index, container in enumerate(pod.written["spec"].get(field) or ()):
                at = (*pod.path, "spec", field, index, "image")
                image = container.get("image")
                # `checks/pods/containers.py` refuses blanks.
                if isinstance(image, str) and image and not re.search(r"\s", image):
                    yield from _reference(at, image)
        yield from _tag((*pod.container_path, "image"), pod.own_command)


def _reference(at: Location, image: str) -> Iterator[Finding]:
    if _REFERENCE.fullmatch(image):
        return
    message = "must be REPOSITORY:TAG in lower case, without https://"
    yield error(INVALID_IMAGE, at, f"{message}, got {shown(image)}")


def _tag(at: Location, command: EngineCommand) -> Iterator[Finding]:
    engine, image = command.engine, command.image
    if engine is None or not image.stock or image.engine != engine.name:
        return
    tag, releases = image.tag or "", argument_table(engine.name).releases
    if re.match(r"\d+\.\d+\.\d+", tag):
        message = f"releases of {engine.title} are tagged v{tag}, and no image has the tag {tag}"
        yield warning(IMAGE_TAG_UNKNOWN, at, message)
        return
    release, oldest, newest = image.release, releases[0], releases[-1]
    if image.version is not None and image.version < release_numbers(oldest):
        message = (
            f"{engine.title} {tag} is older than v{oldest}, the oldest supported release; use a "
            "newer image"
        )
        yield error(ENGINE_RELEASE_UNSUPPORTED, at, message)
        return
    if release is None or release in releases:
        return
    numbers = release_numbers(release)
    patches = [known for known in releases if release_numbers(known)[:2] == numbers[:2]]
    if numbers > release_numbers(newest):
        message = f"{release} is newer than {newest}, the last release whose arguments are known"
        yield info(IMAGE_TAG_UNKNOWN, at, message)
    elif patches:
        message = f"{engine.title} has no release {release}; the last of these is {patches[-1]}"
        yield warning(IMAGE_TAG_UNKNOWN, at, message)
