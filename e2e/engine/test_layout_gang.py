"""One LeaderWorkerSet for a role that is a large gang, behind a router: a whole life."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from e2e.engine.services import Stack, noted, rendered, role, router, service, tag_of, watched
from e2e.harness.pods import is_ready, leaders

REPLICAS = 8
PICKER = "svc-epp-"


def whole(namespace: str, tag: str = "1", replicas: int = REPLICAS) -> dict[str, Any]:
    """A role of replicas of two nodes each, and its router."""
    spread = {"nodeCount": 2, "launcher": "none"}
    serving = role(replicas=replicas, tag=tag, gpus=1, behaviour="slow", multinode=spread)
    return service(namespace, router(), serving, layout="PerRole")


def serving(stack: Stack) -> dict[str, str]:
    """The pods without those of the picker."""
    found = stack.pods()
    return {name: uid for name, uid in found.items() if not name.startswith(PICKER)}


def replicas(stack: Stack) -> dict[str, tuple[str, bool]]:
    """Image of each replica's leader, and whether it is ready and not about to end."""
    return {
        pod["metadata"]["name"]: (tag_of(pod), is_ready(pod))
        for pod in leaders(stack.cluster, stack.namespace)
    }


@pytest.mark.proves(
    f"A PerRole gang of {REPLICAS} replicas with a router is created, updated, scaled and deleted"
)
def test_a_life(stack: Stack) -> None:
    stack.cluster.add_nodes(6)
    wanted = whole(stack.namespace)
    stack.deploy_services(wanted)
    assert stack.left() == noted(stack.resources()) == rendered(wanted)
    assert {"Deployment/svc-epp", "Gateway/svc-gateway", "PodGroup/svc"} <= set(rendered(wanted))
    assert list(stack.lws()) == ["svc-serve"]
    assert stack.ready()["serve"] == REPLICAS
    assert stack.output("status")["components"]["serve"]["readyPods"] == 2 * REPLICAS
    for _ in range(2):
        assert stack.preview() == {}
        stack.up().assert_succeeded()
        assert stack.changes() == {}
    before = stack.pods()
    pickers = {name: uid for name, uid in before.items() if name.startswith(PICKER)}
    assert pickers
    stack.write(whole(stack.namespace, "2"))
    assert stack.preview() == {"update": 1}
    with watched(lambda: replicas(stack)) as seen:
        stack.up().assert_succeeded()
    assert len(seen) > REPLICAS
    up = [sum(is_up for _, is_up in look.values()) for look in seen]
    assert min(up) == REPLICAS - 1
    for look in seen:
        # What is new is above what is old.
        old = [name for name, (tag, _) in look.items() if tag == "1"]
        new = [name for name, (tag, _) in look.items() if tag == "2"]
        assert max(map(ordinal, old), default=-1) < min(map(ordinal, new), default=REPLICAS)
    assert set(replicas(stack).values()) == {("2", True)}
    after = stack.pods()
    assert pickers.items() <= after.items()
    assert not set(serving(stack).items()) & set(before.items())
    for count in (REPLICAS + 1, REPLICAS - 2):
        stack.deploy_services(whole(stack.namespace, "2", count))
        assert stack.changes() == {"update": 2}  # set and PodGroup
        stack.cluster.wait(partial(all_there, stack, count), 60, "pods")
        common = serving(stack).keys() & after.keys()
        assert len(common) == 2 * min(count, REPLICAS)
        assert all(serving(stack)[name] == after[name] for name in common)
        assert stack.output("status")["components"]["serve"]["readyReplicas"] == count
    assert stack.preview() == {}
    stack.down().assert_succeeded()
    assert stack.left() == []
    assert stack.resources() == []
    stack.cluster.wait(lambda: not stack.cluster.pods(stack.namespace), 60, "pods of the service")


def all_there(stack: Stack, replicas: int) -> bool:
    """Whether there are the pods of so many replicas, and no more."""
    return len(serving(stack)) == 2 * replicas


def ordinal(leader: str) -> int:
    """Ordinal of a replica by the name of its leader."""
    return int(leader.rpartition("-")[2])
