"""Whatever ends the program that started a cluster, nothing of the cluster stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.engine.project import Project
from e2e.harness import Cluster

ROOT = Path(__file__).resolve().parents[1]

CHILD = """
import time
from e2e.harness import Cluster
with Cluster({components}) as cluster:
    pids = [program.pid for program in cluster.programs.running.values()]
    print(cluster.directory, *pids, flush=True)
    {then}
"""
WAIT = "time.sleep(600)"


def test_close_ends_all_programs_and_removes_all_files() -> None:
    with Cluster(components=()) as cluster:
        pids = [program.pid for program in cluster.programs.running.values()]
        directory = cluster.directory
        assert len(pids) == 3
        assert directory.is_dir()
    assert not any(_is_alive(pid) for pid in pids)
    assert not directory.exists()
    cluster.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_remains_when_the_parent_gets_a_signal(how: signal.Signals) -> None:
    child, directory, pids = _start_child(WAIT)
    child.send_signal(how)
    child.wait(timeout=30)
    _assert_gone(directory, pids)


def test_no_process_remains_when_the_parent_crashes() -> None:
    child, directory, pids = _start_child("import os; os.abort()")
    child.wait(timeout=30)
    _assert_gone(directory, pids)


def test_exited_program_is_reported_with_its_log() -> None:
    with Cluster(components=()) as cluster:
        cluster.programs.check()
        os.kill(cluster.programs.running["kube-controller-manager"].pid, signal.SIGKILL)
        cluster.programs.running["kube-controller-manager"].process.wait(timeout=10)
        with pytest.raises(Exception, match=r"(?s)kube-controller-manager exited with -9.*log"):
            cluster.programs.check()


def test_pulumi_command_that_times_out_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of the command line: its language host and provider would go on alone.
    program = tmp_path / "pulumi"
    program.write_text('#!/bin/sh\n[ "$1" != up ] || { sleep 600 & echo "child $!"; wait; }\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    stack = Project(tmp_path / "app", None, seconds=1.0)
    with pytest.raises(
        AssertionError, match=r"pulumi up .* took longer than 1 s:\nchild \d+"
    ) as told:
        stack.up()
    child = int(str(told.value).split()[-1])
    deadline = time.monotonic() + 10
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(child)


def _start_child(then: str) -> tuple[subprocess.Popen[str], Path, list[int]]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(components="()", then=then)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout as output:
        directory, *pids = output.readline().split()
    assert len(pids) == 3
    return child, Path(directory), [int(pid) for pid in pids]


def _assert_gone(directory: Path, pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not any(_is_alive(pid) for pid in pids) and not directory.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"alive: {[pid for pid in pids if _is_alive(pid)]}, files: {directory.exists()}")


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its new parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
