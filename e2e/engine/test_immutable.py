"""Fields of a LeaderWorkerSet that are not the pod template: which are updated, which replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import left, lowest, pods, ready, rendered, role, service, sets
from e2e.harness import Cluster

Make = Callable[..., Project]
ALONE: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}


def spread(**more: Any) -> dict[str, Any]:
    """Two replicas of four nodes."""
    nodes = {"nodeCount": 4, "launcher": "none"}
    return role(replicas=2, behaviour="slow", **{"multinode": nodes, **more})


def identities(cluster: Cluster, namespace: str) -> dict[str, str]:
    """What tells a set from one that took its place."""
    return {name: each["metadata"]["uid"] for name, each in sets(cluster, namespace).items()}


@pytest.mark.proves(
    "nodeCount, networkConfig and restartPolicy change one replica after the other; startupPolicy "
    "restarts nothing",
    needs=ENGINE,
)
def test_what_an_update_can_change(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, spread(), **ALONE))
    stack.up().assert_fine()
    made, before = identities(cluster, namespace), pods(cluster, namespace)
    stack.write(service(namespace, spread(startupPolicy="LeaderReady"), **ALONE))
    stack.up().assert_fine()
    assert stack.changes() == {"update": 2}
    assert pods(cluster, namespace) == before
    for more in (
        {"multinode": {"nodeCount": 2, "launcher": "none"}},
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}, "restartPolicy": "None"},
        {},
    ):
        stack.write(service(namespace, spread(**more), **ALONE))
        with lowest(cluster, namespace) as least:
            stack.up().assert_fine()
        assert least["serve"] == 1, least
        assert identities(cluster, namespace) == made
        assert not set(pods(cluster, namespace).items()) & set(before.items())
    assert stack.preview() == {}


@pytest.mark.proves(
    "subGroupPolicy, which LeaderWorkerSet does not update, replaces the sets; taking it away is "
    "refused without Recreate, and nothing restarts",
    needs=ENGINE,
)
def test_what_no_update_can_change(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, spread(), **ALONE))
    stack.up().assert_fine()
    for size in (2, 4):
        made = identities(cluster, namespace)
        grouped = service(namespace, spread(subGroupPolicy={"subGroupSize": size}), **ALONE)
        stack.write(grouped)
        assert stack.preview() == {"replace": 4}  # sets and patches
        stack.up().assert_fine()
        assert ready(cluster, namespace) == {"serve": 2}
        assert not set(identities(cluster, namespace).values()) & set(made.values())
        assert left(cluster, namespace) == rendered(grouped)
    before = pods(cluster, namespace)
    stack.write(service(namespace, spread(), **ALONE))
    told = stack.up()
    assert told.status != 0
    assert "already exists" in told.text
    assert pods(cluster, namespace) == before
    recreate: dict[str, Any] = {"rollout": {"strategy": "Recreate", "timeout": "150s"}}
    stack.write(service(namespace, spread(), **ALONE, **recreate))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 2}
    stack.write(service(namespace, spread(), **ALONE))
    assert stack.preview() == {}
