"""Run commands in one process that can import the packages of a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_SCRIPT = """
import contextlib, io, json, sys
from fusioninfer_pulumi.cli.main import main
ran = []
for line in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(line.split())
    ran.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(ran))
"""


def run(folder: Path, *commands: str) -> list[tuple[int, str, str]]:
    """Return status, standard output and standard error of each command."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *commands],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.stderr == ""
    return [tuple(ran) for ran in json.loads(done.stdout)]
