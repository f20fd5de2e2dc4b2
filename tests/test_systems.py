"""docs/systems.md: the column of InferenceService names fields that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def rows() -> list[list[str]]:
    lines = (DOCS / "systems.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in cells if row[0] not in ("Field", "---")]


def test_fields_in_comparison_tables_exist() -> None:
    schema = json.loads((DOCS / "inference-service.schema.json").read_text(encoding="utf-8"))
    known = {
        name for definition in schema["$defs"].values() for name in definition.get("properties", {})
    }
    assert len(rows()) > 50
    named = {
        name
        for row in rows()
        for path in re.findall(r"`([a-z][\w.\[\]]*)", row[1])
        for name in re.findall(r"\w+", path.removesuffix(".rules"))  # of an HTTPRoute
    }
    assert named - known == set()
