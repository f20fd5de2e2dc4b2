"""The page of accuracy follows the recorded startups and throughputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fusioninfer_capacity import size_text

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import capacity_accuracy  # noqa: E402  # found by the line above


def test_accuracy_page_is_current() -> None:
    assert capacity_accuracy.TARGET.read_text(encoding="utf-8") == capacity_accuracy.text()


def test_size_reports_accuracy_of_throughputs() -> None:
    rows = json.loads(capacity_accuracy.THROUGHPUT.read_text(encoding="utf-8"))
    errors = [row["estimated"] / row["measured"] - 1 for row in rows]
    assert len(errors) >= 10
    assert size_text._ACCURACY.startswith(f"{len(errors)} published")
    assert f"{-min(errors):.0%} too low".replace("%", " %") in size_text._ACCURACY
    assert f"{max(errors):.0%} too high".replace("%", " %") in size_text._ACCURACY
