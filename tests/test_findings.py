"""Manifests have the findings that `findings/*/*.yaml` lists; see `finding_tables`."""

from __future__ import annotations

from pathlib import Path

import pytest
from finding_tables import cases, dump, rewrite, tables, topic
from yaml_files import read


@pytest.mark.parametrize("table", tables(), ids=topic)
def test_manifests_have_the_findings_of_their_rows(table: Path, regenerate: bool) -> None:
    if regenerate:
        rewrite(table)
    tests = read(table)
    assert table.read_text(encoding="utf-8") == dump(tests)
    rows = {(test["test"], case.name): case for test in tests for case in cases(test)}
    assert {name: case.findings() for name, case in rows.items()} == {
        name: case.expected for name, case in rows.items()
    }
