"""Updates of a running service: order, availability, and objects that do not change."""

from __future__ import annotations

import time
from typing import Any

import pytest

from e2e.engine.services import QUICK, TWO_NODES, Stack, role


def layouts(claim: str, *, core: bool = False) -> pytest.MarkDecorator:
    """Parametrize a test with both layouts, each with a claim."""
    core_marks = [pytest.mark.core] if core else []
    return pytest.mark.parametrize(
        "layout",
        [
            pytest.param("PerReplica", marks=[pytest.mark.verifies(claim), *core_marks]),
            pytest.param("PerRole", marks=pytest.mark.verifies(f"{claim} (layout PerRole)")),
        ],
    )


def list_leader_names(layout: str, *indices: int) -> list[str]:
    """Return the leader pods of replicas of the role `serve`."""
    return [f"svc-serve-{index}{'-0' if layout == 'PerReplica' else ''}" for index in indices]


CREATED = (
    "Creation waits for replicas, `up` again does nothing, image changes respect maxUnavailable"
)
PER_ROLE_CREATED = f"{CREATED} (layout PerRole)"


@pytest.mark.parametrize(
    ("layout", "replicas", "gpus"),
    [
        pytest.param(layout, replicas, gpus, marks=[pytest.mark.verifies(claim), *marks])
        for layout, replicas, gpus, claim, *marks in (
            ("PerReplica", 3, None, CREATED, pytest.mark.core),
            ("PerReplica", 3, 0, CREATED, pytest.mark.core),
            ("PerReplica", 8, 0, CREATED),
            ("PerRole", 3, None, PER_ROLE_CREATED, pytest.mark.core),
            ("PerRole", 5, 4, PER_ROLE_CREATED, pytest.mark.core),
        )
    ],
)
def test_created_service_changes_image_gradually(
    stack: Stack, layout: str, replicas: int, gpus: int | None
) -> None:
    """Replicas with `gpus` have two nodes, and are a gang."""
    stack.cluster.add_nodes(6)
    more: dict[str, Any] = {"behavior": "slow", "replicas": replicas}
    more |= {} if gpus is None else {**TWO_NODES, "gpus": gpus}
    stack.write(stack.service(role(**more), layout=layout))
    lws = replicas if layout == "PerReplica" else 1
    assert stack.preview() == {"create": lws + 3 + (gpus is not None)}
    stack.up().assert_succeeded()
    assert stack.count_ready() == {"serve": replicas}
    assert stack.read_output("status")["components"]["serve"]["readyReplicas"] == replicas
    for _ in range(2):
        assert stack.preview() == {}
        stack.up().assert_succeeded()
        assert stack.read_changes() == {}
    min_ready = stack.roll(role(tag="2", **more), layout=layout)
    assert min_ready["samples"] > replicas
    assert min_ready["serve"] == replicas - 1, min_ready
    assert set(stack.pod_tags().values()) == {"2"}
    assert stack.read_output("status")["components"]["serve"]["phase"] == "Running"
    assert stack.preview() == {}
    stack.destroy()


@pytest.mark.verifies("A gang of 40 replicas is created with default parallelism")
def test_gang_of_forty_replicas_is_created(stack: Stack) -> None:
    stack.cluster.add_nodes(10)
    stack.deploy(role(replicas=40, gpus=1, **TWO_NODES))
    assert stack.count_ready() == {"serve": 40}
    assert stack.preview() == {}


@layouts("A failing image halts the update; a good or the old image repairs it", core=True)
@pytest.mark.parametrize("repair", ["3", "1"])
def test_failing_image_halts_update_until_repaired(stack: Stack, layout: str, repair: str) -> None:
    stack.cluster.add_nodes(4)
    # A LeaderWorkerSet with three replicas has three times the timeout.
    seconds, halted = ("15s", "svc-serve-2") if layout == "PerReplica" else ("5s", "svc-serve")
    short: dict[str, Any] = {"layout": layout, "rollout": {"timeout": seconds}}
    stack.deploy(role(), **short)
    before = stack.pods()
    result = stack.fail(role(tag="2", behavior="unpullable"), **short)
    limit = "" if layout == "PerReplica" else " 5s per replica"
    expected = f"svc: {halted} is not available after 15s (rollout.timeout{limit})"
    assert expected in result.text, result.text
    assert stack.pod_tags() == dict(zip(list_leader_names(layout, 0, 1, 2), "112", strict=True))
    if layout == "PerReplica":
        assert list(stack.lws_tags().values()) == ["1", "1", "2"]
    after = stack.pods()
    changed = [name for name, uid in before.items() if after.get(name) != uid]
    assert changed == list_leader_names(layout, 2)
    assert stack.count_ready() == {"serve": 2}
    min_ready = stack.roll(role(tag=repair), layout=layout)
    assert min_ready["serve"] >= 2
    assert set(stack.lws_tags().values()) == set(stack.pod_tags().values()) == {repair}
    assert stack.count_ready() == {"serve": 3}
    assert stack.preview() == {}


@layouts("Replicas below the partition keep their pods, also in later updates")
def test_replicas_below_partition_keep_their_pods(stack: Stack, layout: str) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=4), layout=layout)
    before = stack.pods()
    held: dict[str, Any] = {"layout": layout, "rollout": {"timeout": "150s", "partition": 2}}
    frozen = list_leader_names(layout, 0, 1)
    stack.deploy(role(replicas=4, tag="2"), **held)
    assert [name for name, tag in stack.pod_tags().items() if tag == "1"] == frozen
    assert stack.preview() == {}
    owner = {"labels": {"team": "blue"}}
    stack.deploy(role(replicas=5, tag="2"), metadata=owner, **held)
    assert [name for name, tag in stack.pod_tags().items() if tag == "1"] == frozen
    assert {item["metadata"]["labels"]["team"] for item in stack.lws().values()} == {"blue"}
    after = stack.pods()
    assert all(after[name] == before[name] for name in frozen)
    stack.deploy(role(replicas=5, tag="2"), metadata=owner, layout=layout)
    assert set(stack.lws_tags().values()) == set(stack.pod_tags().values()) == {"2"}


