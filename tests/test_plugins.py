"""Companion packages: their versions and imports, and a third-party importer."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from in_one_process import run
from package_code import FILES, PACKAGE, PLUGIN_FILES, PLUGINS, ROOT, imported
from page_blocks import blocks

from fusioninfer_pulumi import __version__, extras, load
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.extras import install_command
from fusioninfer_pulumi.loading.importer import importers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest depends on it

KTHENA_MANIFEST = ROOT / "importers" / "tests" / "kthena_manifest.yaml"
PROJECTS = {path.parent.name: path.parent / "pyproject.toml" for path in PLUGINS}


def project(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return loaded


@pytest.mark.parametrize("name", PROJECTS)
def test_packages_read_the_version_of_the_core(name: str) -> None:
    loaded = tomllib.loads(PROJECTS[name].read_text(encoding="utf-8"))
    path = PROJECTS[name].parent / loaded["tool"]["hatch"]["version"]["path"]
    assert path.resolve() == PACKAGE / "__init__.py"
    (core,) = (line for line in loaded["project"]["dependencies"] if "fusioninfer" in line)
    release = ".".join(__version__.split(".")[:2])  # the next minor version needs a new line
    assert core in (f"fusioninfer-pulumi~={release}.0.dev0", f"fusioninfer-pulumi~={release}.0")
    extras = project(ROOT / "pyproject.toml")["optional-dependencies"]
    assert extras[name] == [f"fusioninfer-{name}"]
    assert f"fusioninfer-{name}" in extras["all"]


def test_companion_packages_import_only_their_plugin_module() -> None:
    offenders = {}
    for path in PLUGIN_FILES:
        name = path.relative_to(ROOT).parts[0]
        fields = f"fusioninfer_pulumi.plugins.{name}."
        other_items = {m for m in imported(path, "fusioninfer_pulumi") if not m.startswith(fields)}
        if other_items:
            offenders[str(path.relative_to(ROOT))] = other_items
    assert offenders == {}


def test_core_imports_no_companion_package() -> None:
    names = tuple(f"fusioninfer_{path.parent.name}" for path in PLUGINS)
    # For type checkers alone.
    importing = {
        str(path.relative_to(PACKAGE)) for path in FILES for n in names if imported(path, n)
    }
    assert importing == {"capacity_package.py"}


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package of importers/example, as pip installs it."""
    folder = tmp_path_factory.mktemp("acme")
    shutil.copytree(ROOT / "importers" / "example", folder, dirs_exist_ok=True)
    settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    information = folder / f"acme_importer-{settings['version']}.dist-info"
    information.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {settings['name']}\nVersion: {settings['version']}\n"
    (information / "METADATA").write_text(metadata, encoding="utf-8")
    ((group, points),) = settings["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (information / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_importer_of_another_package_is_used(acme: Path) -> None:
    (shown,) = [
        block for block in blocks(ROOT / "docs" / "importers.md") if block.language == "text"
    ]
    text = (acme / "model.yaml").read_text(encoding="utf-8")
    (acme / "wrong.yaml").write_text(text.replace("replicas: 2", "replicas: -1"), encoding="utf-8")
    (acme / "lossy.yaml").write_text(text.replace("replicas", "copies"), encoding="utf-8")
    converted, rules, wrong, lossy, allowed = run(
        acme,
        "convert model.yaml",
        "rules acme-field",
        "check wrong.yaml",
        "check lossy.yaml",
        "check --allow-lossy lossy.yaml",
    )
    assert (converted[0], converted[2]) == (0, "")
    assert "kind: InferenceService" in converted[1]
    assert "replicas: 2" in converted[1]
    assert rules[0] == 0
    assert "Field of a LanguageModel has no counterpart." in rules[1]
    assert wrong[2] == shown.text.replace("model.yaml", "wrong.yaml")
    assert lossy[0] == 2
    assert lossy[2].startswith("lossy.yaml:4: copies: cannot be carried over; supported: ")
    assert allowed[0] == 0


def test_inference_service_loads_no_importer() -> None:
    importers.cache_clear()
    assert load(ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml")
    assert importers.cache_info().misses == 0


INSTALLED = re.compile(r"""pip install (?:--upgrade )?['"]?[^\n`]*fusioninfer[^\n`]*""")


def test_install_commands_of_pages_are_current() -> None:
    projects = {"": ROOT / "pyproject.toml", **PROJECTS}
    known = {
        install_command(package, extra)
        for package, path in projects.items()
        for extra in ("", *project(path).get("optional-dependencies", {}))
    }
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    lines = {
        (page.name, line)
        for page in pages
        for line in INSTALLED.findall(page.read_text(encoding="utf-8"))
    }
    assert lines
    assert {line for line in lines if line[1].replace(" --upgrade", "") not in known} == set()
    template = (ROOT / "templates" / "python" / "requirements.txt").read_text(encoding="utf-8")
    assert install_command().split('"')[1] in template


def test_broken_plugin_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("x", "acme_missing.importer", "fusioninfer.importers")
    monkeypatch.setattr(extras, "entry_points", lambda **_: [broken])
    importers.cache_clear()
    try:
        assert main(["check", str(KTHENA_MANIFEST)]) == 2
    finally:
        importers.cache_clear()
    assert "plugin acme_missing.importer (fusioninfer.importers) cannot" in capsys.readouterr().err
