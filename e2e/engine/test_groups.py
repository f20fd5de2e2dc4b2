"""Serving groups on the real engine: how groups change as a whole, and how they come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    GROUPS,
    PREFIX,
    images,
    left,
    pods,
    rendered,
    role,
    service,
    tag_of,
    watched,
)
from e2e.harness import Cluster
from e2e.harness.pods import is_ready

Make = Callable[..., Project]
PODS = 3
"""Of each group: one prefill and two decode replicas, which are a gang."""


def grouped(
    namespace: str, groups: int, tag: str = "1", owner: str = "red", **rollout: Any
) -> dict[str, Any]:
    """A service of gangs, one for each group."""
    kinds = (("prefill", "prefiller", 1), ("decode", "decoder", 2))
    roles = [
        role(name, kind, replicas=count, tag=tag, gpus=1, behaviour="slow")
        for name, kind, count in kinds
    ]
    pace = {"level": "Group", "timeout": "150s", **rollout}
    metadata = {"labels": {"team": owner}}
    return service(namespace, *roles, groups=groups, rollout=pace, metadata=metadata)


def state(cluster: Cluster, namespace: str) -> dict[int, tuple[int, set[str]]]:
    """Of each group: its ready pods, and the images of its pods."""
    found: dict[int, tuple[int, set[str]]] = {}
    for pod in cluster.pods(namespace):
        group = int(pod["metadata"]["labels"][f"{PREFIX}group-index"])
        ready, tags = found.get(group, (0, set()))
        found[group] = (ready + is_ready(pod), tags | {tag_of(pod)})
    return found


def tags(cluster: Cluster, namespace: str) -> dict[int, set[str]]:
    """The images of each group's sets."""
    found: dict[int, set[str]] = {}
    for name, tag in images(cluster, namespace).items():
        found.setdefault(int(name.split("-")[1]), set()).add(tag)
    return found


@pytest.mark.core
@pytest.mark.proves(
    "rollout.level Group updates maxUnavailable groups at a time and respects the partition",
    needs=ENGINE,
)
def test_whole_groups_change(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(grouped(namespace, 3))
    stack.up().assert_fine()
    assert state(cluster, namespace) == dict.fromkeys(range(3), (PODS, {"1"}))
    first = pods(cluster, namespace)
    held: dict[str, Any] = {"partition": 1, "maxUnavailable": 1}
    stack.write(grouped(namespace, 3, "2", **held))
    with watched(lambda: state(cluster, namespace)) as seen:
        stack.up().assert_fine()
    assert len(seen) > 20
    down = [{group for group in range(3) if look.get(group, (0,))[0] < PODS} for look in seen]
    order = [min(each) for each in down if each]
    assert {len(each) for each in down} == {0, 1}
    assert order == sorted(order, reverse=True)
    assert set(order) == {1, 2}
    for look in seen:
        if "2" in look[1][1]:
            assert look[2] == (PODS, {"2"})
    assert tags(cluster, namespace) == {0: {"1"}, 1: {"2"}, 2: {"2"}}
    assert stack.preview() == {}
    # Later, something else: other metadata, and a group more, which is new and takes what is new.
    stack.write(grouped(namespace, 4, "2", "blue", **held))
    stack.up().assert_fine()
    assert tags(cluster, namespace) == {0: {"1"}, 1: {"2"}, 2: {"2"}, 3: {"2"}}
    own = {name: uid for name, uid in first.items() if name.startswith("svc-0-")}
    assert len(own) == PODS
    assert own.items() <= pods(cluster, namespace).items()
    # Two at a time, and nothing is held any more.
    stack.write(grouped(namespace, 4, "3", "blue", maxUnavailable=2))
    with watched(lambda: state(cluster, namespace)) as seen:
        stack.up().assert_fine()
    down = [{group for group in range(4) if look.get(group, (0,))[0] < PODS} for look in seen]
    assert max(len(each) for each in down) == 2
    assert {3, 2} in down
    assert {1, 0} in down
    assert state(cluster, namespace) == dict.fromkeys(range(4), (PODS, {"3"}))
    assert stack.preview() == {}


@pytest.mark.proves(
    "Adding or removing a serving group changes no other group",
    needs=ENGINE,
)
def test_groups_come_and_go(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    before: dict[str, str] = {}
    of_a_group = {"create": 4}  # PodGroup and three sets
    for groups in (1, 2, 3):
        wanted = grouped(namespace, groups)
        stack.write(wanted)
        stack.up().assert_fine()
        if groups > 1:
            assert stack.changes() == of_a_group
        after = pods(cluster, namespace)
        assert before.items() <= after.items()
        assert len(after) == groups * PODS
        assert left(cluster, namespace) == rendered(wanted)
        before = after
    assert stack.preview() == {}
    fewer = grouped(namespace, 2)
    stack.write(fewer)
    stack.up().assert_fine()
    assert stack.changes() == {"delete": 4}
    kept = {name: uid for name, uid in before.items() if not name.startswith("svc-2-")}
    cluster.wait(lambda: pods(cluster, namespace) == kept, 60, "pods of the removed group")
    time.sleep(1)
    assert pods(cluster, namespace) == kept
    assert left(cluster, namespace) == rendered(fewer)
    groups_left = [each["metadata"]["name"] for each in cluster.list(GROUPS, namespace)]
    assert sorted(groups_left) == ["svc-0", "svc-1"]
    stack.down().assert_fine()
    assert left(cluster, namespace) == []
    assert stack.resources() == []
