"""What somebody did to a service by hand: found by a refresh, repaired by the next update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    GROUPS,
    SETS,
    images,
    left,
    lws,
    pods,
    ready,
    rendered,
    role,
    service,
)
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 1}


@pytest.mark.proves("`refresh` and `up` repair objects edited or deleted by hand", needs=ENGINE)
def test_hands(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, role()))
    stack.up().assert_fine()
    cluster.delete(SETS, "svc-serve-1", namespace)
    cluster.wait(lambda: len(lws(cluster, namespace)) == 2, 60, "the deletion")
    path = cluster.resource(SETS).path("svc-serve-0", namespace)
    patch = [{"op": "remove", "path": "/metadata/annotations/pulumi.com~1skipAwait"}]
    cluster.request("PATCH", path, patch, headers={"Content-Type": "application/json-patch+json"})
    stack.refresh().assert_fine()
    stack.up().assert_fine()
    live = lws(cluster, namespace)
    assert sorted(live) == ["svc-serve-0", "svc-serve-1", "svc-serve-2"]
    for each in live.values():
        assert each["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert ready(cluster, namespace) == {"serve": 3}
    assert stack.preview() == {}


@pytest.mark.proves(
    "A deleted PodGroup or Service returns without restarts; edited images conflict until forced",
    needs=ENGINE,
)
def test_what_hands_do_to_a_gang(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    wanted = service(namespace, role(replicas=2, **SPREAD))
    stack.write(wanted)
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    cluster.delete(GROUPS, "svc", namespace)
    cluster.delete("v1/Service", "svc", namespace)
    stack.refresh().assert_fine()
    assert stack.preview()["create"] == 2
    stack.up().assert_fine()
    assert left(cluster, namespace) == rendered(wanted)
    assert pods(cluster, namespace) == before
    assert stack.preview() == {}
    template = lws(cluster, namespace)["svc-serve-0"]["spec"]["leaderWorkerTemplate"]
    template["workerTemplate"]["spec"]["containers"][0]["image"] = "registry.example/engine:hand"
    edited = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template["workerTemplate"]}}}
    cluster.patch(SETS, "svc-serve-0", edited, namespace)
    stack.refresh().assert_fine()
    assert stack.preview() == {"update": 1}
    told = stack.up()
    assert told.status != 0
    assert 'conflict with "' in told.text
    assert '.containers[name="engine"].image' in told.text
    assert images(cluster, namespace) == {"svc-serve-0": "hand", "svc-serve-1": "1"}
    stack.up(PULUMI_K8S_ENABLE_PATCH_FORCE="true").assert_fine()
    assert set(images(cluster, namespace).values()) == {"1"}
    assert ready(cluster, namespace) == {"serve": 2}
    assert stack.preview() == {}
