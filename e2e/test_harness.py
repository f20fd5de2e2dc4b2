"""What the other end-to-end tests build on: fake nodes and pods, and clusters that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e import objects
from e2e.engine.project import Project
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.pods import is_ready
from e2e.harness.stages import BEHAVIOUR, CRASHING, FAILING, UNPULLABLE
from e2e.inputs import ROOT

CHILD = """
import os, time
from e2e.harness import Cluster
with Cluster(()) as cluster:
    pids = [program.pid for program in cluster.programs.running.values()]
    print(cluster.directory, *pids, flush=True)
    {then}
"""


def test_volcano_binds_whole_gangs(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    cluster.apply(objects.gang("gang", pods=2, gpus=8), namespace=namespace)
    cluster.settle()
    assert cluster.bound(namespace) == []
    cluster.add_nodes(1)
    cluster.wait(lambda: len(cluster.bound(namespace)) == 2, message="both pods of the gang bound")


def test_pods_follow_their_behaviour_annotation(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    for name in (FAILING, CRASHING, UNPULLABLE):
        pod = objects.pod(name, annotations={BEHAVIOUR: name})
        cluster.apply([pod], namespace=namespace)
    cluster.apply([objects.pod("ready")], namespace=namespace)

    def read(name: str) -> Object:
        return cluster.get("v1/Pod", name, namespace)

    def waits_for(name: str) -> str | None:
        (container,) = read(name)["status"].get("containerStatuses") or [{}]
        reason: str | None = container.get("state", {}).get("waiting", {}).get("reason")
        return reason

    cluster.wait(lambda: is_ready(read("ready")))
    cluster.wait(lambda: read(FAILING)["status"]["phase"] == "Failed")
    cluster.wait(lambda: waits_for(CRASHING) == "CrashLoopBackOff")
    cluster.wait(lambda: waits_for(UNPULLABLE) == "ImagePullBackOff")
    crash = {"metadata": {"annotations": {BEHAVIOUR: CRASHING}}}
    cluster.patch("v1/Pod", "ready", crash, namespace)
    cluster.wait(lambda: not is_ready(read("ready")))


def test_strict_validation_rejects_unknown_fields(cluster: Cluster, namespace: str) -> None:
    group = objects.gang("gang", pods=1, gpus=1)[0]
    group["spec"]["minMembers"] = 1
    with pytest.raises(ApiError, match="minMembers"):
        cluster.apply([group], namespace=namespace)
    cluster.create(group, namespace=namespace, strict=False)


@pytest.mark.parametrize("subject", ["someone", "system:serviceaccount:{namespace}:default"])
def test_rbac_denies_what_was_not_granted(cluster: Cluster, namespace: str, subject: str) -> None:
    other = cluster.client_for(subject.format(namespace=namespace))
    with pytest.raises(ApiError, match="cannot list resource") as rejected:
        other.pods(namespace)
    assert rejected.value.status == 403


def test_closed_cluster_leaves_no_programs_and_files() -> None:
    with Cluster(components=()) as cluster:
        pids = [program.pid for program in cluster.programs.running.values()]
        assert len(pids) == 3
    assert_gone(cluster.directory, pids)


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("time.sleep(600)", signal.SIGKILL),
        ("time.sleep(600)", signal.SIGINT),
        ("os.abort()", None),
    ],
)
def test_killed_parent_leaves_no_programs_and_files(
    then: str, number: signal.Signals | None
) -> None:
    command = [sys.executable, "-c", CHILD.format(then=then)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as output:
        directory, *pids = output.readline().split()
    assert len(pids) == 3
    if number is not None:
        child.send_signal(number)
    child.wait(timeout=30)
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
