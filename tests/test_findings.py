"""Manifests have the findings that `findings/*/*.yaml` lists: see `finding_tables`."""

from __future__ import annotations

from pathlib import Path

import pytest
from finding_tables import Case, cases, dump, rewrite, tables
from yaml_files import read

CASES = [case for table in tables() for case in cases(table)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_manifest_has_the_findings_of_its_row(case: Case) -> None:
    assert case.findings() == case.expected


@pytest.mark.parametrize("table", tables(), ids=lambda path: path.stem)
def test_tables_are_as_they_are_written(table: Path, regenerate: bool) -> None:
    if regenerate:
        rewrite(table)
    assert table.read_text(encoding="utf-8") == dump(read(table))
