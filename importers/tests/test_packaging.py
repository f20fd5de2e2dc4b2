"""The package beside the core: what it imports, and what the core says without it."""

from __future__ import annotations

from pathlib import Path

from package_code import PLUGIN_FILES, imported

import fusioninfer_importers
from fusioninfer_importers import table
from fusioninfer_pulumi.extras import IMPORTED_GROUPS
from fusioninfer_pulumi.loading.importer import importers

PACKAGE = Path(fusioninfer_importers.__file__).parent
FILES = [path for path in PLUGIN_FILES if PACKAGE in path.parents]
SYSTEMS = {path.name for path in PACKAGE.iterdir() if (path / "convert.py").is_file()}


def test_importers_do_not_import_each_other() -> None:
    assert {"kserve", "kthena", "modelplane"} == SYSTEMS
    offenders = {}
    for path in FILES:
        system, *inside = path.relative_to(PACKAGE).parts
        modules = {module.split(".")[1] for module in imported(path, "fusioninfer_importers.")}
        if inside and (others := modules & (SYSTEMS - {system})):
            offenders[str(path)] = others
    assert offenders == {}


def test_the_entry_points_are_the_table() -> None:
    assert importers() == (table.KSERVE, table.KTHENA, table.MODELPLANE)


def test_the_core_knows_the_groups_of_a_missing_package() -> None:
    groups = {group for importer in importers() for group in importer.groups}
    assert sorted(groups) == list(IMPORTED_GROUPS)
