"""A service that waits in Kueue's queue, on the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.catalog import tool
from e2e.engine.project import ENGINE, Project, Told
from e2e.engine.services import SETS, images, lowest, ready, role, service
from e2e.harness import KUBE_SCHEDULER, KUEUE, KWOK, LWS, Cluster
from e2e.test_kueue import QUEUE, open_queue

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}
BACKEND: dict[str, Any] = {
    "schedulingStrategy": {"queue": QUEUE, "gangPolicy": {"backend": "Kueue"}}
}
#: For updates that are to fail.
SHORT: dict[str, Any] = {"rollout": {"timeout": "15s"}, "wait": {"timeout": "15s"}}


@pytest.fixture(scope="module")
def queues() -> Iterator[Cluster]:
    """A cluster with Kueue and Kubernetes' own scheduler."""
    if not tool("kueue").is_built:
        pytest.skip("Kueue is not built: python -m e2e.build_tools --only kueue")
    with Cluster({LWS, KUBE_SCHEDULER, KWOK, KUEUE}) as started:
        yield started


def lines(told: Told) -> list[str]:
    """What a failed update said at its end."""
    assert told.status != 0
    said = [line.strip() for line in told.text.split("Diagnostics:")[1].splitlines()]
    return [line.removeprefix("error: ") for line in said]


@pytest.mark.long
@pytest.mark.proves(
    "A Kueue service is created, updated, limited by quota, repaired and scaled down",
    needs=f"{ENGINE} and Kueue is built",
)
def test_a_service_in_a_queue(queues: Cluster, tmp_path: Path) -> None:
    namespace = queues.new_namespace()
    open_queue(queues, namespace, 32)
    stack = Project(tmp_path / "app", queues.kubeconfig)

    def up(tag: str, replicas: int = 2, behaviour: str = "ready", **spec: Any) -> Told:
        serve = role(replicas=replicas, gpus=8, tag=tag, behaviour=behaviour, **SPREAD)
        stack.write(service(namespace, serve, **BACKEND, **spec))
        return stack.up()

    up("1").assert_fine()
    assert ready(queues, namespace) == {"serve": 2}

    with lowest(queues, namespace) as least:
        up("2").assert_fine()
    assert least["serve"] >= 1
    assert images(queues, namespace) == {"svc-serve-0": "2", "svc-serve-1": "2"}

    told = lines(up("2", replicas=3, **SHORT))
    (waits,) = [line for line in told if "LocalQueue" in line]
    assert waits.startswith(
        "LeaderWorkerSet svc-serve-2: waits in the LocalQueue of Kueue: couldn't assign flavors"
    )
    assert "insufficient unused quota for nvidia.com/gpu" in waits
    assert ready(queues, namespace)["serve"] == 2
    up("2").assert_fine()
    assert ready(queues, namespace) == {"serve": 2}

    told = lines(up("3", behaviour="unpullable", **SHORT))
    assert any(
        line.startswith("pod svc-serve-")
        and "container engine: ImagePullBackOff" in line
        and '"registry.example/engine:3"' in line
        for line in told
    ), told
    assert ready(queues, namespace)["serve"] == 1
    up("4").assert_fine()
    assert images(queues, namespace) == {"svc-serve-0": "4", "svc-serve-1": "4"}
    assert ready(queues, namespace) == {"serve": 2}

    up("4", replicas=1).assert_fine()
    assert ready(queues, namespace) == {"serve": 1}
    assert stack.preview() == {}
    stack.down().assert_fine()


@pytest.mark.long
@pytest.mark.proves(
    "Preview rejects Kueue on a cluster that has only Volcano, and suggests Volcano",
    needs=ENGINE,
)
def test_a_backend_that_is_not_there(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    serve = role(replicas=1, gpus=8, **SPREAD)
    stack.write(service(namespace, serve, **BACKEND))
    told = stack.run("up", "--yes", "--color", "never")
    assert told.status != 0
    assert (
        "svc: schedulingStrategy.gangPolicy.backend: the cluster does not have Kueue, but another "
        "one: gangPolicy.backend: Volcano"
    ) in told.text
    assert cluster.list(SETS, namespace) == []
    stack.write(service(namespace, serve))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 1}
