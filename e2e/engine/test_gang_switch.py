"""Running replicas that join a gang, or get more nodes within a gang."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import GROUPS, NO_GANG, PER_ROLE, TWO_NODES, Stack, role

SHORT = "40s"
#: For updates that are expected to fail.
VERY_SHORT: dict[str, Any] = {"rollout": {"timeout": "12s"}, "wait": {"timeout": "12s"}}
#: Disables the rejection, to show what it prevents.
UNCHECKED = """\
from fusioninfer_pulumi.checks import update_checks
update_checks.check_gang_joins = lambda *_: []
"""


def serving(replicas: int = 2, **more: Any) -> dict[str, Any]:
    return role("small", replicas=replicas, gpus=8, **more)


def big() -> dict[str, Any]:
    return role("big", replicas=1, gpus=8, **TWO_NODES)


def paced(strategy: str = "Rolling", **more: Any) -> dict[str, Any]:
    return {"rollout": {"strategy": strategy, "timeout": SHORT, **more}, "wait": {"timeout": SHORT}}


Roles = tuple[tuple[dict[str, Any], ...], dict[str, Any]]
BEFORE: dict[str, Roles] = {
    "role": ((serving(),), {}),
    "mode": ((serving(**TWO_NODES),), NO_GANG),
    "nodes": ((serving(),), {}),
    "decoder": ((role("small", "prefiller", replicas=2, gpus=8),), {}),
    "set": ((serving(),), PER_ROLE),
}
AFTER: dict[str, Roles] = {
    "role": ((serving(), big()), {}),
    "mode": ((serving(**TWO_NODES),), {}),
    "nodes": ((serving(**TWO_NODES),), {}),
    "decoder": (
        (
            role("small", "prefiller", replicas=2, gpus=8),
            role("big", "decoder", replicas=1, gpus=8),
        ),
        {},
    ),
    "set": ((serving(), big()), PER_ROLE),
}


def with_roles(stack: Stack, roles: Roles, **spec: Any) -> dict[str, Any]:
    return stack.service(*roles[0], **{**roles[1], **spec})


@pytest.mark.parametrize(
    ("edit", "strategy"),
    [
        ("role", "AllAtOnce"),
        ("mode", "AllAtOnce"),
        ("nodes", "Recreate"),
        ("set", "Recreate"),
    ],
)
@pytest.mark.verifies(
    "Rolling running replicas into a gang is rejected; AllAtOnce and Recreate work"
)
def test_rolling_into_gang_is_rejected(stack: Stack, edit: str, strategy: str) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(with_roles(stack, BEFORE[edit], **paced()))
    before = stack.pods()
    rejected = with_roles(stack, AFTER[edit], **paced())
    stack.assert_rejected(rejected, "rollout.strategy: Rolling would never end")
    stack.deploy_services(with_roles(stack, AFTER[edit], **paced(strategy)))
    assert stack.ready()["small"] == 2
    (group,) = stack.cluster.list(GROUPS, stack.namespace)
    assert group["status"]["phase"] == "Running"
    assert not set(before.items()) & set(stack.pods().items())
    # Pods start slowly, because polling would miss a short outage.
    template = serving(tag="2", behaviour="slow")["template"]
    joined = [{**each, "template": template} for each in AFTER[edit][0][:1]]
    again = ((*joined, *AFTER[edit][0][1:]), AFTER[edit][1])
    least = stack.roll_services(with_roles(stack, again, **paced()))
    assert least["small"] == 1, least
    assert stack.preview() == {}


@pytest.mark.parametrize(("replicas", "surge"), [(3, 2), (1, 0)])
@pytest.mark.verifies(
    "With PerRole, added or surge replicas join the gang before the old ones update"
)
def test_new_per_role_replicas_join_first(stack: Stack, replicas: int, surge: int) -> None:
    stack.cluster.add_nodes(7)
    stack.deploy_services(with_roles(stack, ((serving(replicas),), PER_ROLE), **paced()))
    before = stack.pods()
    minimum = {"gangPolicy": {"minRoleReplicas": {"small": 2, "big": 1}}}
    after = ((serving(3), big()), PER_ROLE)
    with stack.min_ready_replicas() as least:
        stack.deploy_services(
            with_roles(stack, after, **paced(maxSurge=surge), schedulingStrategy=minimum)
        )
        whole = {"small": 3, "big": 1}
        stack.cluster.wait(lambda: stack.ready() == whole, 60, "all replicas")
        stack.cluster.wait(
            lambda: not set(before.items()) & set(stack.pods().items()), 60, "new pods"
        )
        stack.cluster.wait(lambda: stack.ready() == whole, 60, "all replicas again")
    assert least["small"] >= max(1, replicas - 1), least


@pytest.mark.parametrize("strategy", ["Rolling", "AllAtOnce"])
@pytest.mark.verifies("A partition that keeps required replicas out of a gang is rejected")
def test_partition_that_blocks_gang_is_rejected(stack: Stack, strategy: str) -> None:
    stack.cluster.add_nodes(8)
    stack.deploy_services(with_roles(stack, BEFORE["decoder"], **paced()))
    before = stack.pods()
    held = {"strategy": strategy, "timeout": "12s", "partition": 1}
    stack.write(with_roles(stack, AFTER["decoder"], **{**VERY_SHORT, "rollout": held}))
    result = stack.run("preview").assert_failed()
    assert "rollout.partition: excludes replicas that the gang needs" in result.text
    assert stack.pods() == before
    stack.program = UNCHECKED + stack.program
    stack.up().assert_failed()
    assert stack.ready() == {"small": 1, "big": 0}
    stack.deploy_services(with_roles(stack, AFTER["decoder"], **paced("AllAtOnce")))
    assert stack.ready() == {"small": 2, "big": 1}
