"""Clusters whose parent process is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.inputs import ROOT

CHILD = """
import os, time
from e2e.harness import Cluster
with Cluster(()) as cluster:
    pids = [program.pid for program in cluster.programs.running.values()]
    print(cluster.directory, *pids, flush=True)
    {then}
"""


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("time.sleep(600)", signal.SIGKILL),
        ("time.sleep(600)", signal.SIGINT),
        ("os.abort()", None),
    ],
)
def test_killed_parent_leaves_no_programs(then: str, number: signal.Signals | None) -> None:
    command = [sys.executable, "-c", CHILD.format(then=then)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as output:
        directory, *pids = output.readline().split()
    assert len(pids) == 3
    if number is not None:
        child.send_signal(number)
    child.wait(timeout=30)
    if number is signal.SIGINT:
        assert not Path(directory).exists()
    else:
        # The kernel kills programs, but the folder remains.
        shutil.rmtree(directory)
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.1)


def is_alive(pid: str) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"
