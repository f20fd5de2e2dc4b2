"""Imports of the importers package, and what the core reports if it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from package_code import PLUGIN_FILES, imported

import fusioninfer_importers
from fusioninfer_importers import table
from fusioninfer_pulumi import InvalidServiceError, load
from fusioninfer_pulumi.extras import IMPORTED_API_GROUPS
from fusioninfer_pulumi.loading import importer
from fusioninfer_pulumi.loading.importer import importers
from fusioninfer_pulumi.rules.catalog import load_rules

PACKAGE = Path(fusioninfer_importers.__file__).parent
FILES = [path for path in PLUGIN_FILES if PACKAGE in path.parents]
SYSTEMS = {path.name for path in PACKAGE.iterdir() if (path / "convert.py").is_file()}


def test_importers_do_not_import_each_other() -> None:
    assert {"kserve", "kthena", "modelplane"} == SYSTEMS
    offenders = {}
    for path in FILES:
        system, *inside = path.relative_to(PACKAGE).parts
        modules = {module.split(".")[1] for module in imported(path, "fusioninfer_importers.")}
        if inside and (other_items := modules & (SYSTEMS - {system})):
            offenders[str(path)] = other_items
    assert offenders == {}


def test_entry_points_match_importer_table() -> None:
    assert importers() == (table.KSERVE, table.KTHENA, table.MODELPLANE)


def test_advice_refers_to_existing_rules() -> None:
    missing = {system.name: system.words.keys() - load_rules().keys() for system in importers()}
    assert missing == {"KServe": set(), "Kthena": set(), "Modelplane": set()}


def test_manifest_without_importers_package_names_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importer, "load_plugins", lambda _: iter(()))
    importers.cache_clear()
    source = Path(__file__).with_name("kthena_manifest.yaml")
    with pytest.raises(InvalidServiceError) as errors:
        load(source)
    (tmp_path / source.name).write_text(source.read_text("utf-8"), encoding="utf-8")
    with pytest.raises(InvalidServiceError) as in_directory:
        load(tmp_path)
    importers.cache_clear()
    assert str(errors.value) == str(in_directory.value).replace(f"{tmp_path}/", f"{source.parent}/")
    assert str(errors.value).endswith(
        'apiVersion: "workload.serving.volcano.sh/v1alpha1" needs an importer that is not '
        'installed; run pip install "git+https://github.com/fusioninfer/fusioninfer-pulumi'
        '#subdirectory=importers" [importer-missing]'
    )


def test_core_lists_api_groups_of_all_importers() -> None:
    groups = {group for system in importers() for group in system.groups}
    assert sorted(groups) == list(IMPORTED_API_GROUPS)
