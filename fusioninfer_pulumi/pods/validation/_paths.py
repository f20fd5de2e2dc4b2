"""Rules about paths inside of volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, error, shown


def no_backsteps(at: Location, value: Any) -> Iterator[Finding]:
    """A path without `..`."""
    if isinstance(value, str) and ".." in value.split("/"):
        yield error("path-steps-back", at, f"must not contain .., got {shown(value)}")


def descending(at: Location, value: Any) -> Iterator[Finding]:
    """A relative path without `..`."""
    if isinstance(value, str) and value.startswith("/"):
        yield error("path-not-relative", at, f"must be a relative path, got {shown(value)}")
    yield from no_backsteps(at, value)


def local_path(at: Location, value: Any) -> Iterator[Finding]:
    """A relative path that does not start with `..`, which the kubelet uses itself."""
    yield from descending(at, value)
    if isinstance(value, str) and value.startswith("..") and ".." not in value.split("/"):
        yield error("path-reserved", at, f"must not start with .., got {shown(value)}")
