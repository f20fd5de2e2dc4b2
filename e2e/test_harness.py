"""Clusters and commands end, whatever ends their parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.engine.project import Project
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
    if number is not signal.SIGINT:
        # The kernel ends programs, and removes no files.
        shutil.rmtree(directory)
    assert_gone(Path(directory), [int(pid) for pid in pids])


def test_pulumi_command_that_times_out_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of the command line: its language host and provider would go on alone.
    program = tmp_path / "pulumi"
    program.write_text('#!/bin/sh\n[ "$1" != up ] || { sleep 600 & echo "child $!"; wait; }\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    stack = Project(tmp_path / "app", None, seconds=1.0)
    with pytest.raises(AssertionError, match=r"longer than 1 s:\nchild \d+") as problem:
        stack.up()
    assert_gone(tmp_path / "none", [int(str(problem.value).split()[-1])])


def assert_gone(directory: Path, pids: list[int]) -> None:
    """Demand that these processes end soon, and a folder with them."""

    def is_alive(pid: int) -> bool:
        """Whether it runs; a process that has ended may wait for its new parent."""
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return status.rsplit(")", 1)[1].split()[0] != "Z"

    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) or directory.exists():
        assert time.monotonic() < deadline, (pids, directory)
        time.sleep(0.1)
