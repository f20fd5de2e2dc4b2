"""The manifests of `docs/operations.md` are accepted without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from samples import problems, rendered, warnings

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
MANIFESTS = re.findall(
    r"^```yaml title=[^\n]*\n(apiVersion.*?)^```", TEXT, re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("text", MANIFESTS)
def test_documented_manifest_is_accepted(text: str) -> None:
    manifest = yaml.safe_load(text)
    assert problems(manifest) == []
    assert warnings(manifest) == []
    assert rendered(manifest)
