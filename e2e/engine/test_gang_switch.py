"""Running replicas that join a gang, or get more nodes within a gang."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import NO_GANG, PER_ROLE, POD_GROUP, TWO_NODES, Stack, role

TIMEOUT = "40s"
SHORT: dict[str, Any] = {"rollout": {"timeout": "12s"}, "wait": {"timeout": "12s"}}
#: Disables the check, to show what it prevents.
DISABLE_CHECK = """\
from fusioninfer_pulumi.checks import update_checks
update_checks.check_gang_joins = lambda *_: []
"""


def make_small(replicas: int = 2, **more: Any) -> dict[str, Any]:
    return role("small", replicas=replicas, gpus=8, **more)


def make_big() -> dict[str, Any]:
    return role("big", replicas=1, gpus=8, **TWO_NODES)


def make_rollout(strategy: str = "Rolling", **more: Any) -> dict[str, Any]:
    rollout = {"strategy": strategy, "timeout": TIMEOUT, **more}
    return {"rollout": rollout, "wait": {"timeout": TIMEOUT}}


Roles = tuple[tuple[dict[str, Any], ...], dict[str, Any]]
BEFORE: dict[str, Roles] = {
    "role": ((make_small(),), {}),
    "mode": ((make_small(**TWO_NODES),), NO_GANG),
    "nodes": ((make_small(),), {}),
    "decoder": ((role("small", "prefiller", replicas=2, gpus=8),), {}),
    "set": ((make_small(),), PER_ROLE),
}
AFTER: dict[str, Roles] = {
    "role": ((make_small(), make_big()), {}),
    "mode": ((make_small(**TWO_NODES),), {}),
    "nodes": ((make_small(**TWO_NODES),), {}),
    "decoder": (
        (
            role("small", "prefiller", replicas=2, gpus=8),
            role("big", "decoder", replicas=1, gpus=8),
        ),
        {},
    ),
    "set": ((make_small(), make_big()), PER_ROLE),
}


def make_service(stack: Stack, roles: Roles, **spec: Any) -> dict[str, Any]:
    return stack.service(*roles[0], **{**roles[1], **spec})


@pytest.mark.parametrize(
    ("edit", "strategy"),
    [("role", "AllAtOnce"), ("mode", "AllAtOnce"), ("nodes", "Recreate"), ("set", "Recreate")],
)
@pytest.mark.verifies(
    "Rolling running replicas into a gang is rejected; AllAtOnce and Recreate work"
)
def test_rolling_into_gang_is_rejected(stack: Stack, edit: str, strategy: str) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(make_service(stack, BEFORE[edit], **make_rollout()))
    before = stack.pods()
    rejected = make_service(stack, AFTER[edit], **make_rollout())
    stack.assert_rejected(rejected, "rollout.strategy: Rolling would never end")
    stack.deploy_services(make_service(stack, AFTER[edit], **make_rollout(strategy)))
    assert stack.count_ready()["small"] == 2
    (group,) = stack.cluster.list(POD_GROUP, stack.namespace)
    assert group["status"]["phase"] == "Running"
    assert not set(before.items()) & set(stack.pods().items())
    # Pods start slowly, because polling would miss a short outage.
    template = make_small(tag="2", behavior="slow")["template"]
    changed_roles = [{**item, "template": template} for item in AFTER[edit][0][:1]]
    changed = ((*changed_roles, *AFTER[edit][0][1:]), AFTER[edit][1])
    min_ready = stack.roll_services(make_service(stack, changed, **make_rollout()))
    assert min_ready["small"] == 1, min_ready
    assert stack.preview() == {}


@pytest.mark.parametrize(("replicas", "surge"), [(3, 2), (1, 0)])
@pytest.mark.verifies(
    "With PerRole, added or surge replicas join the gang before the old ones update"
)
def test_new_per_role_replicas_join_first(stack: Stack, replicas: int, surge: int) -> None:
    stack.cluster.add_nodes(7)
    old = ((make_small(replicas),), PER_ROLE)
    stack.deploy_services(make_service(stack, old, **make_rollout()))
    before = stack.pods()
    minimum = {"gangPolicy": {"minRoleReplicas": {"small": 2, "big": 1}}}
    after = ((make_small(3), make_big()), PER_ROLE)
    with stack.min_ready_replicas() as min_ready:
        stack.deploy_services(
            make_service(stack, after, **make_rollout(maxSurge=surge), schedulingStrategy=minimum)
        )
        whole = {"small": 3, "big": 1}
        stack.cluster.wait(lambda: stack.count_ready() == whole, 60, "all replicas")
        stack.cluster.wait(
            lambda: not set(before.items()) & set(stack.pods().items()), 60, "new pods"
        )
        stack.cluster.wait(lambda: stack.count_ready() == whole, 60, "all replicas again")
    assert min_ready["small"] >= max(1, replicas - 1), min_ready


@pytest.mark.parametrize("strategy", ["Rolling", "AllAtOnce"])
@pytest.mark.verifies("A partition that keeps required replicas out of a gang is rejected")
def test_partition_that_blocks_gang_is_rejected(stack: Stack, strategy: str) -> None:
    stack.cluster.add_nodes(8)
    stack.deploy_services(make_service(stack, BEFORE["decoder"], **make_rollout()))
    before = stack.pods()
    held = {"strategy": strategy, "timeout": "12s", "partition": 1}
    stack.write(make_service(stack, AFTER["decoder"], **{**SHORT, "rollout": held}))
    result = stack.run("preview").assert_failed()
    assert "rollout.partition: excludes replicas that the gang needs" in result.text
    assert stack.pods() == before
    stack.program = DISABLE_CHECK + stack.program
    stack.up().assert_failed()
    assert stack.count_ready() == {"small": 1, "big": 0}
    stack.deploy_services(make_service(stack, AFTER["decoder"], **make_rollout("AllAtOnce")))
    assert stack.count_ready() == {"small": 2, "big": 1}
