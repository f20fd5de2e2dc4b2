"""Updates where StatefulSets respect `maxUnavailable`, the default in some Kubernetes releases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.engine.services import Stack, role
from e2e.harness import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(gates={"MaxUnavailableStatefulSet": True}) as started:
        yield started


@pytest.mark.upstream
@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "repair"),
    [("PerReplica", "delete"), ("PerReplica", "Recreate"), ("PerRole", "delete")],
)
@pytest.mark.verifies(
    "With kubernetes#137409, repairing a broken replica needs a deleted leader pod or Recreate"
)
def test_repair_needs_deleted_leader_or_recreate(stack: Stack, layout: str, repair: str) -> None:
    stack.cluster.add_nodes(4)
    spec: dict[str, Any] = {"layout": layout, "rollout": {"timeout": "15s"}}
    stack.deploy(role(replicas=2), **spec)
    stack.write(stack.service(role(replicas=2, tag="2", behavior="unpullable"), **spec))
    stack.up().assert_failed()
    healthy, leader = (
        f"svc-serve-{ordinal}{'-0' if layout == 'PerReplica' else ''}" for ordinal in (0, 1)
    )
    broken = {healthy: "1", leader: "2"}
    assert stack.pod_tags() == broken
    if repair == "delete":
        stack.write(stack.service(role(replicas=2, tag="3"), **spec))
        stack.up().assert_failed()
        assert stack.pod_tags() == broken
        stack.cluster.delete("v1/Pod", leader, stack.namespace)
        spec["rollout"] = {"timeout": "150s"}
    else:
        spec["rollout"] = {"timeout": "150s", "strategy": repair}
    stack.deploy(role(replicas=2, tag="3"), **spec)
    assert set(stack.pod_tags().values()) == {"3"}
    assert stack.count_ready() == {"serve": 2}
