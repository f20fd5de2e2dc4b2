"""LeaderWorkerSet fields outside the pod template: some roll, others are immutable."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import NO_GANG, Stack, rendered, role


def spread(**more: Any) -> dict[str, Any]:
    nodes = {"nodeCount": 4, "launcher": "none"}
    return role(replicas=2, behaviour="slow", **{"multinode": nodes, **more})


@pytest.mark.verifies(
    "nodeCount, networkConfig and restartPolicy roll; startupPolicy restarts nothing"
)
def test_mutable_fields_roll(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(spread(), **NO_GANG)
    made, before = stack.lws_uids(), stack.pods()
    stack.deploy(spread(startupPolicy="LeaderReady"), **NO_GANG)
    assert stack.changes() == {"update": 3}  # LeaderWorkerSets and the component
    assert stack.pods() == before
    for more in (
        {"multinode": {"nodeCount": 2, "launcher": "none"}},
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}, "restartPolicy": "None"},
        {},
    ):
        least = stack.roll(spread(**more), **NO_GANG)
        assert least["serve"] == 1, least
        assert stack.lws_uids() == made
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
    stack.deploy(spread(), **NO_GANG)
    for strategy, policy in steps:
        made = stack.lws_uids()
        text = "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it"
        stack.assert_rejected(stack.service(spread(**policy), **NO_GANG), text)
        pace: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        wanted = stack.service(spread(**policy), **NO_GANG, **pace)
        stack.write(wanted)
        assert stack.preview() == {"replace": 2, "update": 1}
        stack.up().assert_succeeded()
        assert stack.ready() == {"serve": 2}
        assert not set(stack.lws_uids().values()) & set(made.values())
        assert stack.remaining_objects() == rendered(wanted)
        # Nothing differs, so the strategy can be Rolling again.
        stack.deploy(spread(**policy), **NO_GANG)
        assert stack.preview() == {}
