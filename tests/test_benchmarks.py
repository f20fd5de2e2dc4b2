"""The benchmarks run; their results are not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_benchmarks_run() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks", "--quick"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    lines = [line.split("  (")[0].split(maxsplit=3) for line in done.stdout.splitlines()]
    assert len(lines) == 7
    assert all(float(line[0]) > 0 for line in lines)
