"""One LeaderWorkerSet for a role that is a large gang, behind a router: a whole life."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    left,
    lws,
    noted,
    pods,
    ready,
    rendered,
    role,
    router,
    service,
    tag_of,
    watched,
)
from e2e.harness import Cluster
from e2e.harness.pods import is_ready, leaders

Make = Callable[..., Project]
REPLICAS = 8
PICKER = "svc-epp-"


def whole(namespace: str, tag: str = "1", replicas: int = REPLICAS) -> dict[str, Any]:
    """A role of replicas of two nodes each, and its router."""
    spread = {"nodeCount": 2, "launcher": "none"}
    serving = role(replicas=replicas, tag=tag, gpus=1, behaviour="slow", multinode=spread)
    return service(namespace, router(), serving, layout="PerRole")


def serving(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The pods without those of the picker."""
    found = pods(cluster, namespace)
    return {name: uid for name, uid in found.items() if not name.startswith(PICKER)}


def replicas(cluster: Cluster, namespace: str) -> dict[str, tuple[str, bool]]:
    """Image of each replica's leader, and whether it is ready and not about to end."""
    return {
        pod["metadata"]["name"]: (tag_of(pod), is_ready(pod)) for pod in leaders(cluster, namespace)
    }


@pytest.mark.proves(
    f"A PerRole gang of {REPLICAS} replicas with a router is created, updated, scaled and deleted",
    needs=ENGINE,
)
def test_a_life(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(6)
    stack = project()
    wanted = whole(namespace)
    stack.write(wanted)
    stack.up().assert_fine()
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(wanted)
    assert {"Deployment/svc-epp", "Gateway/svc-gateway", "PodGroup/svc"} <= set(rendered(wanted))
    assert list(lws(cluster, namespace)) == ["svc-serve"]
    assert ready(cluster, namespace)["serve"] == REPLICAS
    assert stack.output("status")["components"]["serve"]["readyPods"] == 2 * REPLICAS
    for _ in range(2):
        assert stack.preview() == {}
        stack.up().assert_fine()
        assert stack.changes() == {}
    before = pods(cluster, namespace)
    pickers = {name: uid for name, uid in before.items() if name.startswith(PICKER)}
    assert pickers
    stack.write(whole(namespace, "2"))
    assert stack.preview() == {"update": 1}
    with watched(lambda: replicas(cluster, namespace)) as seen:
        stack.up().assert_fine()
    assert len(seen) > REPLICAS
    up = [sum(is_up for _, is_up in look.values()) for look in seen]
    assert min(up) == REPLICAS - 1
    for look in seen:
        # What is new is above what is old.
        old = [name for name, (tag, _) in look.items() if tag == "1"]
        new = [name for name, (tag, _) in look.items() if tag == "2"]
        assert max(map(ordinal, old), default=-1) < min(map(ordinal, new), default=REPLICAS)
    assert set(replicas(cluster, namespace).values()) == {("2", True)}
    after = pods(cluster, namespace)
    assert pickers.items() <= after.items()
    assert not set(serving(cluster, namespace).items()) & set(before.items())
    for count in (REPLICAS + 1, REPLICAS - 2):
        stack.write(whole(namespace, "2", count))
        stack.up().assert_fine()
        assert stack.changes() == {"update": 2}  # set and PodGroup
        cluster.wait(partial(all_there, cluster, namespace, count), 60, "pods")
        common = serving(cluster, namespace).keys() & after.keys()
        assert len(common) == 2 * min(count, REPLICAS)
        assert all(serving(cluster, namespace)[name] == after[name] for name in common)
        assert stack.output("status")["components"]["serve"]["readyReplicas"] == count
    assert stack.preview() == {}
    stack.down().assert_fine()
    assert left(cluster, namespace) == []
    assert stack.resources() == []
    cluster.wait(lambda: not cluster.pods(namespace), 60, "pods of the service")


def all_there(cluster: Cluster, namespace: str, replicas: int) -> bool:
    """Whether there are the pods of so many replicas, and no more."""
    return len(serving(cluster, namespace)) == 2 * replicas


def ordinal(leader: str) -> int:
    """Ordinal of a replica by the name of its leader."""
    return int(leader.rpartition("-")[2])
