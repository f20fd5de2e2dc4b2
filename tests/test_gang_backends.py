"""Cells of the table of gang backends name tests, which exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gang-backends.md"
TEST = re.compile(r"`((?:e2e|tests)/[\w/]+\.py): (test_\w+)`")


def test_every_cell_names_tests_that_exist() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## What each can do")[1].split("\n\n")[1]
    cells = [cell for line in table.splitlines()[2:] for cell in line.split(" | ")[1:]]
    assert len(cells) == 27
    for cell in cells:
        tests = TEST.findall(cell)
        assert tests, cell
        for file, name in tests:
            code = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name}(" in code, f"{file} has no {name}"
