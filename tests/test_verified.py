"""What the end-to-end tests of the Pulumi engine claim in docs/verified.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ENGINE = Path(__file__).parent.parent / "e2e" / "engine"


@pytest.mark.parametrize("path", sorted(ENGINE.glob("test_*.py")), ids=lambda path: path.stem)
def test_engine_claims_name_required_programs(path: Path) -> None:
    calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
    claims = [call for call in calls if ast.unparse(call.func) == "pytest.mark.proves"]
    assert claims
    for claim in claims:
        assert [word.arg for word in claim.keywords] == ["needs"], ast.unparse(claim)
