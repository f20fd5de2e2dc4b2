"""Fields of a LeaderWorkerSet that are not the pod template: which are updated, which replaced."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.project import PROGRAM
from e2e.engine.services import NO_GANG, Stack, rendered, role

CALL = "options)\n    pulumi.export"
#: Leaves the type of a policy to LeaderWorkerSet, as earlier versions of the library did.
WITHOUT_TYPE = """
def without_type(args):
    if args.type_.endswith(":LeaderWorkerSet"):
        del args.props["spec"]["leaderWorkerTemplate"]["subGroupPolicy"]["subGroupPolicyType"]
    return pulumi.ResourceTransformResult(args.props, args.opts)
"""


def spread(**more: Any) -> dict[str, Any]:
    """Two replicas of four nodes."""
    nodes = {"nodeCount": 4, "launcher": "none"}
    return role(replicas=2, behaviour="slow", **{"multinode": nodes, **more})


@pytest.mark.proves(
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
        with stack.min_ready_replicas() as least:
            stack.deploy(spread(**more), **NO_GANG)
        assert least["serve"] == 1, least
        assert stack.lws_uids() == made
        assert not set(stack.pods().items()) & set(before.items())
    assert stack.preview() == {}


@pytest.mark.proves(
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
        made, before = stack.lws_uids(), stack.pods()
        stack.write(stack.service(spread(**policy), **NO_GANG))
        for word in ("preview", "up"):
            result = stack.run(
                word, *(("--yes", "--skip-preview") if word == "up" else ())
            ).assert_failed()
            assert "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it" in result.text
        assert stack.pods() == before
        pace: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        wanted = stack.service(spread(**policy), **NO_GANG, **pace)
        stack.write(wanted)
        assert stack.preview() == {"replace": 2, "update": 1}
        stack.up().assert_succeeded()
        assert stack.ready() == {"serve": 2}
        assert not set(stack.lws_uids().values()) & set(made.values())
        assert stack.remaining_objects() == rendered(wanted)
        # Nothing differs any more, and replicas take turns again.
        stack.deploy(spread(**policy), **NO_GANG)
        assert stack.preview() == {}


@pytest.mark.proves("Renaming the role changes subGroupPolicy without an outage")
def test_renamed_role_changes_subgroup_policy(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(spread(), **NO_GANG)
    renamed = {**spread(subGroupPolicy={"subGroupSize": 2}), "name": "other"}
    with stack.min_ready_replicas() as least:
        stack.deploy(renamed, **NO_GANG)
    assert least["total"] == 2, least
    assert stack.ready() == {"other": 2}


@pytest.mark.proves(
    "Changing a subGroupPolicy type replaces LeaderWorkerSets; writing out its default does not"
)
def test_changed_subgroup_policy_type_replaces_lws(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    assert CALL in PROGRAM
    transformed = "pulumi.ResourceOptions(transforms=[without_type]))\n    pulumi.export"
    one: dict[str, Any] = {"subGroupPolicy": {"subGroupSize": 1}}
    stack.write(stack.service(spread(**one), **NO_GANG))
    stack.program = PROGRAM.replace("options = None", WITHOUT_TYPE + "options = None").replace(
        CALL, transformed
    )
    stack.up().assert_succeeded()
    made, before = stack.lws_uids(), stack.pods()
    inputs = [
        resource["inputs"] for resource in stack.resources() if resource["type"].endswith("Set")
    ]
    assert "subGroupPolicyType" not in str(inputs)
    stack.program = PROGRAM
    for strategy in ("Recreate", "AllAtOnce", "Rolling"):
        pace: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        stack.write(stack.service(spread(**one), **NO_GANG, **pace))
        assert "replace" not in stack.preview()
        stack.up().assert_succeeded()
        assert (stack.lws_uids(), stack.pods()) == (made, before)
    other = {"subGroupPolicy": {**one["subGroupPolicy"], "subGroupPolicyType": "LeaderExcluded"}}
    stack.write(stack.service(spread(**other), **NO_GANG))
    result = stack.run("preview").assert_failed()
    assert "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it" in result.text
    assert stack.pods() == before
    pace = {"rollout": {"strategy": "AllAtOnce", "timeout": "150s"}}
    stack.deploy(spread(**other), **NO_GANG, **pace)
    assert not set(stack.lws_uids().values()) & set(made.values())
    assert stack.ready() == {"serve": 2}
