"""Gangs of Kubernetes itself, kept by the Pulumi engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.catalog import tool
from e2e.engine.project import ENGINE, Project
from e2e.engine.services import lowest, pods, ready, role, service, tags
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS, Cluster

pytestmark = pytest.mark.long

Make = Callable[..., Project]
KUBERNETES = "kubernetes-1.37"
GROUP = "scheduling.k8s.io/v1beta1/PodGroup"
NATIVE: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}}}
OFF: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
TWO: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Kubernetes 1.37 with its own gangs switched on, without Volcano."""
    if not tool(KUBERNETES).is_built:
        pytest.skip(f"Kubernetes 1.37 is not built: python -m e2e.build_tools --only {KUBERNETES}")
    gates = {"GenericWorkload": True}
    with Cluster({LWS, KUBE_SCHEDULER, KWOK}, kubernetes=KUBERNETES, gates=gates) as started:
        yield started


def pair(namespace: str, decode: int = 2, tag: str = "1", **spec: Any) -> dict[str, Any]:
    return service(
        namespace,
        role("prefill", "prefiller", replicas=1, gpus=8, tag=tag, **TWO),
        role("decode", "decoder", replicas=decode, gpus=8, tag=tag, **TWO),
        **{**NATIVE, **spec},
    )


def least(cluster: Cluster, namespace: str) -> int:
    group = cluster.get(GROUP, "svc", namespace)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
@pytest.mark.proves(
    "A Native gang is created, updated, scaled, refreshed and deleted",
    needs=ENGINE,
)
def test_a_service_with_a_gang_of_kubernetes(
    cluster: Cluster, namespace: str, project: Make, layout: str
) -> None:
    cluster.add_nodes(8)
    stack = project()
    stack.write(pair(namespace, layout=layout))
    stack.up().assert_fine()
    assert (ready(cluster, namespace), least(cluster, namespace)) == (
        {"prefill": 1, "decode": 2},
        6,
    )
    (active,) = (each for each in stack.output("status")["conditions"] if each["type"] == "Active")
    assert active["status"] == "True"
    assert stack.preview() == {}
    before = pods(cluster, namespace)
    stack.refresh().assert_fine()
    stack.up().assert_fine()
    assert pods(cluster, namespace) == before

    stack.write(pair(namespace, tag="2", layout=layout))
    with lowest(cluster, namespace) as seen:
        stack.up().assert_fine()
    assert seen["decode"] >= 1
    assert set(tags(cluster, namespace).values()) == {"2"}

    before = pods(cluster, namespace)
    stack.write(pair(namespace, 3, tag="2", layout=layout))
    stack.up().assert_fine()
    assert (ready(cluster, namespace), least(cluster, namespace)) == (
        {"prefill": 1, "decode": 3},
        8,
    )
    assert before.items() <= pods(cluster, namespace).items()
    stack.write(pair(namespace, 2, tag="2", layout=layout))
    stack.up().assert_fine()
    cluster.wait(lambda: pods(cluster, namespace) == before, 60, lambda: pods(cluster, namespace))
    assert least(cluster, namespace) == 6

    stack.down().assert_fine()
    cluster.wait(lambda: not cluster.list(GROUP, namespace), 60, "the PodGroup is gone")


@pytest.mark.proves(
    "Rolling replicas into a Native gang is rejected; Recreate works",
    needs=ENGINE,
)
def test_replicas_join_a_gang_of_kubernetes(
    cluster: Cluster, namespace: str, project: Make
) -> None:
    cluster.add_nodes(6)
    stack = project()
    stack.write(pair(namespace, **OFF))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    stack.write(pair(namespace))
    told = stack.up()
    assert told.status != 0
    assert "Recreate" in told.text
    assert pods(cluster, namespace) == before
    stack.write(pair(namespace, rollout={"strategy": "Recreate", "timeout": "150s"}))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"prefill": 1, "decode": 2}


@pytest.mark.proves(
    "A failed wait reports why a Native gang is unschedulable",
    needs=ENGINE,
)
def test_a_gang_without_room_fails_with_its_reason(
    cluster: Cluster, namespace: str, project: Make
) -> None:
    cluster.add_nodes(5)
    stack = project()
    stack.write(pair(namespace, wait={"level": "Scheduled", "timeout": "20s"}))
    told = stack.up()
    assert told.status != 0
    assert "PodGroup svc: minCount (6) cannot be satisfied" in told.text
    cluster.add_nodes(1)
    stack.write(pair(namespace, wait={"level": "Scheduled", "timeout": "150s"}))
    stack.up().assert_fine()
