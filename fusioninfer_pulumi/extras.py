"""Companion packages: discovery and installation commands."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

#: Repository that pip installs the packages from until they are on PyPI.
ADDRESS = "git+https://github.com/fusioninfer/fusioninfer-pulumi"
#: Whether the packages are on PyPI; install commands in pages and messages depend on it.
ON_PYPI = False
#: Entry point groups by which companion packages are found.
ENTRY_POINT_GROUPS = ("fusioninfer.importers", "fusioninfer.capacity")
#: API groups that fusioninfer-importers converts, to suggest the package if it is missing.
IMPORTED_API_GROUPS = (
    "modelplane.ai",
    "networking.serving.volcano.sh",
    "serving.kserve.io",
    "workload.serving.volcano.sh",
)


class PluginError(ImportError):
    """A companion package cannot be loaded."""


def install_command(package: str = "", extra: str = "") -> str:
    """Return the pip command for the core (empty `package`), `importers` or `capacity`."""
    name = f"fusioninfer-{package}" if package else "fusioninfer-pulumi"
    name += f"[{extra}]" if extra else ""
    if ON_PYPI:
        return f'pip install "{name}"'
    address = f"{ADDRESS}#subdirectory={package}" if package else ADDRESS
    return f'pip install "{name} @ {address}"' if extra else f'pip install "{address}"'


def load_plugins(group: str) -> Iterator[Any]:
    """Load the entry points of a group, sorted by name.

    Raises:
        PluginError: A package cannot be loaded; the message names it.
    """
    for entry_point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            plugin = entry_point.load()
        except Exception as exc:
            message = f"plugin {entry_point.value} ({group}) cannot be loaded: {exc!r}"
            raise PluginError(message) from exc
        yield plugin


def list_plugin_packages() -> list[str]:
    """Return the import names of the installed companion packages, sorted."""
    modules = {point.module for group in ENTRY_POINT_GROUPS for point in entry_points(group=group)}
    return sorted({module.partition(".")[0] for module in modules})
