"""A failed update says why, where the cluster can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project, Told
from e2e.engine.services import pods, ready, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
SHORT: dict[str, Any] = {"rollout": {"timeout": "12s"}, "wait": {"timeout": "12s"}}
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}


def said(told: Told) -> list[str]:
    """What the component said, each once."""
    assert told.status != 0
    lines = [line.strip() for line in told.text.split("Diagnostics:")[1].splitlines()]
    return [line.removeprefix("error: ") for line in lines]


@pytest.mark.proves(
    "A failing image or crashing container fails the update with replica, pod and reason",
    needs=ENGINE,
)
def test_images(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, role(), **SHORT))
    stack.up().assert_fine()
    stack.write(service(namespace, role(tag="2", behaviour="unpullable"), **SHORT))
    lines = said(stack.up())
    assert (
        "pod svc-serve-2-0: container engine: ImagePullBackOff: Back-off pulling image "
        '"registry.example/engine:2"'
    ) in lines
    stack.write(service(namespace, role(tag="3", behaviour="crashing"), **SHORT))
    lines = said(stack.up())
    (crashed,) = [line for line in lines if line.startswith("pod svc-serve-2-0: ")]
    assert "CrashLoopBackOff" in crashed
    assert "exit code 1 (Error), restarted 1 time" in crashed
    assert not [line for line in lines if "svc-serve-1" in line or "svc-serve-0" in line]


@pytest.mark.core
@pytest.mark.proves(
    "An unschedulable gang fails at its timeout with the scheduler's message and missing GPUs",
    needs=ENGINE,
)
def test_no_room(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(3)
    stack = project()
    stack.write(service(namespace, role(replicas=2, gpus=8, **SPREAD), **SHORT))
    lines = said(stack.up())
    (group,) = [line for line in lines if line.startswith("PodGroup svc: ")]
    assert "gang unschedulable" in group
    assert (
        "8 nvidia.com/gpu are missing: 4 pods need 8 each; 24 are free, at most 8 on one node"
    ) in lines


@pytest.mark.proves(
    "Pods rejected by admission are reported with the controller's event", needs=ENGINE
)
def test_pods_that_are_refused(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}
    metadata = {"name": "tiny", "namespace": namespace}
    kind = {"apiVersion": "v1", "kind": "LimitRange"}
    cluster.create({**kind, "metadata": metadata, "spec": limits})
    stack = project()
    stack.write(service(namespace, role(replicas=1), **SHORT))
    lines = said(stack.up())
    (refused,) = [line for line in lines if line.startswith("StatefulSet svc-serve-0: ")]
    assert "maximum cpu usage per Container is 1m" in refused


@pytest.mark.core
@pytest.mark.proves(
    "Without read permission, creation succeeds with a warning and rolling updates are rejected",
    needs=ENGINE,
)
def test_without_rights(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    stack.write(service(namespace, role(), **SHORT))
    nobody = cluster.kubeconfig_for(f"system:serviceaccount:{namespace}:default")
    program = stack.folder / "__main__.py"
    program.write_text(
        "from fusioninfer_pulumi.component import cluster_access as access\n"
        f"async def kubeconfig(_): return {str(nobody)!r}, None\n"
        "assert access.kubeconfig_of\naccess.kubeconfig_of = kubeconfig\n"
        + program.read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    told = stack.up().assert_fine()
    unread = f"leaderworkersets in {namespace}: 403 Forbidden"
    assert f"availability of replicas was not checked: {unread}" in told.text
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 3}, 60, "replicas")
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(tag="2"), **SHORT))
    lines = said(stack.up())
    assert any(f"the cluster cannot be read: {unread}" in line for line in lines), lines
    assert pods(cluster, namespace) == before
