"""docs/systems.md: every row of every system's tables names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"`(test_\w+)`")
DEFINED = re.compile(r"^def (test_\w+)", re.MULTILINE)


def rows() -> list[list[str]]:
    """Cells of the rows of all tables of features."""
    found: list[list[str]] = []
    inside = False
    for line in (ROOT / "docs" / "systems.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == "Feature":
            assert cells[-1] == "Evidence", line
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            found.append(cells)
    return found


def test_every_row_names_tests_that_there_are() -> None:
    defined = {
        name
        for folder in ("tests", "e2e", "importers/tests")
        for path in (ROOT / folder).rglob("test_*.py")
        for name in DEFINED.findall(path.read_text(encoding="utf-8"))
    }
    listed = rows()
    assert len(listed) > 80
    wrong = {
        " | ".join(cells[:2]): sorted(set(NAME.findall(cells[-1])) - defined) or "no test"
        for cells in listed
        if len(cells) != 5 or not NAME.findall(cells[-1]) or set(NAME.findall(cells[-1])) - defined
    }
    assert wrong == {}