@layouts("Scaling restarts nothing, and adds or removes at most one LeaderWorkerSet", core=True)
def test_scaling_restarts_no_pod(stack: Stack, layout: str) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES), layout=layout)
    before = stack.pods()
    stack.deploy(role(replicas=3, gpus=1, **TWO_NODES), layout=layout)
    # PodGroup and the component, and a LeaderWorkerSet.
    grown = {"create": 1, "update": 2} if layout == "PerReplica" else {"update": 3}
    assert stack.read_changes() == grown
    after = stack.pods()
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2
    assert stack.count_ready() == {"serve": 3}
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES), layout=layout)
    assert stack.read_changes() == ({"delete": 1, "update": 2} if "create" in grown else grown)
    stack.cluster.wait(lambda: stack.pods() == before, 60, "pods of the removed replica")


@layouts("AllAtOnce and Recreate change all replicas and wait for rollout.timeout")
@pytest.mark.parametrize("strategy", ["AllAtOnce", "Recreate"])
def test_other_strategies_change_all_replicas(stack: Stack, layout: str, strategy: str) -> None:
    stack.cluster.add_nodes(3)
    spec: dict[str, Any] = {"layout": layout, "rollout": {**QUICK, "strategy": strategy}}
    stack.deploy(role(), **spec)
    before = stack.list_lws_uids()
    min_ready = stack.roll(role(tag="2", behavior="slow"), **spec)
    assert stack.count_ready() == {"serve": 3}
    kept = {stack.list_lws_uids()[name] == uid for name, uid in before.items()}
    assert kept == {strategy == "AllAtOnce"}
    # All at once needs the feature gate MaxUnavailableStatefulSet, which is off in 1.35.4.
    assert min_ready["serve"] == (2 if (layout, strategy) == ("PerRole", "AllAtOnce") else 0)
    assert stack.preview() == {}
    started = time.monotonic()
    short = {**spec, "rollout": {**spec["rollout"], "timeout": "15s"}}
    stack.fail(role(tag="3", behavior="unpullable"), **short)
    assert time.monotonic() - started < 90, "an update has wait.timeout, which is 150s"
    stack.deploy(role(tag="4"), **spec)
    assert stack.count_ready() == {"serve": 3}


@pytest.mark.verifies("Removing a role leaves nothing; changing metadata restarts nothing")
def test_removed_role_leaves_nothing(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2), role("extra", replicas=2))
    before = stack.pods()
    noted = {"labels": {"team": "red"}, "annotations": {"note": "x"}}
    stack.deploy(role(replicas=2), role("extra", replicas=2), metadata=noted)
    assert stack.pods() == before
    stack.deploy(role(replicas=2), metadata=noted)
    stack.cluster.wait(lambda: len(stack.pods()) == 2, 60, "pods of the removed role")
    assert sorted(stack.list_objects()) == [
        "LeaderWorkerSet/svc-serve-0",
        "LeaderWorkerSet/svc-serve-1",
        "Service/svc",
    ]
    stack.destroy()


@pytest.mark.core
@pytest.mark.parametrize("workers", [None, "2"])
@pytest.mark.verifies("One update adds replicas to a full gang and changes its image")
def test_replicas_and_image_change_together(stack: Stack, workers: str | None) -> None:
    stack.cluster.add_nodes(6)
    parallel = {} if workers is None else {"PULUMI_PARALLEL": workers}
    stack.write(stack.service(role(replicas=3, **TWO_NODES)))
    stack.up(**parallel).assert_succeeded()
    before = stack.pods()
    stack.write(stack.service(role(replicas=10, tag="2", behavior="slow", **TWO_NODES)))
    assert stack.preview() == {"create": 7, "update": 5}
    with stack.min_ready_replicas() as min_ready:
        stack.up(**parallel).assert_succeeded()
    assert min_ready["serve"] == 2, min_ready
    assert stack.count_ready() == {"serve": 10}
    assert set(stack.lws_tags().values()) == {"2"}
    assert not set(stack.pods().items()) & set(before.items())
    assert stack.preview() == {}
    stack.write(stack.service(role(replicas=10, tag="3", **TWO_NODES)))
    with stack.min_ready_replicas() as min_ready:
        stack.up(**parallel).assert_succeeded()
    assert min_ready["serve"] == 9, min_ready
    assert stack.preview() == {}


@pytest.mark.verifies("With roleOrder Sequential, a role joins a gang while earlier roles update")
def test_role_joins_gang_during_update(stack: Stack) -> None:
    stack.cluster.add_nodes(6)
    order: dict[str, Any] = {"rollout": {"roleOrder": "Sequential", "timeout": "60s"}}

    def make_service(tag: str, *decoders: int) -> dict[str, Any]:
        more = [role("decode", "decoder", replicas=count, tag=tag) for count in decoders]
        first = role("prefill", "prefiller", replicas=2, tag=tag, behavior="slow", **TWO_NODES)
        return stack.service(first, *more, **order)

    stack.deploy_services(make_service("1", 1))
    min_ready = stack.roll_services(make_service("2", 3))
    assert min_ready["prefill"] == 1, min_ready
    assert stack.count_ready() == {"prefill": 2, "decode": 3}
    assert set(stack.lws_tags().values()) == {"2"}
    assert stack.preview() == {}
