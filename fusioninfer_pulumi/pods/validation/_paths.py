"""Rules about paths inside of volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown

PATH_STEPS_BACK = Rule(
    "path-steps-back",
    "error",
    "A path in a volume holds no `..`.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
PATH_NOT_RELATIVE = Rule(
    "path-not-relative",
    "error",
    "A path in a volume is relative.",
    remedy="Remove the first `/`.",
    source="Kubernetes API validation",
)
PATH_RESERVED = Rule(
    "path-reserved",
    "error",
    "A path does not start with `..`.",
    remedy="Rename it.",
    source="Kubernetes API validation",
)


def no_backsteps(at: Location, value: Any) -> Iterator[Finding]:
    """A path without `..`."""
    if isinstance(value, str) and ".." in value.split("/"):
        yield error(PATH_STEPS_BACK, at, f"must not contain .., got {shown(value)}")


def descending(at: Location, value: Any) -> Iterator[Finding]:
    """A relative path without `..`."""
    if isinstance(value, str) and value.startswith("/"):
        yield error(PATH_NOT_RELATIVE, at, f"must be a relative path, got {shown(value)}")
    yield from no_backsteps(at, value)


def local_path(at: Location, value: Any) -> Iterator[Finding]:
    """A relative path that does not start with `..`, which the kubelet uses itself."""
    yield from descending(at, value)
    if isinstance(value, str) and value.startswith("..") and ".." not in value.split("/"):
        yield error(PATH_RESERVED, at, f"must not start with .., got {shown(value)}")
