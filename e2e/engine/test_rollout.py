"""Updates of a running service: order, availability, and objects that do not change."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import TWO_NODES, Stack, role


@pytest.mark.core
@pytest.mark.proves("Creation waits for replicas; further runs of `up` do nothing")
def test_create_waits_and_repeated_up_does_nothing(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.write(stack.service(role(behaviour="slow")))
    assert stack.preview() == {"create": 6}
    stack.up().assert_succeeded()
    assert stack.ready() == {"serve": 3}
    for _ in range(2):
        assert stack.preview() == {}
        stack.up().assert_succeeded()
        assert stack.changes() == {}


@pytest.mark.parametrize(
    ("replicas", "gang"),
    [(3, False), pytest.param(3, True, marks=pytest.mark.core), (8, True)],
)
@pytest.mark.proves("An image change takes down at most maxUnavailable replicas")
def test_image_change_respects_max_unavailable(stack: Stack, replicas: int, *, gang: bool) -> None:
    stack.cluster.add_nodes(6)
    more = TWO_NODES if gang else {}
    stack.deploy(role(replicas=replicas, **more))
    assert stack.ready() == {"serve": replicas}
    with stack.min_ready_replicas() as least:
        stack.deploy(role(replicas=replicas, tag="2", behaviour="slow", **more))
    assert least["samples"] > replicas
    assert least["serve"] == replicas - 1, least
    assert set(stack.images().values()) == {"2"}
    assert stack.preview() == {}


@pytest.mark.proves("A gang of 40 replicas is created with default parallelism")
def test_gang_of_forty_replicas_is_created(stack: Stack) -> None:
    stack.cluster.add_nodes(10)
    stack.deploy(role(replicas=40, gpus=1, **TWO_NODES))
    assert stack.ready() == {"serve": 40}
    assert stack.preview() == {}


@pytest.mark.core
@pytest.mark.proves("A failing image halts the update; a good or the old image repairs it")
@pytest.mark.parametrize("repair", ["3", "1"])
def test_a_failing_image(stack: Stack, repair: str) -> None:
    stack.cluster.add_nodes(4)
    short: dict[str, Any] = {"rollout": {"timeout": "15s"}}
    stack.deploy(role(), **short)
    before = stack.pods()
    stack.write(stack.service(role(tag="2", behaviour="unpullable"), **short))
    result = stack.up().assert_failed()
    assert "svc: svc-serve-2 is not available after 15s (rollout.timeout)" in result.text, (
        result.text
    )
    assert stack.images() == {
        "svc-serve-0": "1",
        "svc-serve-1": "1",
        "svc-serve-2": "2",
    }
    after = stack.pods()
    assert {name for name, uid in before.items() if after.get(name) != uid} == {"svc-serve-2-0"}
    assert stack.ready() == {"serve": 2}
    with stack.min_ready_replicas() as least:
        stack.deploy(role(tag=repair, behaviour="ready"))
    assert least["serve"] >= 2
    assert set(stack.images().values()) == {repair}
    assert stack.ready() == {"serve": 3}
    assert stack.preview() == {}


@pytest.mark.proves("Replicas below the partition keep their pods, also in later updates")
def test_partition(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=4))
    before = stack.pods()
    held = {"timeout": "150s", "partition": 2}
    frozen = {"svc-serve-0", "svc-serve-1"}
    stack.deploy(role(replicas=4, tag="2"), rollout=held)
    assert {name for name, tag in stack.images().items() if tag == "1"} == frozen
    assert stack.preview() == {}
    owner = {"labels": {"team": "blue"}}
    stack.deploy(role(replicas=5, tag="2"), metadata=owner, rollout=held)
    assert {name for name, tag in stack.images().items() if tag == "1"} == frozen
    assert {each["metadata"]["labels"]["team"] for each in stack.lws().values()} == {"blue"}
    after = stack.pods()
    assert all(after[f"{name}-0"] == before[f"{name}-0"] for name in frozen)
    stack.deploy(role(replicas=5, tag="2"), metadata=owner)
    assert set(stack.images().values()) == {"2"}


@pytest.mark.core
@pytest.mark.proves("Scaling adds or removes one LeaderWorkerSet and restarts nothing")
def test_scale(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES))
    before = stack.pods()
    stack.deploy(role(replicas=3, gpus=1, **TWO_NODES))
    assert stack.changes() == {
        "create": 1,
        "update": 2,
    }  # LeaderWorkerSet; PodGroup and the component
    after = stack.pods()
    assert {name: uid for name, uid in after.items() if name in before} == before
    assert len(after) == len(before) + 2
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES))
    assert stack.changes() == {"delete": 1, "update": 2}
    stack.cluster.wait(lambda: stack.pods() == before, 60, "pods of the removed replica")


@pytest.mark.proves("Removing a role leaves nothing; changing metadata restarts nothing")
def test_removed_role_leaves_nothing(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2), role("extra", replicas=2))
    before = stack.pods()
    noted = {"labels": {"team": "red"}, "annotations": {"note": "x"}}
    stack.deploy(role(replicas=2), role("extra", replicas=2), metadata=noted)
    assert stack.pods() == before
    stack.deploy(role(replicas=2), metadata=noted)
    stack.cluster.wait(lambda: len(stack.pods()) == 2, 60, "pods of the removed role")
    assert sorted(stack.remaining_objects()) == [
        "LeaderWorkerSet/svc-serve-0",
        "LeaderWorkerSet/svc-serve-1",
        "Service/svc",
    ]
    stack.down().assert_succeeded()
    assert stack.remaining_objects() == []
    assert stack.resources() == []


@pytest.mark.core
@pytest.mark.parametrize("workers", [None, "2"])
@pytest.mark.proves("One update adds replicas to a full gang and changes its image")
def test_replicas_and_image_change_together(stack: Stack, workers: str | None) -> None:
    stack.cluster.add_nodes(6)
    parallel = {} if workers is None else {"PULUMI_PARALLEL": workers}
    stack.write(stack.service(role(replicas=3, **TWO_NODES)))
    stack.up(**parallel).assert_succeeded()
    before = stack.pods()
    stack.write(stack.service(role(replicas=10, tag="2", behaviour="slow", **TWO_NODES)))
    assert stack.preview() == {"create": 7, "update": 5}
    with stack.min_ready_replicas() as least:
        stack.up(**parallel).assert_succeeded()
    assert least["serve"] == 2, least
    assert stack.ready() == {"serve": 10}
    assert set(stack.images().values()) == {"2"}
    assert not set(stack.pods().items()) & set(before.items())
    assert stack.preview() == {}
    stack.write(stack.service(role(replicas=10, tag="3", **TWO_NODES)))
    with stack.min_ready_replicas() as least:
        stack.up(**parallel).assert_succeeded()
    assert least["serve"] == 9, least
    assert stack.preview() == {}


@pytest.mark.proves("With roleOrder Sequential, a role joins a gang while earlier roles update")
def test_role_joins_gang_during_update(stack: Stack) -> None:
    stack.cluster.add_nodes(6)
    order: dict[str, Any] = {"rollout": {"roleOrder": "Sequential", "timeout": "60s"}}

    def wanted(tag: str, *decoders: int) -> dict[str, Any]:
        more = [role("decode", "decoder", replicas=count, tag=tag) for count in decoders]
        first = role("prefill", "prefiller", replicas=2, tag=tag, behaviour="slow", **TWO_NODES)
        return stack.service(first, *more, **order)

    stack.deploy_services(wanted("1", 1))
    with stack.min_ready_replicas() as least:
        stack.deploy_services(wanted("2", 3))
    assert least["prefill"] == 1, least
    assert stack.ready() == {"prefill": 2, "decode": 3}
    assert set(stack.images().values()) == {"2"}
    assert stack.preview() == {}
