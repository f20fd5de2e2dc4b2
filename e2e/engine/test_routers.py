"""A service's router: it comes, goes, is waited for, and is gone with its service."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.disaggregated import disaggregated
from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    QUICK,
    left,
    lowest,
    noted,
    pods,
    ready,
    rendered,
    role,
    router,
    service,
)
from e2e.harness import Cluster

Make = Callable[..., Project]


@pytest.mark.core
@pytest.mark.proves(
    "Removing a router restores the Service without restarts; destroy leaves nothing",
    needs=ENGINE,
)
def test_removed(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    spread = role(replicas=2, gpus=1, multinode={"nodeCount": 2, "launcher": "none"})
    routed, alone = service(namespace, router(), spread), service(namespace, spread)
    stack.write(routed)
    stack.up().assert_fine()
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(routed)
    assert {"Deployment/svc-epp", "Gateway/svc-gateway", "PodGroup/svc"} <= set(rendered(routed))
    before = serving(cluster, namespace)
    stack.write(alone)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(alone)
    assert "Service/svc" in rendered(alone)
    assert serving(cluster, namespace) == before
    stack.write(routed)
    stack.up().assert_fine()
    assert left(cluster, namespace) == rendered(routed)
    assert serving(cluster, namespace) == before
    stack.down().assert_fine()
    assert left(cluster, namespace) == []
    assert stack.resources() == []
    cluster.wait(lambda: not cluster.pods(namespace), 60, "pods of the service")


@pytest.mark.proves(
    "Removing the router of prefill and decode removes sidecars one replica at a time",
    needs=ENGINE,
)
def test_removed_from_prefill_and_decode(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    paired = disaggregated(namespace)
    paired["spec"] |= {"rollout": QUICK, "wait": QUICK}
    stack.write(paired)
    stack.up().assert_fine()
    before = serving(cluster, namespace)
    alone = {**paired, "spec": {**paired["spec"], "roles": paired["spec"]["roles"][1:]}}
    stack.write(alone)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(alone)
    after = serving(cluster, namespace)
    assert not set(after.items()) & set(before.items())
    assert (least["prefill"], least["decode"]) == (1, 1), least
    assert ready(cluster, namespace) == {"prefill": 2, "decode": 2}


@pytest.mark.proves(
    "A failing endpoint picker fails the update at wait.timeout while replicas serve",
    needs=ENGINE,
)
def test_a_picker_that_fails(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    bad = router(behaviour="unpullable")
    stack.write(service(namespace, bad, role(replicas=2), wait={"timeout": "15s"}))
    started = time.monotonic()
    told = stack.up()
    assert told.status != 0
    assert "Deployment (svc-epp)" in told.text, told.text[-4000:]
    assert time.monotonic() - started < 120
    assert ready(cluster, namespace)["serve"] == 2
    stack.write(service(namespace, router(), role(replicas=2)))
    stack.up().assert_fine()
    assert stack.preview() == {}


def serving(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The pods without those of the picker."""
    found = pods(cluster, namespace)
    return {name: uid for name, uid in found.items() if not name.startswith("svc-epp-")}
