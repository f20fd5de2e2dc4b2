"""Changes of subGroupPolicy, compared with the stack's state."""

from __future__ import annotations

from typing import Any

import pytest
from running import assert_edit_errors
from samples import nodes, of_kind, plan_of, rendered, role, service
from state_entries import lws_entry, urn

from fusioninfer_pulumi import InferenceService, InvalidServiceError
from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.topology.leader_worker_set import set_default_type

SIZE_2 = {"subGroupSize": 2}
LIVE_2 = {**SIZE_2, "subGroupPolicyType": "LeaderWorker"}
GROUPS = {"groups": 2, "rollout": {"level": "Group"}}


def lws(policy: Any, count: int = 2, name: str = "svc-inference-{}") -> dict[str, Any]:
    result = {}
    for index in range(count):
        one = lws_entry(name.format(index), index=str(index))
        template = {"workerTemplate": {"spec": {}}, "subGroupPolicy": policy}
        one["outputs"]["spec"] = {"leaderWorkerTemplate": template}
        result[urn(name.format(index))] = one
    return result


def deploy(
    engine: Any, policy: Any, count: int = 2, layout: str = "PerReplica", **more: Any
) -> Any:
    wide = role(replicas=count, multinode=nodes(4, launcher="none"), subGroupPolicy=policy)
    spec = {"layout": layout, "schedulingStrategy": {"gangPolicy": {"mode": "Off"}}, **more}
    return engine.run(lambda: InferenceService("svc", service(wide, **spec)) and None)


@pytest.mark.parametrize(
    ("before", "after"), [(None, SIZE_2), (LIVE_2, {"subGroupSize": 4}), (LIVE_2, None)]
)
@pytest.mark.parametrize("more", [{}, {"rollout": {"maxUnavailable": 2}}])
def test_replacing_more_than_limit_is_rejected(
    engine: Any, before: Any, after: Any, more: Any
) -> None:
    engine.state = lws(before, 3)
    with pytest.raises(InvalidServiceError) as rejected:
        deploy(engine, after, 3, **more)
    assert str(rejected.value).startswith(
        "svc: roles[0].subGroupPolicy: a LeaderWorkerSet cannot change it after creation, "
        'so all 3 replicas of role "inference" would be replaced at once; rename the role'
    )


@pytest.mark.parametrize("strategy", ["AllAtOnce", "Recreate"])
@pytest.mark.parametrize(("before", "after"), [(None, SIZE_2), (LIVE_2, None)])
def test_replacement_with_downtime_deletes_first(
    engine: Any, before: Any, after: Any, strategy: str
) -> None:
    engine.state = lws(before)
    deployment = deploy(engine, after, rollout={"strategy": strategy})
    for index in range(2):
        assert deployment[f"svc-inference-{index}"].request.deleteBeforeReplace


@pytest.mark.parametrize(
    ("state", "after", "more"),
    [
        (None, SIZE_2, {}),
        ({}, SIZE_2, {}),
        (lws(LIVE_2), SIZE_2, {}),
        (lws(LIVE_2), LIVE_2, {}),
        (lws(None), None, {}),
        # Only new replicas change, at most maxUnavailable, or a partition keeps the others.
        (lws(None, 1), SIZE_2, {}),
        (lws(None), SIZE_2, {"rollout": {"maxUnavailable": 2}}),
        (lws(None), SIZE_2, {"rollout": {"partition": 2}}),
        (lws(None), SIZE_2, {"rollout": {"partition": 1}}),
        # Another name, and a template that is not known.
        (lws(None, name="old-inference-{}"), SIZE_2, {}),
        ({urn("svc-inference-0"): lws_entry("svc-inference-0", index="0")}, SIZE_2, {}),
        (lws(None, 2, "svc-{}-inference-0"), SIZE_2, {**GROUPS, "rollout": {
            "level": "Group", "maxUnavailable": 2}}),
    ],
)  # fmt: skip
def test_other_policy_changes_are_accepted(engine: Any, state: Any, after: Any, more: Any) -> None:
    engine.state = state
    assert deploy(engine, after, **more).children


