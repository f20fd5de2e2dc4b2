"""The schemas that are shipped are those of the pinned modules, one for each kind of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "fusioninfer_pulumi" / "generated" / "kubernetes"


def test_they_are_of_the_versions_that_the_end_to_end_tests_pin() -> None:
    """`e2e/test_schemas.py` compares the files themselves, which takes the modules."""
    told = json.loads((DATA / "versions.json").read_text(encoding="utf-8"))
    for module, version in told.items():
        required = re.compile(rf"^\s*(?:require )?{re.escape(module)} (\S+)", re.MULTILINE)
        pinned = {
            found[1]
            for file in (ROOT / "e2e" / "tools").glob("*/go.mod")
            for found in required.finditer(file.read_text(encoding="utf-8"))
        }
        assert version in pinned, f"{module} {version}: run python tools/schemas.py"
