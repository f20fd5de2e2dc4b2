"""A subGroupPolicy that differs from the one in the stack's state."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import recorded, urn
from samples import nodes, role, service

from fusioninfer_pulumi import InferenceService, InvalidServiceError

SIZE_2 = {"subGroupSize": 2}
LIVE_2 = {**SIZE_2, "subGroupPolicyType": "LeaderWorker"}
GROUPS = {"groups": 2, "rollout": {"level": "Group"}}


def held(policy: Any, count: int = 2, name: str = "svc-inference-{}") -> dict[str, Any]:
    found = {}
    for index in range(count):
        one = recorded(name.format(index), index=str(index))
        template = {"workerTemplate": {"spec": {}}, "subGroupPolicy": policy}
        one["outputs"]["spec"] = {"leaderWorkerTemplate": template}
        found[urn(name.format(index))] = one
    return found


def made(engine: Any, policy: Any, count: int = 2, layout: str = "PerReplica", **more: Any) -> Any:
    wide = role(replicas=count, multinode=nodes(4, launcher="none"), subGroupPolicy=policy)
    spec = {"layout": layout, "schedulingStrategy": {"gangPolicy": {"mode": "Off"}}, **more}
    return engine.run(lambda: InferenceService("svc", service(wide, **spec)) and None)


@pytest.mark.parametrize(
    ("before", "after"), [(None, SIZE_2), (LIVE_2, {"subGroupSize": 4}), (LIVE_2, None)]
)
@pytest.mark.parametrize("more", [{}, {"rollout": {"maxUnavailable": 2}}])
def test_more_than_may_be_down_are_not_replaced(
    engine: Any, before: Any, after: Any, more: Any
) -> None:
    engine.state = held(before, 3)
    with pytest.raises(InvalidServiceError) as refused:
        made(engine, after, 3, **more)
    assert str(refused.value).startswith(
        "svc: roles[0].subGroupPolicy: LeaderWorkerSet does not change it on a set that exists: "
        "3 replicas of inference would end at once and be made anew; rename the role"
    )


@pytest.mark.parametrize("strategy", ["AllAtOnce", "Recreate"])
@pytest.mark.parametrize(("before", "after"), [(None, SIZE_2), (LIVE_2, None)])
def test_where_a_pause_is_accepted_the_old_set_goes_first(
    engine: Any, before: Any, after: Any, strategy: str
) -> None:
    engine.state = held(before)
    deployment = made(engine, after, rollout={"strategy": strategy})
    for index in range(2):
        assert deployment[f"svc-inference-{index}"].request.deleteBeforeReplace


@pytest.mark.parametrize(
    ("state", "after", "more"),
    [
        (None, SIZE_2, {}),
        ({}, SIZE_2, {}),
        (held(LIVE_2), SIZE_2, {}),
        (held(LIVE_2), LIVE_2, {}),
        (held(None), None, {}),
        # New replicas only, as many as may be down, those that keep what they have.
        (held(None, 1), SIZE_2, {}),
        (held(None), SIZE_2, {"rollout": {"maxUnavailable": 2}}),
        (held(None), SIZE_2, {"rollout": {"partition": 2}}),
        (held(None), SIZE_2, {"rollout": {"partition": 1}}),
        # Another name, and a template that is not known.
        (held(None, name="old-inference-{}"), SIZE_2, {}),
        ({urn("svc-inference-0"): recorded("svc-inference-0", index="0")}, SIZE_2, {}),
        (held(None, 2, "svc-{}-inference-0"), SIZE_2, {**GROUPS, "rollout": {
            "level": "Group", "maxUnavailable": 2}}),
    ],
)  # fmt: skip
def test_all_else_is_as_it_was(engine: Any, state: Any, after: Any, more: Any) -> None:
    engine.state = state
    assert made(engine, after, **more).children


@pytest.mark.parametrize(
    ("state", "more"),
    [
        (held(None, 2, "svc-{}-inference-0"), GROUPS),
        ({urn("svc-inference"): held(None, 1)[urn("svc-inference-0")]}, {"layout": "PerRole"}),
    ],
)
def test_groups_and_whole_roles_are_held_to_their_own_limits(
    engine: Any, state: Any, more: Any
) -> None:
    for one in state.values():
        if "layout" in more:
            one["outputs"]["metadata"]["name"] = "svc-inference"
            del one["outputs"]["metadata"]["labels"]["fusioninfer.io/replica-index"]
    engine.state = state
    with pytest.raises(InvalidServiceError, match=r"roles\[0\]\.subGroupPolicy: "):
        made(engine, SIZE_2, **more)
