"""Companion packages: discovery and installation commands."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

#: Where the packages come from until they are on PyPI.
ADDRESS = "git+https://github.com/fusioninfer/fusioninfer-pulumi"
#: Whether the packages are on PyPI; pages and messages show where to install them from.
ON_PYPI = False
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
    name = f"fusioninfer-{package or 'pulumi'}" + (f"[{extra}]" if extra else "")
    if ON_PYPI:
        return f'pip install "{name}"'
    address = f"{ADDRESS}#subdirectory={package}" if package else ADDRESS
    return f'pip install "{name} @ {address}"' if extra else f'pip install "{address}"'


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
