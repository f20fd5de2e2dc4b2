"""Replicas that run and become part of a gang, or get more nodes in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import GROUPS, lowest, pods, ready, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}
OFF: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
PER_ROLE: dict[str, Any] = {"layout": "PerRole"}
SHORT = "40s"
#: For updates that are to fail.
VERY_SHORT: dict[str, Any] = {"rollout": {"timeout": "12s"}, "wait": {"timeout": "12s"}}
#: Takes the refusal away, to see what it saves from.
UNCHECKED = """\
from fusioninfer_pulumi.checks import update_checks
update_checks.gang_findings = lambda *_: []
"""


def serving(replicas: int = 2, **more: Any) -> dict[str, Any]:
    return role("small", replicas=replicas, gpus=8, **more)


def big() -> dict[str, Any]:
    return role("big", replicas=1, gpus=8, **SPREAD)


def paced(strategy: str = "Rolling", **more: Any) -> dict[str, Any]:
    return {"rollout": {"strategy": strategy, "timeout": SHORT, **more}, "wait": {"timeout": SHORT}}


Roles = tuple[tuple[dict[str, Any], ...], dict[str, Any]]
BEFORE: dict[str, Roles] = {
    "role": ((serving(),), {}),
    "mode": ((serving(**SPREAD),), OFF),
    "nodes": ((serving(),), {}),
    "decoder": ((role("small", "prefiller", replicas=2, gpus=8),), {}),
    "set": ((serving(),), PER_ROLE),
}
AFTER: dict[str, Roles] = {
    "role": ((serving(), big()), {}),
    "mode": ((serving(**SPREAD),), {}),
    "nodes": ((serving(**SPREAD),), {}),
    "decoder": (
        (
            role("small", "prefiller", replicas=2, gpus=8),
            role("big", "decoder", replicas=1, gpus=8),
        ),
        {},
    ),
    "set": ((serving(), big()), PER_ROLE),
}


def written(stack: Project, namespace: str, roles: Roles, **spec: Any) -> None:
    stack.write(service(namespace, *roles[0], **{**roles[1], **spec}))


@pytest.mark.parametrize(
    ("edit", "strategy"),
    [
        ("role", "AllAtOnce"),
        ("mode", "AllAtOnce"),
        ("nodes", "Recreate"),
        ("set", "Recreate"),
    ],
)
@pytest.mark.proves(
    "Rolling running replicas into a gang is rejected; AllAtOnce and Recreate work",
    needs=ENGINE,
)
def test_replicas_join_a_gang(
    cluster: Cluster, namespace: str, project: Make, edit: str, strategy: str
) -> None:
    cluster.add_nodes(4)
    stack = project()
    written(stack, namespace, BEFORE[edit], **paced())
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    written(stack, namespace, AFTER[edit], **paced())
    for words in (("preview",), ("up", "--yes", "--skip-preview")):
        told = stack.run(*words)
        assert told.status != 0
        assert "rollout.strategy: Rolling would never end" in told.text
    assert pods(cluster, namespace) == before
    written(stack, namespace, AFTER[edit], **paced(strategy))
    stack.up().assert_fine()
    assert ready(cluster, namespace)["small"] == 2
    (group,) = cluster.list(GROUPS, namespace)
    assert group["status"]["phase"] == "Running"
    assert not set(before.items()) & set(pods(cluster, namespace).items())
    # Slow pods: one that is ready again at once would be missed between two looks.
    template = serving(tag="2", behaviour="slow")["template"]
    joined = [{**each, "template": template} for each in AFTER[edit][0][:1]]
    again = ((*joined, *AFTER[edit][0][1:]), AFTER[edit][1])
    written(stack, namespace, again, **paced())
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["small"] == 1, least
    assert stack.preview() == {}


@pytest.mark.parametrize("edit", ["role", "set"])
@pytest.mark.proves(
    "Without that rejection the update never ends; Recreate or the old program recovers",
    needs=ENGINE,
)
def test_without_the_refusal(cluster: Cluster, namespace: str, project: Make, edit: str) -> None:
    cluster.add_nodes(8)
    stack = project()
    program = stack.folder / "__main__.py"
    program.write_text(UNCHECKED + program.read_text(encoding="utf-8"), encoding="utf-8")
    written(stack, namespace, BEFORE[edit], **paced())
    stack.up().assert_fine()
    written(stack, namespace, AFTER[edit], **VERY_SHORT)
    assert stack.up().status != 0
    assert ready(cluster, namespace)["small"] == 1
    assert stack.up().status != 0
    assert ready(cluster, namespace)["small"] == 1
    assert not [each for each in cluster.list(GROUPS, namespace) if _runs(each)]
    # The state has the new template of the one set: for the engine nothing is left to do there.
    last = paced() if edit == "set" else paced("Recreate")
    written(stack, namespace, (BEFORE if edit == "set" else AFTER)[edit], **last)
    stack.up().assert_fine()
    assert ready(cluster, namespace)["small"] == 2


@pytest.mark.proves(
    "A renamed role joins a gang while the old replicas serve",
    needs=ENGINE,
)
def test_a_renamed_role_joins(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(6)
    stack = project()
    written(stack, namespace, BEFORE["role"], **paced())
    stack.up().assert_fine()
    stack.write(service(namespace, {**serving(), "name": "other"}, big(), **paced()))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["total"] >= 2, least
    assert ready(cluster, namespace) == {"other": 2, "big": 1}


@pytest.mark.proves(
    "A gang of at most maxUnavailable replicas is joined one replica at a time",
    needs=ENGINE,
)
def test_a_gang_that_needs_one_replica(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    written(stack, namespace, BEFORE["role"], **paced())
    stack.up().assert_fine()
    minimum = {"gangPolicy": {"minRoleReplicas": {"small": 1, "big": 1}}}
    written(stack, namespace, AFTER["role"], **paced(), schedulingStrategy=minimum)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["small"] == 1, least
    cluster.wait(lambda: ready(cluster, namespace) == {"small": 2, "big": 1}, 60, "all replicas")


@pytest.mark.parametrize(("replicas", "surge"), [(3, 2), (1, 0)])
@pytest.mark.proves(
    "With PerRole, added or surge replicas join the gang before the old ones update",
    needs=ENGINE,
)
def test_new_replicas_of_a_set_join(
    cluster: Cluster, namespace: str, project: Make, replicas: int, surge: int
) -> None:
    cluster.add_nodes(7)
    stack = project()
    written(stack, namespace, ((serving(replicas),), PER_ROLE), **paced())
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    minimum = {"gangPolicy": {"minRoleReplicas": {"small": 2, "big": 1}}}
    after = ((serving(3), big()), PER_ROLE)
    written(stack, namespace, after, **paced(maxSurge=surge), schedulingStrategy=minimum)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
        whole = {"small": 3, "big": 1}
        cluster.wait(lambda: ready(cluster, namespace) == whole, 60, "all replicas")
        cluster.wait(
            lambda: not set(before.items()) & set(pods(cluster, namespace).items()), 60, "new pods"
        )
        cluster.wait(lambda: ready(cluster, namespace) == whole, 60, "all replicas again")
    assert least["small"] >= max(1, replicas - 1), least


@pytest.mark.parametrize("strategy", ["Rolling", "AllAtOnce"])
@pytest.mark.proves(
    "A partition that keeps required replicas out of a gang is rejected",
    needs=ENGINE,
)
def test_a_partition_keeps_replicas_out(
    cluster: Cluster, namespace: str, project: Make, strategy: str
) -> None:
    cluster.add_nodes(8)
    stack = project()
    written(stack, namespace, BEFORE["decoder"], **paced())
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    held = {"strategy": strategy, "timeout": "12s", "partition": 1}
    written(stack, namespace, AFTER["decoder"], **{**VERY_SHORT, "rollout": held})
    told = stack.run("preview")
    assert told.status != 0
    assert "rollout.partition: holds back replicas that the gang needs" in told.text
    assert pods(cluster, namespace) == before
    program = stack.folder / "__main__.py"
    program.write_text(UNCHECKED + program.read_text(encoding="utf-8"), encoding="utf-8")
    assert stack.up().status != 0
    assert ready(cluster, namespace) == {"small": 1, "big": 0}
    written(stack, namespace, AFTER["decoder"], **paced("AllAtOnce"))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"small": 2, "big": 1}


def _runs(group: dict[str, Any]) -> bool:
    return bool(group.get("status", {}).get("phase") == "Running")
