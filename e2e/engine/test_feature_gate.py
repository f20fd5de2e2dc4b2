"""Where StatefulSets go by `maxUnavailable`: on by default in some releases of Kubernetes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import lowest, ready, role, service, tags
from e2e.harness import Cluster

Make = Callable[..., Project]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with the gate."""
    with Cluster(gates={"MaxUnavailableStatefulSet": True}) as started:
        yield started


@pytest.mark.parametrize(
    ("rollout", "least"), [({"maxUnavailable": 2}, 2), ({"strategy": "AllAtOnce"}, 0)]
)
@pytest.mark.proves(
    "With MaxUnavailableStatefulSet, PerRole replaces maxUnavailable replicas at once",
    needs=ENGINE,
)
def test_replicas_of_a_set_go_down_together(
    cluster: Cluster, namespace: str, project: Make, rollout: dict[str, Any], least: int
) -> None:
    cluster.add_nodes(4)
    stack = project()
    pace: dict[str, Any] = {"layout": "PerRole", "rollout": {"timeout": "150s", **rollout}}
    stack.write(service(namespace, role(replicas=4), **pace))
    stack.up().assert_fine()
    stack.write(service(namespace, role(replicas=4, tag="2", behaviour="slow"), **pace))
    with lowest(cluster, namespace) as seen:
        stack.up().assert_fine()
    assert seen["serve"] == least
    assert ready(cluster, namespace) == {"serve": 4}
    assert set(tags(cluster, namespace).values()) == {"2"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "way_out"),
    [("PerReplica", "delete"), ("PerReplica", "Recreate"), ("PerRole", "delete")],
)
@pytest.mark.proves(
    "With kubernetes#137409, repairing a broken replica needs a deleted leader pod or Recreate",
    needs=ENGINE,
)
def test_a_repair_needs_help(
    cluster: Cluster, namespace: str, project: Make, layout: str, way_out: str
) -> None:
    cluster.add_nodes(4)
    stack = project()
    pace: dict[str, Any] = {"layout": layout, "rollout": {"timeout": "15s"}}
    stack.write(service(namespace, role(replicas=2), **pace))
    stack.up().assert_fine()
    stack.write(service(namespace, role(replicas=2, tag="2", behaviour="unpullable"), **pace))
    assert stack.up().status != 0
    sound, leader = (
        f"svc-serve-{ordinal}{'-0' if layout == 'PerReplica' else ''}" for ordinal in (0, 1)
    )
    broken = {sound: "1", leader: "2"}
    assert tags(cluster, namespace) == broken
    if way_out == "delete":
        stack.write(service(namespace, role(replicas=2, tag="3"), **pace))
        assert stack.up().status != 0
        assert tags(cluster, namespace) == broken
        cluster.delete("v1/Pod", leader, namespace)
        pace["rollout"] = {"timeout": "150s"}
    else:
        pace["rollout"] = {"timeout": "150s", "strategy": way_out}
    stack.write(service(namespace, role(replicas=2, tag="3"), **pace))
    stack.up().assert_fine()
    assert set(tags(cluster, namespace).values()) == {"3"}
    assert ready(cluster, namespace) == {"serve": 2}
