"""Packages beside the core: their versions, and what they use of the core."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from package_code import FILES, PACKAGE, PLUGIN_FILES, PLUGINS, ROOT, imported

from fusioninfer_pulumi import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest depends on it

PROJECTS = {path.parent.name: path.parent / "pyproject.toml" for path in PLUGINS}


def project(path: Path) -> dict[str, object]:
    loaded: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return loaded


@pytest.mark.parametrize("name", PROJECTS)
def test_all_packages_have_one_version(name: str) -> None:
    core, beside = project(ROOT / "pyproject.toml"), project(PROJECTS[name])
    pin = f"fusioninfer-{name}=={__version__}"
    assert core["version"] == beside["version"] == __version__
    assert f"fusioninfer-pulumi=={__version__}" in beside["dependencies"]
    assert core["optional-dependencies"][name] == [pin]
    assert pin in core["optional-dependencies"]["all"]


def test_packages_beside_the_core_use_their_module_of_plugins_only() -> None:
    offenders = {}
    for path in PLUGIN_FILES:
        name = path.relative_to(ROOT).parts[0]
        own = f"fusioninfer_pulumi.plugins.{name}."
        others = {m for m in imported(path, "fusioninfer_pulumi") if not m.startswith(own)}
        if others:
            offenders[str(path.relative_to(ROOT))] = others
    assert offenders == {}


def test_the_core_imports_no_package_beside_it() -> None:
    names = tuple(f"fusioninfer_{path.parent.name}" for path in PLUGINS)
    # For type checkers alone.
    importing = {
        str(path.relative_to(PACKAGE)) for path in FILES for n in names if imported(path, n)
    }
    assert importing == {"capacity.py"}
