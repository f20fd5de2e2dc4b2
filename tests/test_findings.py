"""Manifests have the findings that `findings/*/*.yaml` lists: see `finding_tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from finding_tables import cases, dump, named_tests, rewrite, tables
from yaml_files import read

TESTS = dict(test for table in tables() for test in named_tests(table))


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_manifests_have_the_findings_of_their_rows(test: dict[str, Any]) -> None:
    result = list(cases(test))
    assert {case.name: case.findings() for case in result} == {
        case.name: case.expected for case in result
    }


@pytest.mark.parametrize("table", tables(), ids=lambda path: path.stem)
def test_tables_are_normalized(table: Path, regenerate: bool) -> None:
    if regenerate:
        rewrite(table)
    assert table.read_text(encoding="utf-8") == dump(read(table))
