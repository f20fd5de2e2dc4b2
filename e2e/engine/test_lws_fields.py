"""LeaderWorkerSet fields outside the pod template: changes of some roll, others are immutable."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import NO_GANG, Stack, list_rendered, role


def make_role(**more: Any) -> dict[str, Any]:
    nodes = {"nodeCount": 4, "launcher": "none"}
    return role(replicas=2, behavior="slow", **{"multinode": nodes, **more})


@pytest.mark.verifies(
    "nodeCount, networkConfig and restartPolicy roll; startupPolicy restarts nothing"
)
def test_mutable_fields_roll(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(make_role(), **NO_GANG)
    uids, before = stack.list_lws_uids(), stack.pods()
    stack.deploy(make_role(startupPolicy="LeaderReady"), **NO_GANG)
    assert stack.read_changes() == {"update": 3}  # LeaderWorkerSets and the component
    assert stack.pods() == before
    for more in (
        {"multinode": {"nodeCount": 2, "launcher": "none"}},
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}, "restartPolicy": "None"},
        {},
    ):
        min_ready = stack.roll(make_role(**more), **NO_GANG)
        assert min_ready["serve"] == 1, min_ready
        assert stack.list_lws_uids() == uids
        assert not set(stack.pods().items()) & set(before.items())
    assert stack.preview() == {}


@pytest.mark.verifies(
    "Changing subGroupPolicy is rejected at preview unless the strategy is AllAtOnce or Recreate"
)
def test_changed_subgroup_policy_is_rejected(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    steps: list[tuple[str, dict[str, Any]]] = [
        ("AllAtOnce", {"subGroupPolicy": {"subGroupSize": 2}}),
        ("Recreate", {"subGroupPolicy": {"subGroupSize": 4}}),
        ("AllAtOnce", {}),
    ]
    stack.deploy(make_role(), **NO_GANG)
    for strategy, policy in steps:
        uids = stack.list_lws_uids()
        text = "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it"
        stack.assert_rejected(stack.service(make_role(**policy), **NO_GANG), text)
        spec: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        wanted = stack.service(make_role(**policy), **NO_GANG, **spec)
        stack.write(wanted)
        assert stack.preview() == {"replace": 2, "update": 1}
        stack.up().assert_succeeded()
        assert stack.count_ready() == {"serve": 2}
        assert not set(stack.list_lws_uids().values()) & set(uids.values())
        assert stack.list_objects() == list_rendered(wanted)
        # Nothing differs, so the strategy can be Rolling again.
        stack.deploy(make_role(**policy), **NO_GANG)
        assert stack.preview() == {}
