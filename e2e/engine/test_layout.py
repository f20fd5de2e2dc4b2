"""One LeaderWorkerSet for each role, on the real engine: LeaderWorkerSet paces what is in it."""

from __future__ import annotations

import time
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
    tags,
)
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}
PER_ROLE: dict[str, Any] = {"layout": "PerRole"}


@pytest.mark.core
@pytest.mark.parametrize(("replicas", "gang"), [(3, False), (5, True)])
@pytest.mark.proves(
    "PerRole waits at creation, does nothing twice and respects maxUnavailable",
    needs=ENGINE,
)
def test_create_nothing_and_an_image_change(
    cluster: Cluster, namespace: str, project: Make, replicas: int, *, gang: bool
) -> None:
    cluster.add_nodes(6)
    stack = project()
    more: dict[str, Any] = {**SPREAD, "gpus": 8 if replicas < 4 else 4} if gang else {}
    stack.write(service(namespace, role(replicas=replicas, behaviour="slow", **more), **PER_ROLE))
    assert stack.preview() == {"create": 5 if gang else 4}
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": replicas}
    assert stack.output("status")["components"]["serve"]["readyReplicas"] == replicas
    assert stack.preview() == {}
    stack.up().assert_fine()
    assert stack.changes() == {}
    changed = role(replicas=replicas, tag="2", behaviour="slow", **more)
    stack.write(service(namespace, changed, **PER_ROLE))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["samples"] > replicas
    assert least["serve"] == replicas - 1, least
    assert set(tags(cluster, namespace).values()) == {"2"}
    assert stack.output("status")["components"]["serve"]["phase"] == "Running"
    assert stack.preview() == {}
    stack.down().assert_fine()
    assert left(cluster, namespace) == []


@pytest.mark.proves("A PerRole gang without a spare node updates in place", needs=ENGINE)
def test_a_gang_without_a_spare_node(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(6)
    stack = project()
    stack.write(service(namespace, role(replicas=3, gpus=8, **SPREAD), **PER_ROLE))
    stack.up().assert_fine()
    stack.write(service(namespace, role(replicas=3, gpus=8, tag="2", **SPREAD), **PER_ROLE))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2, least
    assert set(tags(cluster, namespace).values()) == {"2"}


@pytest.mark.parametrize("unavailable", [0, 1])
@pytest.mark.proves(
    "maxSurge in a gang waits for capacity, then continues",
    needs=ENGINE,
)
def test_more_than_all_for_a_time(
    cluster: Cluster, namespace: str, project: Make, unavailable: int
) -> None:
    cluster.add_nodes(6)
    stack = project()
    surge: dict[str, Any] = {"maxSurge": 1, "maxUnavailable": unavailable, "timeout": "20s"}
    fixed = {**PER_ROLE, "rollout": surge}
    stack.write(service(namespace, role(replicas=3, gpus=8, **SPREAD), **fixed))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=3, gpus=8, tag="2", **SPREAD), **fixed))
    with lowest(cluster, namespace) as least:
        assert stack.up().status != 0
    assert least["serve"] == 3
    assert before.items() <= pods(cluster, namespace).items()
    cluster.add_nodes(2)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
        cluster.wait(lambda: len(pods(cluster, namespace)) == 6, 90, "the spare one goes")
    assert least["serve"] >= 3 - unavailable
    assert ready(cluster, namespace) == {"serve": 3}
    assert set(tags(cluster, namespace).values()) == {"2"}


@pytest.mark.parametrize("repair", ["3", "1"])
@pytest.mark.proves(
    "With PerRole, a failing image halts the update; another image repairs it",
    needs=ENGINE,
)
def test_a_failing_image(cluster: Cluster, namespace: str, project: Make, repair: str) -> None:
    cluster.add_nodes(4)
    stack = project()
    short: dict[str, Any] = {**PER_ROLE, "rollout": {"timeout": "5s"}}
    stack.write(service(namespace, role(), **short))
    stack.up().assert_fine()
    stack.write(service(namespace, role(tag="2", behaviour="unpullable"), **short))
    told = stack.up()
    assert told.status != 0
    assert "svc-serve" in told.text
    assert tags(cluster, namespace) == {"svc-serve-0": "1", "svc-serve-1": "1", "svc-serve-2": "2"}
    assert ready(cluster, namespace) == {"serve": 2}
    stack.write(service(namespace, role(tag=repair), **PER_ROLE))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] >= 2
    assert set(tags(cluster, namespace).values()) == {repair}
    assert stack.preview() == {}


@pytest.mark.proves(
    "With PerRole, LeaderWorkerSet holds the partition until it is lowered",
    needs=ENGINE,
)
def test_partition(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    held: dict[str, Any] = {**PER_ROLE, "rollout": {"timeout": "150s", "partition": 2}}
    stack.write(service(namespace, role(replicas=4), **held))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=4, tag="2"), **held))
    stack.up().assert_fine()
    old = {"svc-serve-0": "1", "svc-serve-1": "1"}
    assert tags(cluster, namespace) == {**old, "svc-serve-2": "2", "svc-serve-3": "2"}
    assert all(pods(cluster, namespace)[name] == before[name] for name in old)
    assert stack.preview() == {}
    stack.write(service(namespace, role(replicas=4, tag="2"), **PER_ROLE))
    stack.up().assert_fine()
    assert set(tags(cluster, namespace).values()) == {"2"}


