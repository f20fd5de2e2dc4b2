"""The table of gateways in `docs/routing.md` matches the code."""

from __future__ import annotations

from pathlib import Path

from fusioninfer_pulumi.routing.gateway_implementations import IMPLEMENTATIONS

TEXT = (Path(__file__).parents[2] / "docs" / "routing.md").read_text(encoding="utf-8")


def test_gateway_table_matches_implementations() -> None:
    section = TEXT.partition("## Gateways\n")[2].partition("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = {cells[0].split("`")[1]: cells for cells in table[1:]}
    assert list(rows) == list(IMPLEMENTATIONS)
    for name, known in IMPLEMENTATIONS.items():
        assert known.gateway_class in rows[name][1]
