"""Companion packages: discovery and installation commands."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

#: Where the packages come from. They are not on a package index yet.
ADDRESS = "git+https://github.com/fusioninfer/fusioninfer-pulumi"
#: Groups of entry points.
GROUPS = ("fusioninfer.importers", "fusioninfer.capacity")
#: API groups that the package `importers` converts, for the message about a missing package.
IMPORTED_GROUPS = (
    "modelplane.ai",
    "networking.serving.volcano.sh",
    "serving.kserve.io",
    "workload.serving.volcano.sh",
)


class PluginError(ImportError):
    """A companion package cannot be loaded."""


def install_command(package: str = "", extra: str = "") -> str:
    """Return the command that installs the core or a companion package."""
    address = f"{ADDRESS}#subdirectory={package}" if package else ADDRESS
    name = f"fusioninfer-{package or 'pulumi'}[{extra}] @ " if extra else ""
    return f'pip install "{name}{address}"'


def plugins(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of each entry point of a group, sorted by name.

    Raises:
        PluginError: A package is broken; the message names it.
    """
    for entry_point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            plugin = entry_point.load()
        except Exception as problem:
            message = f"plug-in {entry_point.value} ({group}) cannot be loaded: {problem!r}"
            raise PluginError(message) from problem
        yield entry_point.name, plugin


def plugin_packages() -> list[str]:
    """Return the installed companion packages, sorted by name."""
    modules = {point.module for group in GROUPS for point in entry_points(group=group)}
    return sorted({module.partition(".")[0] for module in modules})
