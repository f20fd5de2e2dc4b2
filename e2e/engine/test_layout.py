"""Layout PerRole: surges, changes of the layout, and scaling by other controllers.

`test_rollout.py` tests updates of both layouts.
"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import LWS, PER_ROLE, TWO_NODES, Stack, role


@pytest.mark.parametrize("unavailable", [0, 1])
@pytest.mark.verifies("maxSurge in a gang waits for capacity, then continues")
def test_surge_waits_for_capacity(stack: Stack, unavailable: int) -> None:
    stack.cluster.add_nodes(6)
    surge: dict[str, Any] = {"maxSurge": 1, "maxUnavailable": unavailable, "timeout": "20s"}
    fixed = {**PER_ROLE, "rollout": surge}
    stack.deploy(role(replicas=3, gpus=8, **TWO_NODES), **fixed)
    before = stack.pods()
    stack.write(stack.service(role(replicas=3, gpus=8, tag="2", **TWO_NODES), **fixed))
    with stack.min_ready_replicas() as min_ready:
        stack.up().assert_failed()
    assert min_ready["serve"] == 3
    assert before.items() <= stack.pods().items()
    stack.cluster.add_nodes(2)
    with stack.min_ready_replicas() as min_ready:
        stack.up().assert_succeeded()
        stack.cluster.wait(lambda: len(stack.pods()) == 6, 90, "deletion of the surge replica")
    assert min_ready["serve"] >= 3 - unavailable
    assert stack.count_ready() == {"serve": 3}
    assert set(stack.pod_tags().values()) == {"2"}


@pytest.mark.verifies("With PerRole, Sequential updates a role after the previous one is available")
def test_sequential_roles_update_in_order(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    order: dict[str, Any] = {**PER_ROLE, "rollout": {"roleOrder": "Sequential", "timeout": "10s"}}

    def make_service(tag: str, **more: Any) -> dict[str, Any]:
        roles = [
            role(name, kind, replicas=2, tag=tag, gpus=1, **more)
            for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
        ]
        return stack.service(*roles, **order)

    stack.deploy_services(make_service("1"))
    stack.write(make_service("2", behavior="unpullable"))
    stack.up().assert_failed()
    halted = {"svc-prefill-0": "1", "svc-prefill-1": "2"}
    untouched = {"svc-decode-0": "1", "svc-decode-1": "1"}
    assert stack.pod_tags() == {**halted, **untouched}
    stack.deploy_services(make_service("3"))
    assert set(stack.pod_tags().values()) == {"3"}


@pytest.mark.parametrize("layouts", [("PerReplica", "PerRole"), ("PerRole", "PerReplica")])
@pytest.mark.verifies(
    "Changing the layout of a running role is rejected; scaled to zero it succeeds"
)
def test_layout_change_of_running_role_is_rejected(stack: Stack, layouts: tuple[str, str]) -> None:
    stack.cluster.add_nodes(3)
    first: dict[str, Any] = {"layout": layouts[0]}
    second: dict[str, Any] = {"layout": layouts[1]}
    stack.deploy(role(), **first)
    text = f"layout: {layouts[1]} cannot replace {layouts[0]}"
    stack.assert_rejected(stack.service(role(), **second), text)
    # A second service may have another layout.
    neighbour = stack.service(role(), name="next", **second)
    stack.deploy_services(stack.service(role(), **first), neighbour)
    assert len(stack.pods()) == 6
    stack.deploy_services(neighbour)
    stack.cluster.wait(lambda: len(stack.pods()) == 3, 60, "pods of the old service")
    stack.deploy(role(replicas=0), name="next", **second)
    stack.deploy(role(), name="next", **first)
    assert set(stack.lws_tags().values()) == {"1"}


def scale(stack: Stack, replicas: int) -> None:
    change = {"spec": {"replicas": replicas}}
    stack.cluster.patch(LWS, "svc-serve", change, stack.namespace, subresource="scale")
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": replicas}, 60, "replicas")


#: Added to the program if another controller sets the replicas of a role.
LEAVE_REPLICAS = """
def leave_replicas(args):
    if args.type_.endswith(":LeaderWorkerSet"):
        args.opts.ignore_changes = ["spec.replicas"]
        return pulumi.ResourceTransformResult(args.props, args.opts)

options = pulumi.ResourceOptions(transforms=[leave_replicas])
for text in"""


@pytest.mark.verifies(
    "Replicas scaled by another controller stay; changes conflict unless spec.replicas is ignored"
)
def test_replicas_of_another_controller_stay(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2), **PER_ROLE)
    scale(stack, 4)
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    before = stack.pods()
    assert stack.count_ready() == {"serve": 4}
    result = stack.fail(role(replicas=2, tag="2"), **PER_ROLE)
    assert ".spec.replicas" in result.text
    assert stack.pods() == before
    stack.program = stack.program.replace("\nfor text in", LEAVE_REPLICAS)
    stack.up().assert_succeeded()
    assert set(stack.pod_tags().values()) == {"2"}
    assert stack.count_ready() == {"serve": 4}
    assert stack.preview() == {}
    scale(stack, 3)
    stack.deploy(role(replicas=2, tag="3"), **PER_ROLE)
    assert stack.count_ready() == {"serve": 3}
    assert set(stack.pod_tags().values()) == {"3"}
    stack.refresh().assert_succeeded()
    stack.deploy(role(replicas=2, tag="4"), **PER_ROLE)
    assert stack.count_ready() == {"serve": 3}
