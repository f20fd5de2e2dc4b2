"""Serving groups: rolling updates by group, and added and removed groups."""

from __future__ import annotations

import time
from typing import Any

import pytest

from e2e.engine.services import (
    POD_GROUP,
    PREFIX,
    Stack,
    get_tag,
    list_rendered,
    poll,
    role,
    service,
)
from e2e.harness.pods import is_ready

PODS = 3
"""Of each group: one prefill and two decode replicas, which are a gang."""


def make_groups(
    namespace: str, groups: int, tag: str = "1", owner: str = "red", **rollout: Any
) -> dict[str, Any]:
    kinds = (("prefill", "prefiller", 1), ("decode", "decoder", 2))
    roles = [
        role(name, kind, replicas=count, tag=tag, gpus=1, behavior="slow")
        for name, kind, count in kinds
    ]
    spec = {"level": "Group", "timeout": "150s", **rollout}
    metadata = {"labels": {"team": owner}}
    return service(namespace, *roles, groups=groups, rollout=spec, metadata=metadata)


def read_groups(stack: Stack) -> dict[int, tuple[int, set[str]]]:
    found: dict[int, tuple[int, set[str]]] = {}
    for pod in stack.cluster.pods(stack.namespace):
        group = int(pod["metadata"]["labels"][f"{PREFIX}group-index"])
        ready, tags = found.get(group, (0, set()))
        found[group] = (ready + is_ready(pod), tags | {get_tag(pod)})
    return found


def read_tags(stack: Stack) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for name, tag in stack.lws_tags().items():
        found.setdefault(int(name.split("-")[1]), set()).add(tag)
    return found


@pytest.mark.core
@pytest.mark.verifies(
    "rollout.level Group updates maxUnavailable groups at a time and respects the partition"
)
def test_groups_update_as_a_whole(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy_services(make_groups(stack.namespace, 3))
    assert read_groups(stack) == dict.fromkeys(range(3), (PODS, {"1"}))
    first = stack.pods()
    held: dict[str, Any] = {"partition": 1, "maxUnavailable": 1}
    with poll(lambda: read_groups(stack)) as seen:
        stack.deploy_services(make_groups(stack.namespace, 3, "2", **held))
    assert len(seen) > 20
    down = [{group for group in range(3) if sample.get(group, (0,))[0] < PODS} for sample in seen]
    order = [min(item) for item in down if item]
    assert {len(item) for item in down} == {0, 1}
    assert order == sorted(order, reverse=True)
    assert set(order) == {1, 2}
    for sample in seen:
        if "2" in sample[1][1]:
            assert sample[2] == (PODS, {"2"})
    assert read_tags(stack) == {0: {"1"}, 1: {"2"}, 2: {"2"}}
    assert stack.preview() == {}
    # Other metadata, and an additional group, which starts with the new image.
    stack.deploy_services(make_groups(stack.namespace, 4, "2", "blue", **held))
    assert read_tags(stack) == {0: {"1"}, 1: {"2"}, 2: {"2"}, 3: {"2"}}
    kept_pods = {name: uid for name, uid in first.items() if name.startswith("svc-0-")}
    assert len(kept_pods) == PODS
    assert kept_pods.items() <= stack.pods().items()
    # Two groups at a time, without a partition.
    with poll(lambda: read_groups(stack)) as seen:
        stack.deploy_services(make_groups(stack.namespace, 4, "3", "blue", maxUnavailable=2))
    down = [{group for group in range(4) if sample.get(group, (0,))[0] < PODS} for sample in seen]
    assert max(len(item) for item in down) == 2
    assert {3, 2} in down
    assert {1, 0} in down
    assert read_groups(stack) == dict.fromkeys(range(4), (PODS, {"3"}))
    assert stack.preview() == {}


@pytest.mark.verifies("Adding or removing a serving group changes no other group")
def test_groups_are_added_and_removed(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    before: dict[str, str] = {}
    group_changes = {"create": 4, "update": 1}  # PodGroup and LeaderWorkerSets; the component
    for groups in (1, 2, 3):
        wanted = make_groups(stack.namespace, groups)
        stack.deploy_services(wanted)
        if groups > 1:
            assert stack.read_changes() == group_changes
        after = stack.pods()
        assert before.items() <= after.items()
        assert len(after) == groups * PODS
        assert stack.list_objects() == list_rendered(wanted)
        before = after
    assert stack.preview() == {}
    fewer = make_groups(stack.namespace, 2)
    stack.deploy_services(fewer)
    assert stack.read_changes() == {"delete": 4, "update": 1}
    kept = {name: uid for name, uid in before.items() if not name.startswith("svc-2-")}
    stack.cluster.wait(lambda: stack.pods() == kept, 60, "pods of the removed group")
    time.sleep(1)
    assert stack.pods() == kept
    assert stack.list_objects() == list_rendered(fewer)
    pod_groups = stack.cluster.list(POD_GROUP, stack.namespace)
    assert [item["metadata"]["name"] for item in pod_groups] == ["svc-0", "svc-1"]
    stack.down().assert_succeeded()
    assert stack.list_objects() == []
    assert stack.read_resources() == []
