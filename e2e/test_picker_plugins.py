"""The tables of endpoint pickers are what the sources of their releases say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "picker_plugins.py"


def test_picker_tables_match_released_modules() -> None:
    # llm-d's sources are not on the module proxy: their tables are written from a checkout.
    command = [sys.executable, str(TOOL), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
