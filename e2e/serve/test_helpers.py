"""Tests of this folder's helpers that need no pods."""

from __future__ import annotations

import re
import sys

import pytest

from e2e.inputs import ROOT
from e2e.serve.prerequisites import TOOLS, list_missing_prerequisites
from e2e.serve.sandbox import PRIVATE_PATHS, run

REASONS = list_missing_prerequisites()
WRITE_FILES = """\
from e2e.serve import sandbox
sandbox.prepare(["10.90.0.9"], [])
for folder in sandbox.PRIVATE_PATHS:
    (folder / "of-the-run").touch()
"""


def test_make_builds_required_components() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^SERVE_TOOLS := (.+)$", makefile, re.MULTILINE)
    assert sorted(line.split()) == sorted(TOOLS)


@pytest.mark.skipif(bool(REASONS), reason="; ".join(REASONS))
@pytest.mark.parametrize("code", [0, 3])
def test_sandbox_leaves_no_files(code: int) -> None:
    before = {folder for folder in PRIVATE_PATHS if folder.exists()}
    assert run([sys.executable, "-c", f"{WRITE_FILES}raise SystemExit({code})"]) == code
    assert not [folder for folder in PRIVATE_PATHS if (folder / "of-the-run").exists()]
    assert {folder for folder in PRIVATE_PATHS if folder.exists()} == before
