"""The replicas of a role's one set, scaled by the program or by somebody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import SETS, pods, ready, role, service, tags
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}
PER_ROLE: dict[str, Any] = {"layout": "PerRole"}


def scale(cluster: Cluster, namespace: str, replicas: int) -> None:
    """What an autoscaler does."""
    change = {"spec": {"replicas": replicas}}
    cluster.patch(SETS, "svc-serve", change, namespace, subresource="scale")
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": replicas}, 60, "replicas")


@pytest.mark.proves("Scaling a PerRole role restarts nothing", needs=ENGINE)
def test_scale(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=2, gpus=1, **SPREAD), **PER_ROLE))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=3, gpus=1, **SPREAD), **PER_ROLE))
    stack.up().assert_fine()
    assert stack.changes() == {"update": 2}  # set and PodGroup
    after = pods(cluster, namespace)
    assert {name: uid for name, uid in after.items() if name in before} == before
    assert ready(cluster, namespace) == {"serve": 3}
    stack.write(service(namespace, role(replicas=2, gpus=1, **SPREAD), **PER_ROLE))
    stack.up().assert_fine()
    cluster.wait(lambda: pods(cluster, namespace) == before, 60, "pods of the removed replica")


#: What a program adds where something else sets the replicas of a role.
LEAVE_REPLICAS = """
def leave_replicas(args):
    if args.type_.endswith(":LeaderWorkerSet"):
        args.opts.ignore_changes = ["spec.replicas"]
        return pulumi.ResourceTransformResult(args.props, args.opts)

options = pulumi.ResourceOptions(transforms=[leave_replicas])
for text in"""


@pytest.mark.proves(
    "Replicas scaled by another controller stay; changes conflict unless spec.replicas is ignored",
    needs=ENGINE,
)
def test_scaled_by_another_actor(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=2), **PER_ROLE))
    stack.up().assert_fine()
    scale(cluster, namespace, 4)
    assert stack.preview() == {}
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    assert ready(cluster, namespace) == {"serve": 4}
    stack.write(service(namespace, role(replicas=2, tag="2"), **PER_ROLE))
    told = stack.up()
    assert told.status != 0
    assert ".spec.replicas" in told.text
    assert pods(cluster, namespace) == before
    program = stack.folder / "__main__.py"
    text = program.read_text(encoding="utf-8")
    program.write_text(text.replace("\nfor text in", LEAVE_REPLICAS), encoding="utf-8")
    stack.up().assert_fine()
    assert set(tags(cluster, namespace).values()) == {"2"}
    assert ready(cluster, namespace) == {"serve": 4}
    assert stack.preview() == {}
    scale(cluster, namespace, 3)
    stack.write(service(namespace, role(replicas=2, tag="3"), **PER_ROLE))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
    assert set(tags(cluster, namespace).values()) == {"3"}
    stack.refresh().assert_fine()
    stack.write(service(namespace, role(replicas=2, tag="4"), **PER_ROLE))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