@pytest.mark.parametrize(
    ("state", "more"),
    [
        (lws(None, 2, "svc-{}-inference-0"), GROUPS),
        ({urn("svc-inference"): lws(None, 1)[urn("svc-inference-0")]}, {"layout": "PerRole"}),
    ],
)
def test_limits_of_groups_and_roles_apply_to_replacement(
    engine: Any, state: Any, more: Any
) -> None:
    for one in state.values():
        if "layout" in more:
            one["outputs"]["metadata"]["name"] = "svc-inference"
            del one["outputs"]["metadata"]["labels"]["fusioninfer.io/replica-index"]
    engine.state = state
    with pytest.raises(InvalidServiceError, match=r"roles\[0\]\.subGroupPolicy: "):
        deploy(engine, SIZE_2, **more)


EXCLUDED = {**SIZE_2, "subGroupPolicyType": "LeaderExcluded"}
OFF = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
PATH = "spec.leaderWorkerTemplate.subGroupPolicy"


def wide(policy: Any, count: int = 5, **spec: Any) -> Any:
    many = nodes(count, launcher="none")
    return service(role(replicas=2, multinode=many, subGroupPolicy=policy), **OFF, **spec)


@pytest.mark.parametrize("more", [{}, {"layout": "PerRole"}])
@pytest.mark.parametrize(
    ("before", "after", "nodes_", "differ"),
    [
        (None, SIZE_2, 4, True),
        (SIZE_2, None, 4, True),
        (SIZE_2, {"subGroupSize": 4}, 4, True),
        (SIZE_2, EXCLUDED, 5, True),
        (EXCLUDED, SIZE_2, 5, True),
        (SIZE_2, LIVE_2, 4, False),
        (LIVE_2, SIZE_2, 4, False),
        (None, None, 4, False),
    ],
)
def test_component_and_diff_agree(
    engine: Any, before: Any, after: Any, nodes_: int, differ: bool, more: Any
) -> None:
    # With LeaderExcluded, the size must divide the workers; with LeaderWorker, the nodes.
    old, new = (
        wide(item, 5 if item and item.get("subGroupPolicyType") == "LeaderExcluded" else 4, **more)
        for item in (before, after)
    )
    expected = ["roles[0].subGroupPolicy: a LeaderWorkerSet cannot change it"] if differ else []
    assert_edit_errors(engine, old, new, *expected)
    result = compare(rendered(old), rendered(new))
    actions = {change.action for change in result.objects}
    assert actions == ({"replaced"} if differ else set())


def test_policy_type_is_always_rendered() -> None:
    (first, *_) = of_kind(rendered(wide(SIZE_2, 4)), "LeaderWorkerSet")
    assert first["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] == LIVE_2
    assert set_default_type({"subGroupSize": 2, "subGroupPolicyType": None}) == LIVE_2


def test_explicit_default_policy_type_restarts_nothing() -> None:
    """Older versions did not render it; adding it replaces and restarts nothing."""
    new = [
        manifest for manifest in rendered(wide(SIZE_2, 4)) if manifest["kind"] == "LeaderWorkerSet"
    ]
    old = []
    for item in new:
        template = {**item["spec"]["leaderWorkerTemplate"], "subGroupPolicy": SIZE_2}
        old.append({**item, "spec": {**item["spec"], "leaderWorkerTemplate": template}})
    result = compare(old, new, plans=([], [plan_of(wide(SIZE_2, 4))]))
    assert {change.action for change in result.objects} == {"changed"}
    assert not any(effect.restarts for effect in result.effects)


@pytest.mark.parametrize("strategy", ["Rolling", "AllAtOnce", "Recreate"])
def test_equivalent_policy_is_ignored(engine: Any, strategy: str) -> None:
    engine.state = lws(LIVE_2)
    deployment = deploy(engine, SIZE_2, rollout={"strategy": strategy})
    for index in range(2):
        assert list(deployment[f"svc-inference-{index}"].request.ignoreChanges) == [PATH]
    deployment = deploy(engine, {"subGroupSize": 4}, rollout={"strategy": "AllAtOnce"})
    assert not deployment["svc-inference-0"].request.ignoreChanges
