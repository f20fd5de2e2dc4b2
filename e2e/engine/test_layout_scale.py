"""The replicas of a role's one set, scaled by the program or by somebody else."""

from __future__ import annotations

import pytest

from e2e.engine.services import PER_ROLE, SETS, TWO_NODES, Stack, role


def scale(stack: Stack, replicas: int) -> None:
    change = {"spec": {"replicas": replicas}}
    stack.cluster.patch(SETS, "svc-serve", change, stack.namespace, subresource="scale")
    stack.cluster.wait(lambda: stack.ready() == {"serve": replicas}, 60, "replicas")


@pytest.mark.proves("Scaling a PerRole role restarts nothing")
def test_scale(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES), **PER_ROLE)
    before = stack.pods()
    stack.deploy(role(replicas=3, gpus=1, **TWO_NODES), **PER_ROLE)
    assert stack.changes() == {"update": 3}  # LeaderWorkerSet, PodGroup and the component
    after = stack.pods()
    assert {name: uid for name, uid in after.items() if name in before} == before
    assert stack.ready() == {"serve": 3}
    stack.deploy(role(replicas=2, gpus=1, **TWO_NODES), **PER_ROLE)
    stack.cluster.wait(lambda: stack.pods() == before, 60, "pods of the removed replica")


#: What a program adds where something else sets the replicas of a role.
LEAVE_REPLICAS = """
def leave_replicas(args):
    if args.type_.endswith(":LeaderWorkerSet"):
        args.opts.ignore_changes = ["spec.replicas"]
        return pulumi.ResourceTransformResult(args.props, args.opts)

options = pulumi.ResourceOptions(transforms=[leave_replicas])
for text in"""


@pytest.mark.proves(
    "Replicas scaled by another controller stay; changes conflict unless spec.replicas is ignored"
)
def test_replicas_of_another_controller_stay(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy(role(replicas=2), **PER_ROLE)
    scale(stack, 4)
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    before = stack.pods()
    assert stack.ready() == {"serve": 4}
    stack.write(stack.service(role(replicas=2, tag="2"), **PER_ROLE))
    result = stack.up().assert_failed()
    assert ".spec.replicas" in result.text
    assert stack.pods() == before
    stack.program = stack.program.replace("\nfor text in", LEAVE_REPLICAS)
    stack.up().assert_succeeded()
    assert set(stack.tags().values()) == {"2"}
    assert stack.ready() == {"serve": 4}
    assert stack.preview() == {}
    scale(stack, 3)
    stack.deploy(role(replicas=2, tag="3"), **PER_ROLE)
    assert stack.ready() == {"serve": 3}
    assert set(stack.tags().values()) == {"3"}
    stack.refresh().assert_succeeded()
    stack.deploy(role(replicas=2, tag="4"), **PER_ROLE)
    assert stack.ready() == {"serve": 3}
