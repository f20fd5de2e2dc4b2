"""Fields of a LeaderWorkerSet that are not the pod template: which are updated, which replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, PROGRAM, Project
from e2e.engine.services import left, lowest, lws, pods, ready, rendered, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
CALL = "options)\n    pulumi.export"
#: Leaves the type of a policy to LeaderWorkerSet, as earlier versions of the library did.
WITHOUT_TYPE = """
def without_type(args):
    if args.type_.endswith(":LeaderWorkerSet"):
        del args.props["spec"]["leaderWorkerTemplate"]["subGroupPolicy"]["subGroupPolicyType"]
    return pulumi.ResourceTransformResult(args.props, args.opts)
"""
ALONE: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}


def spread(**more: Any) -> dict[str, Any]:
    """Two replicas of four nodes."""
    nodes = {"nodeCount": 4, "launcher": "none"}
    return role(replicas=2, behaviour="slow", **{"multinode": nodes, **more})


def identities(cluster: Cluster, namespace: str) -> dict[str, str]:
    """What tells a set from one that took its place."""
    return {name: each["metadata"]["uid"] for name, each in lws(cluster, namespace).items()}


@pytest.mark.proves(
    "nodeCount, networkConfig and restartPolicy roll; startupPolicy restarts nothing",
    needs=ENGINE,
)
def test_what_an_update_can_change(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, spread(), **ALONE))
    stack.up().assert_fine()
    made, before = identities(cluster, namespace), pods(cluster, namespace)
    stack.write(service(namespace, spread(startupPolicy="LeaderReady"), **ALONE))
    stack.up().assert_fine()
    assert stack.changes() == {"update": 2}
    assert pods(cluster, namespace) == before
    for more in (
        {"multinode": {"nodeCount": 2, "launcher": "none"}},
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}, "restartPolicy": "None"},
        {},
    ):
        stack.write(service(namespace, spread(**more), **ALONE))
        with lowest(cluster, namespace) as least:
            stack.up().assert_fine()
        assert least["serve"] == 1, least
        assert identities(cluster, namespace) == made
        assert not set(pods(cluster, namespace).items()) & set(before.items())
    assert stack.preview() == {}


@pytest.mark.proves(
    "Changing subGroupPolicy is rejected at preview unless the strategy is AllAtOnce or Recreate",
    needs=ENGINE,
)
def test_what_no_update_can_change(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("AllAtOnce", {"subGroupPolicy": {"subGroupSize": 2}}),
        ("Recreate", {"subGroupPolicy": {"subGroupSize": 4}}),
        ("AllAtOnce", {}),
    ]
    stack.write(service(namespace, spread(), **ALONE))
    stack.up().assert_fine()
    for strategy, policy in steps:
        made, before = identities(cluster, namespace), pods(cluster, namespace)
        stack.write(service(namespace, spread(**policy), **ALONE))
        for word in ("preview", "up"):
            told = stack.run(word, *(("--yes", "--skip-preview") if word == "up" else ()))
            assert told.status != 0
            assert "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it" in told.text
        assert pods(cluster, namespace) == before
        pace: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        wanted = service(namespace, spread(**policy), **ALONE, **pace)
        stack.write(wanted)
        assert stack.preview() == {"replace": 2}
        stack.up().assert_fine()
        assert ready(cluster, namespace) == {"serve": 2}
        assert not set(identities(cluster, namespace).values()) & set(made.values())
        assert left(cluster, namespace) == rendered(wanted)
        # Nothing differs any more, and replicas take turns again.
        stack.write(service(namespace, spread(**policy), **ALONE))
        stack.up().assert_fine()
        assert stack.preview() == {}


@pytest.mark.proves(
    "Renaming the role changes subGroupPolicy without an outage",
    needs=ENGINE,
)
def test_a_policy_of_a_renamed_role(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, spread(), **ALONE))
    stack.up().assert_fine()
    renamed = {**spread(subGroupPolicy={"subGroupSize": 2}), "name": "other"}
    stack.write(service(namespace, renamed, **ALONE))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["total"] == 2, least
    assert ready(cluster, namespace) == {"other": 2}


@pytest.mark.proves(
    "Changing a subGroupPolicy type replaces LeaderWorkerSets; writing out its default does not",
    needs=ENGINE,
)
def test_the_type_of_a_policy(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    main = stack.folder / "__main__.py"
    assert CALL in PROGRAM
    transformed = "pulumi.ResourceOptions(transforms=[without_type]))\n    pulumi.export"
    one: dict[str, Any] = {"subGroupPolicy": {"subGroupSize": 1}}
    stack.write(service(namespace, spread(**one), **ALONE))
    main.write_text(
        PROGRAM.replace("options = None", WITHOUT_TYPE + "options = None").replace(
            CALL, transformed
        ),
        encoding="utf-8",
    )
    stack.up().assert_fine()
    made, before = identities(cluster, namespace), pods(cluster, namespace)
    inputs = [
        resource["inputs"] for resource in stack.resources() if resource["type"].endswith("Set")
    ]
    assert "subGroupPolicyType" not in str(inputs)
    main.write_text(PROGRAM, encoding="utf-8")
    for strategy in ("Recreate", "AllAtOnce", "Rolling"):
        pace: dict[str, Any] = {"rollout": {"strategy": strategy, "timeout": "150s"}}
        stack.write(service(namespace, spread(**one), **ALONE, **pace))
        assert "replace" not in stack.preview()
        stack.up().assert_fine()
        assert (identities(cluster, namespace), pods(cluster, namespace)) == (made, before)
    other = {"subGroupPolicy": {**one["subGroupPolicy"], "subGroupPolicyType": "LeaderExcluded"}}
    stack.write(service(namespace, spread(**other), **ALONE))
    told = stack.run("preview")
    assert told.status != 0
    assert "roles[0].subGroupPolicy: LeaderWorkerSet cannot change it" in told.text
    assert pods(cluster, namespace) == before
    pace = {"rollout": {"strategy": "AllAtOnce", "timeout": "150s"}}
    stack.write(service(namespace, spread(**other), **ALONE, **pace))
    stack.up().assert_fine()
    assert not set(identities(cluster, namespace).values()) & set(made.values())
    assert ready(cluster, namespace) == {"serve": 2}
