"""Cells of tables about layouts and releases name tests, which exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("page", "head", "file", "columns"),
    [
        ("rollout.md", "## DisaggregatedSet", "e2e/test_disaggregated_set.py", slice(1, 2)),
        (
            "reference/compatibility.md",
            "## Older LeaderWorkerSets",
            "e2e/test_lws_releases.py",
            slice(1, 3),
        ),
    ],
)
def test_cells_name_tests_of_a_file(page: str, head: str, file: str, columns: slice) -> None:
    section = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"{head}\n")[1]
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| ")]
    code = (ROOT / file).read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in lines[1:]]
    assert len(rows) >= 5
    for cell in (cell for row in rows for cell in row[columns]):
        names = re.findall(r"`(test_\w+)`", cell)
        assert names, cell
        for name in names:
            assert f"def {name}(" in code, f"{file} has no {name}"
