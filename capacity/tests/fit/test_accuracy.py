"""The page of accuracy follows the recorded start-ups."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import capacity_accuracy  # noqa: E402  # found by the line above


def test_the_page_is_that_of_the_logs() -> None:
    assert capacity_accuracy.TARGET.read_text(encoding="utf-8") == capacity_accuracy.text()
