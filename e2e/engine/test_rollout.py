"""Changes of a running service: how many replicas go down, in which order, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    images,
    left,
    lowest,
    lws,
    pods,
    ready,
    role,
    service,
    watched,
)
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}


@pytest.mark.core
@pytest.mark.proves("Creation waits for replicas; further runs of `up` do nothing", needs=ENGINE)
def test_create_and_nothing_twice(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(behaviour="slow")))
    assert stack.preview() == {"create": 6}
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
    for _ in range(2):
        assert stack.preview() == {}
        stack.up().assert_fine()
        assert stack.changes() == {}


@pytest.mark.parametrize(
    ("replicas", "gang"),
    [(3, False), pytest.param(3, True, marks=pytest.mark.core), (8, True)],
)
@pytest.mark.proves("An image change takes down at most maxUnavailable replicas", needs=ENGINE)
def test_an_image_change(
    cluster: Cluster, namespace: str, project: Make, replicas: int, *, gang: bool
) -> None:
    cluster.add_nodes(6)
    stack = project()
    more = SPREAD if gang else {}
    stack.write(service(namespace, role(replicas=replicas, **more)))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": replicas}
    stack.write(service(namespace, role(replicas=replicas, tag="2", behaviour="slow", **more)))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["samples"] > replicas
    assert least["serve"] == replicas - 1, least
    assert set(images(cluster, namespace).values()) == {"2"}
    assert stack.preview() == {}


@pytest.mark.proves("An image change uses maxUnavailable of two", needs=ENGINE)
def test_two_at_a_time(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    pace = {"maxUnavailable": "40%", "timeout": "150s"}
    stack.write(service(namespace, role(replicas=6), rollout=pace))
    stack.up().assert_fine()
    stack.write(service(namespace, role(replicas=6, tag="2", behaviour="slow"), rollout=pace))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 4, least


@pytest.mark.parametrize("order", ["Together", "Sequential"])
@pytest.mark.proves(
    "Roles update in parallel, or in order with Sequential, each with its own maxUnavailable",
    needs=ENGINE,
)
def test_the_order_of_roles(cluster: Cluster, namespace: str, project: Make, order: str) -> None:
    cluster.add_nodes(2)
    stack = project()
    pace = {"timeout": "150s", "roleOrder": order}

    def pair(tag: str) -> dict[str, Any]:
        kinds = (("prefill", "prefiller"), ("decode", "decoder"))
        roles = [role(name, kind, tag=tag, gpus=1, behaviour="slow") for name, kind in kinds]
        return service(namespace, *roles, rollout=pace)

    stack.write(pair("1"))
    stack.up().assert_fine()
    stack.write(pair("2"))
    with watched(lambda: ready(cluster, namespace)) as seen:
        stack.up().assert_fine()
    down = [{name for name in ("prefill", "decode") if look.get(name, 0) < 3} for look in seen]
    assert min(count for look in seen for count in look.values()) == 2
    assert set().union(*down) == {"prefill", "decode"}
    if order == "Together":
        assert {"prefill", "decode"} in down
    else:
        first = down.index({"decode"})
        assert all("decode" not in each for each in down[:first])
        assert all("prefill" not in each for each in down[first:])
    assert set(images(cluster, namespace).values()) == {"2"}


@pytest.mark.proves("A gang of 40 replicas is created with default parallelism", needs=ENGINE)
def test_a_gang_of_forty(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(10)
    stack = project()
    stack.write(service(namespace, role(replicas=40, gpus=1, **SPREAD)))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 40}
    assert stack.preview() == {}


@pytest.mark.core
@pytest.mark.proves(
    "A failing image halts the update; a good or the old image repairs it", needs=ENGINE
)
@pytest.mark.parametrize("repair", ["3", "1"])
def test_a_failing_image(cluster: Cluster, namespace: str, project: Make, repair: str) -> None:
    cluster.add_nodes(4)
    stack = project()
    short: dict[str, Any] = {"rollout": {"timeout": "15s"}}
    stack.write(service(namespace, role(), **short))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(tag="2", behaviour="unpullable"), **short))
    told = stack.up()
    assert told.status != 0
    assert "svc: svc-serve-2 is not available after 15s (rollout.timeout)" in told.text, told.text
    assert images(cluster, namespace) == {
        "svc-serve-0": "1",
        "svc-serve-1": "1",
        "svc-serve-2": "2",
    }
    after = pods(cluster, namespace)
    assert {name for name, uid in before.items() if after.get(name) != uid} == {"svc-serve-2-0"}
    assert ready(cluster, namespace) == {"serve": 2}
    stack.write(service(namespace, role(tag=repair, behaviour="ready")))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] >= 2
    assert set(images(cluster, namespace).values()) == {repair}
    assert ready(cluster, namespace) == {"serve": 3}
    assert stack.preview() == {}


@pytest.mark.proves(
    "Replicas below the partition keep their pods, also in later updates", needs=ENGINE
)
def test_partition(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=4)))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    held = {"timeout": "150s", "partition": 2}
    frozen = {"svc-serve-0", "svc-serve-1"}
    stack.write(service(namespace, role(replicas=4, tag="2"), rollout=held))
    stack.up().assert_fine()
    assert {name for name, tag in images(cluster, namespace).items() if tag == "1"} == frozen
    assert stack.preview() == {}
    owner = {"labels": {"team": "blue"}}
    stack.write(service(namespace, role(replicas=5, tag="2"), metadata=owner, rollout=held))
    stack.up().assert_fine()
    assert {name for name, tag in images(cluster, namespace).items() if tag == "1"} == frozen
    assert {each["metadata"]["labels"]["team"] for each in lws(cluster, namespace).values()} == {
        "blue"
    }
    after = pods(cluster, namespace)
    assert all(after[f"{name}-0"] == before[f"{name}-0"] for name in frozen)
    stack.write(service(namespace, role(replicas=5, tag="2"), metadata=owner))
    stack.up().assert_fine()
    assert set(images(cluster, namespace).values()) == {"2"}


@pytest.mark.core
@pytest.mark.proves(
    "Scaling adds or removes one LeaderWorkerSet and restarts nothing", needs=ENGINE
)
def test_scale(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=2, gpus=1, **SPREAD)))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=3, gpus=1, **SPREAD)))
    stack.up().assert_fine()
    assert stack.changes() == {"create": 1, "update": 1}  # set; PodGroup
    after = pods(cluster, namespace)
    assert {name: uid for name, uid in after.items() if name in before} == before
    assert len(after) == len(before) + 2
    stack.write(service(namespace, role(replicas=2, gpus=1, **SPREAD)))
    stack.up().assert_fine()
    assert stack.changes() == {"delete": 1, "update": 1}
    cluster.wait(lambda: pods(cluster, namespace) == before, 60, "pods of the removed replica")


@pytest.mark.proves(
    "Removing a role leaves nothing; changing metadata restarts nothing", needs=ENGINE
)
def test_role_removed_and_metadata(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=2), role("extra", replicas=2)))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    noted = {"labels": {"team": "red"}, "annotations": {"note": "x"}}
    stack.write(service(namespace, role(replicas=2), role("extra", replicas=2), metadata=noted))
    stack.up().assert_fine()
    assert pods(cluster, namespace) == before
    stack.write(service(namespace, role(replicas=2), metadata=noted))
    stack.up().assert_fine()
    cluster.wait(lambda: len(pods(cluster, namespace)) == 2, 60, "pods of the removed role")
    assert sorted(left(cluster, namespace)) == [
        "LeaderWorkerSet/svc-serve-0",
        "LeaderWorkerSet/svc-serve-1",
        "Service/svc",
    ]
    stack.down().assert_fine()
    assert left(cluster, namespace) == []
    assert stack.resources() == []
