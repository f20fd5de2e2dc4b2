"""Gangs of Kubernetes (gang backend Native)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.engine.services import NO_GANG, TWO_NODES, Stack, role, service
from e2e.harness import Cluster
from e2e.test_native import POD_GROUP, create_cluster

pytestmark = pytest.mark.long

NATIVE: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a cluster of Kubernetes 1.37 with gang scheduling enabled, without Volcano."""
    with create_cluster() as started:
        yield started


def make_service(namespace: str, decode: int = 2, tag: str = "1", **spec: Any) -> dict[str, Any]:
    return service(
        namespace,
        role("prefill", "prefiller", replicas=1, gpus=8, tag=tag, **TWO_NODES),
        role("decode", "decoder", replicas=decode, gpus=8, tag=tag, **TWO_NODES),
        **{**NATIVE, **spec},
    )


def read_min_count(stack: Stack) -> int:
    group = stack.cluster.get(POD_GROUP, "svc", stack.namespace)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
@pytest.mark.verifies("A Native gang is created, updated, scaled, refreshed and deleted")
def test_native_gang_is_created_updated_and_scaled(stack: Stack, layout: str) -> None:
    stack.cluster.add_nodes(8)
    stack.deploy_services(make_service(stack.namespace, layout=layout))
    assert (stack.count_ready(), read_min_count(stack)) == ({"prefill": 1, "decode": 2}, 6)
    (active,) = (
        item for item in stack.read_output("status")["conditions"] if item["type"] == "Active"
    )
    assert active["status"] == "True"
    assert stack.preview() == {}
    before = stack.pods()
    stack.refresh().assert_succeeded()
    stack.up().assert_succeeded()
    assert stack.pods() == before

    with stack.min_ready_replicas() as seen:
        stack.deploy_services(make_service(stack.namespace, tag="2", layout=layout))
    assert seen["decode"] >= 1
    assert set(stack.pod_tags().values()) == {"2"}

    before = stack.pods()
    stack.deploy_services(make_service(stack.namespace, 3, tag="2", layout=layout))
    assert (stack.count_ready(), read_min_count(stack)) == ({"prefill": 1, "decode": 3}, 8)
    assert before.items() <= stack.pods().items()
    stack.deploy_services(make_service(stack.namespace, 2, tag="2", layout=layout))
    stack.cluster.wait(lambda: stack.pods() == before, 60, stack.pods)
    assert read_min_count(stack) == 6

    stack.down().assert_succeeded()
    stack.cluster.wait(
        lambda: not stack.cluster.list(POD_GROUP, stack.namespace), 60, "the PodGroup is gone"
    )


@pytest.mark.verifies("Rolling replicas into a Native gang is rejected; Recreate works")
def test_rolling_into_native_gang_is_rejected(stack: Stack) -> None:
    stack.cluster.add_nodes(6)
    stack.deploy_services(make_service(stack.namespace, **NO_GANG))
    before = stack.pods()
    stack.write(make_service(stack.namespace))
    result = stack.up().assert_failed()
    assert "Recreate" in result.text
    assert stack.pods() == before
    stack.deploy_services(
        make_service(stack.namespace, rollout={"strategy": "Recreate", "timeout": "150s"})
    )
    assert stack.count_ready() == {"prefill": 1, "decode": 2}
