"""Routers that are added, removed and awaited."""

from __future__ import annotations

import time

import pytest

from e2e.engine.services import QUICK, Stack, list_rendered, role, router
from e2e.routers import make_disaggregated


@pytest.mark.core
@pytest.mark.verifies(
    "Removing a router restores the Service without restarts; destroy leaves nothing"
)
def test_removed_router_restores_service(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    spread = role(replicas=2, gpus=1, multinode={"nodeCount": 2, "launcher": "none"})
    routed, alone = stack.service(router(), spread), stack.service(spread)
    stack.deploy_services(routed)
    stack.assert_objects(routed)
    objects = set(list_rendered(routed))
    assert {"Deployment/svc-epp", "Gateway/svc-gateway", "PodGroup/svc"} <= objects
    before = list_engines(stack)
    min_ready = stack.roll_services(alone)
    assert min_ready["serve"] == 2
    stack.assert_objects(alone)
    assert "Service/svc" in list_rendered(alone)
    assert list_engines(stack) == before
    stack.deploy_services(routed)
    assert stack.list_objects() == list_rendered(routed)
    assert list_engines(stack) == before
    stack.destroy()
    stack.cluster.wait(lambda: not stack.cluster.pods(stack.namespace), 60, "pods of the service")


@pytest.mark.verifies(
    "Removing the router of prefill and decode removes sidecars one replica at a time"
)
def test_removed_router_removes_sidecars_gradually(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    service = make_disaggregated(stack.namespace)
    service["spec"] |= {"rollout": QUICK, "wait": QUICK}
    stack.deploy_services(service)
    before = list_engines(stack)
    alone = {**service, "spec": {**service["spec"], "roles": service["spec"]["roles"][1:]}}
    min_ready = stack.roll_services(alone)
    stack.assert_objects(alone)
    after = list_engines(stack)
    assert not set(after.items()) & set(before.items())
    assert (min_ready["prefill"], min_ready["decode"]) == (1, 1), min_ready
    assert stack.count_ready() == {"prefill": 2, "decode": 2}


@pytest.mark.verifies(
    "A failing endpoint picker fails the update at wait.timeout while replicas serve"
)
def test_failing_picker_fails_update(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    bad = router(behavior="unpullable")
    started = time.monotonic()
    result = stack.fail(bad, role(replicas=2), wait={"timeout": "15s"})
    assert "Deployment (svc-epp)" in result.text, result.text[-4000:]
    assert time.monotonic() - started < 120
    assert stack.count_ready()["serve"] == 2
    stack.deploy(router(), role(replicas=2))
    assert stack.preview() == {}


def list_engines(stack: Stack) -> dict[str, str]:
    pods = stack.pods()
    return {name: uid for name, uid in pods.items() if not name.startswith("svc-epp-")}