@pytest.mark.proves(
    "With PerRole, Sequential updates a role after the previous one is available",
    needs=ENGINE,
)
def test_roles_one_after_the_other(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    order: dict[str, Any] = {**PER_ROLE, "rollout": {"roleOrder": "Sequential", "timeout": "10s"}}

    def pair(tag: str, **more: Any) -> dict[str, Any]:
        roles = [
            role(name, kind, replicas=2, tag=tag, gpus=1, **more)
            for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
        ]
        return service(namespace, *roles, **order)

    stack.write(pair("1"))
    stack.up().assert_fine()
    stack.write(pair("2", behaviour="unpullable"))
    assert stack.up().status != 0
    halted = {"svc-prefill-0": "1", "svc-prefill-1": "2"}
    untouched = {"svc-decode-0": "1", "svc-decode-1": "1"}
    assert tags(cluster, namespace) == {**halted, **untouched}
    stack.write(pair("3"))
    stack.up().assert_fine()
    assert set(tags(cluster, namespace).values()) == {"3"}


@pytest.mark.parametrize("strategy", ["AllAtOnce", "Recreate"])
@pytest.mark.proves("With PerRole, AllAtOnce and Recreate change all replicas", needs=ENGINE)
def test_other_strategies(cluster: Cluster, namespace: str, project: Make, strategy: str) -> None:
    cluster.add_nodes(3)
    stack = project()
    rollout: dict[str, Any] = {**PER_ROLE, "rollout": {"timeout": "150s", "strategy": strategy}}
    stack.write(service(namespace, role(), **rollout))
    stack.up().assert_fine()
    before = lws(cluster, namespace)["svc-serve"]["metadata"]["uid"]
    stack.write(service(namespace, role(tag="2", behaviour="slow"), **rollout))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
    # All at once only with the feature gate MaxUnavailableStatefulSet, which is off in 1.35.4.
    assert least["serve"] == (2 if strategy == "AllAtOnce" else 0)
    kept = lws(cluster, namespace)["svc-serve"]["metadata"]["uid"] == before
    assert kept == (strategy == "AllAtOnce")
    assert stack.preview() == {}


@pytest.mark.proves("Recreate raises nodeCount of an all-or-nothing PerRole gang", needs=ENGINE)
def test_more_nodes_in_a_replica(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(6)
    stack = project()
    anew: dict[str, Any] = {**PER_ROLE, "rollout": {"strategy": "Recreate", "timeout": "60s"}}
    for count in (2, 3):
        spread: dict[str, Any] = {"multinode": {"nodeCount": count, "launcher": "none"}}
        stack.write(service(namespace, role(replicas=2, gpus=8, **spread), **anew))
        stack.up().assert_fine()
        assert ready(cluster, namespace) == {"serve": 2}
        assert len(pods(cluster, namespace)) == 2 * count


@pytest.mark.proves(
    "With PerRole, `up` does not wait for unschedulable optional replicas",
    needs=ENGINE,
)
def test_only_the_minimum_fits(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    more: dict[str, Any] = {
        **PER_ROLE,
        "schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"serve": 2}}},
    }
    stack.write(service(namespace, role(replicas=3, gpus=8, **SPREAD), **more))
    stack.up().assert_fine()
    assert stack.output("status")["components"]["serve"]["readyReplicas"] in (1, 2)
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 2}, 60, "replicas")
    stack.write(service(namespace, role(replicas=3, gpus=8, tag="2", **SPREAD), **more))
    stack.up().assert_fine()
    time.sleep(15)
    # Only the third, which does not run, has the new image.
    assert tags(cluster, namespace) == {"svc-serve-0": "1", "svc-serve-1": "1", "svc-serve-2": "2"}
    assert ready(cluster, namespace) == {"serve": 2}
    cluster.add_nodes(2)
    cluster.wait(lambda: set(tags(cluster, namespace).values()) == {"2"}, 60, "the update goes on")


@pytest.mark.parametrize("layouts", [("PerReplica", "PerRole"), ("PerRole", "PerReplica")])
@pytest.mark.proves(
    "Changing the layout of a running role is rejected; scaled to zero it succeeds",
    needs=ENGINE,
)
def test_the_layout_of_a_running_service_stays(
    cluster: Cluster, namespace: str, project: Make, layouts: tuple[str, str]
) -> None:
    cluster.add_nodes(3)
    stack = project()
    first: dict[str, Any] = {"layout": layouts[0]}
    second: dict[str, Any] = {"layout": layouts[1]}
    stack.write(service(namespace, role(), **first))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(), **second))
    for words in (("preview",), ("up", "--yes", "--skip-preview")):
        told = stack.run(*words)
        assert told.status != 0
        assert f"layout: {layouts[1]} cannot replace {layouts[0]}" in told.text
    assert pods(cluster, namespace) == before
    # Beside it there may be another one.
    beside = service(namespace, role(), name="next", **second)
    stack.write(service(namespace, role(), **first), beside)
    stack.up().assert_fine()
    assert len(pods(cluster, namespace)) == 6
    stack.write(beside)
    stack.up().assert_fine()
    cluster.wait(lambda: len(pods(cluster, namespace)) == 3, 60, "pods of the old service")
    stack.write(service(namespace, role(replicas=0), name="next", **second))
    stack.up().assert_fine()
    stack.write(service(namespace, role(), name="next", **first))
    stack.up().assert_fine()
    assert set(images(cluster, namespace).values()) == {"1"}
