"""A service that Kueue queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import CommandResult
from e2e.engine.services import LWS, TWO_NODES, Stack, role
from e2e.harness import Cluster
from e2e.test_kueue import QUEUE, kueue, open_queue

__all__ = ["kueue"]

BACKEND: dict[str, Any] = {
    "schedulingStrategy": {"queue": QUEUE, "gangPolicy": {"backend": "Kueue"}}
}
SHORT: dict[str, Any] = {"rollout": {"timeout": "15s"}, "wait": {"timeout": "15s"}}


@pytest.mark.long
@pytest.mark.verifies(
    "A Kueue service is created, updated, limited by quota, repaired and scaled down"
)
def test_queued_service_is_created_updated_and_scaled(kueue: Cluster, tmp_path: Path) -> None:
    namespace = kueue.new_namespace()
    open_queue(kueue, namespace, 32)
    stack = Stack(tmp_path / "app", kueue, namespace)

    def up(tag: str, replicas: int = 2, behavior: str = "ready", **spec: Any) -> CommandResult:
        serve = role(replicas=replicas, gpus=8, tag=tag, behavior=behavior, **TWO_NODES)
        stack.write(stack.service(serve, **BACKEND, **spec))
        return stack.up()

    up("1").assert_succeeded()
    assert stack.count_ready() == {"serve": 2}

    with stack.min_ready_replicas() as min_ready:
        up("2").assert_succeeded()
    assert min_ready["serve"] >= 1
    assert stack.lws_tags() == {"svc-serve-0": "2", "svc-serve-1": "2"}

    result = up("2", replicas=3, **SHORT).read_diagnostics()
    (waits,) = [line for line in result if "LocalQueue" in line]
    assert waits.startswith(
        "Kueue has not admitted LeaderWorkerSet svc-serve-2: couldn't assign flavors"
    )
    assert "insufficient unused quota for nvidia.com/gpu" in waits
    assert stack.count_ready()["serve"] == 2
    up("2").assert_succeeded()
    assert stack.count_ready() == {"serve": 2}

    result = up("3", behavior="unpullable", **SHORT).read_diagnostics()
    assert any(
        line.startswith("pod svc-serve-")
        and "container engine: ImagePullBackOff" in line
        and '"registry.example/engine:3"' in line
        for line in result
    ), result
    assert stack.count_ready()["serve"] == 1
    up("4").assert_succeeded()
    assert stack.lws_tags() == {"svc-serve-0": "4", "svc-serve-1": "4"}
    assert stack.count_ready() == {"serve": 2}

    up("4", replicas=1).assert_succeeded()
    assert stack.count_ready() == {"serve": 1}
    assert stack.preview() == {}
    stack.down().assert_succeeded()


@pytest.mark.long
@pytest.mark.verifies(
    "Preview rejects Kueue on a cluster that has only Volcano, and suggests Volcano"
)
def test_missing_gang_backend_fails_preview(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    serve = role(replicas=1, gpus=8, **TWO_NODES)
    stack.write(stack.service(serve, **BACKEND))
    result = stack.run("up", "--yes", "--color", "never").assert_failed()
    assert (
        "svc: schedulingStrategy.gangPolicy.backend: the cluster does not have Kueue; install it, "
        "or use backend Volcano"
    ) in result.text
    assert stack.cluster.list(LWS, stack.namespace) == []
    stack.deploy(serve)
    assert stack.count_ready() == {"serve": 1}
