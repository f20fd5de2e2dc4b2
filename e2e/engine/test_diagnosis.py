"""Reasons that failed updates report, with and without permission to read the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import TWO_NODES, Stack, role

SHORT: dict[str, Any] = {"rollout": {"timeout": "12s"}, "wait": {"timeout": "12s"}}


@pytest.mark.verifies(
    "A failing image or crashing container fails the update with replica, pod and reason"
)
def test_failing_image_is_reported(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role(), **SHORT)
    stack.write(stack.service(role(tag="2", behavior="unpullable"), **SHORT))
    lines = stack.up().read_diagnostics()
    assert (
        "pod svc-serve-2-0: container engine: ImagePullBackOff: Back-off pulling image "
        '"registry.example/engine:2"'
    ) in lines
    stack.write(stack.service(role(tag="3", behavior="crashing"), **SHORT))
    lines = stack.up().read_diagnostics()
    (crashed,) = [line for line in lines if line.startswith("pod svc-serve-2-0: ")]
    assert "CrashLoopBackOff" in crashed
    assert "exit code 1 (Error), restarted 1 time" in crashed
    assert not [line for line in lines if "svc-serve-1" in line or "svc-serve-0" in line]


@pytest.mark.core
@pytest.mark.verifies("An unschedulable gang fails at its timeout with the scheduler's message")
def test_unschedulable_gang_fails_update(stack: Stack) -> None:
    stack.cluster.add_nodes(3)
    stack.write(stack.service(role(replicas=2, gpus=8, **TWO_NODES), **SHORT))
    lines = stack.up().read_diagnostics()
    (group,) = [line for line in lines if line.startswith("PodGroup svc: ")]
    assert "gang unschedulable" in group


@pytest.mark.core
@pytest.mark.verifies(
    "Without read permission, creation succeeds with a warning and rolling updates are rejected"
)
def test_update_without_permissions_is_rejected(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    stack.write(stack.service(role(), **SHORT))
    stack.drop_permissions()
    result = stack.up().assert_succeeded()
    unread = f"leaderworkersets in {stack.namespace}: 403 Forbidden"
    assert f"availability of replicas was not checked: {unread}" in result.text
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 3}, 60, "replicas")
    before = stack.pods()
    stack.write(stack.service(role(tag="2"), **SHORT))
    lines = stack.up().read_diagnostics()
    assert any(f"LeaderWorkerSets cannot be listed: {unread}" in line for line in lines), lines
    assert stack.pods() == before
