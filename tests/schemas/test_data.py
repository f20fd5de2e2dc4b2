"""The packaged schemas are those of the pinned modules, one for each rendered kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "fusioninfer_pulumi" / "generated" / "kubernetes"


def test_schemas_are_of_the_pinned_versions() -> None:
    """`e2e/test_schemas.py` compares the files with the modules, which it downloads."""
    expected = json.loads((DATA / "versions.json").read_text(encoding="utf-8"))
    for module, version in expected.items():
        required = re.compile(rf"^\s*(?:require )?{re.escape(module)} (\S+)", re.MULTILINE)
        pinned = {
            match[1]
            for file in (ROOT / "e2e" / "tools").glob("*/go.mod")
            for match in required.finditer(file.read_text(encoding="utf-8"))
        }
        assert version in pinned, f"{module} {version}: run python tools/schemas.py"
