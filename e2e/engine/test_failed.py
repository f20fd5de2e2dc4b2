"""The status says which role has failed, and why, where the cluster can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import role, service
from e2e.harness import Cluster

Make = Callable[..., Project]


def phases(stack: Project) -> dict[str, str]:
    """The phase of each role, as the stack's output tells it."""
    found = stack.output("status")["components"]
    return {name: each["phase"] for name, each in found.items()}


def failed(stack: Project) -> tuple[str, str]:
    """The condition Failed."""
    (found,) = [
        condition
        for condition in stack.output("status")["conditions"]
        if condition["type"] == "Failed"
    ]
    return found["status"], found["message"]


def show(cluster: Cluster, namespace: str, text: str) -> None:
    """Waits until a pod says something."""
    cluster.wait(lambda: text in str(cluster.pods(namespace)), 60, f"{text} of a pod")


BACK_OFF = 'Back-off pulling image "registry.example/engine:1"'


@pytest.mark.proves(
    "With wait.level None, the next `up` reports and clears phase Failed",
    needs=ENGINE,
)
def test_an_image_that_nobody_awaits(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    nothing: dict[str, Any] = {"level": "None"}
    bad = role("bad", replicas=1, behaviour="unpullable")
    stack.write(service(namespace, role("good", replicas=1), bad, wait=nothing))
    stack.up().assert_fine()
    show(cluster, namespace, "ImagePullBackOff")
    told = stack.up().assert_fine()
    assert stack.changes() == {}
    assert phases(stack)["bad"] == "Failed"
    assert phases(stack)["good"] != "Failed"
    why = f"svc-bad-0: pod svc-bad-0-0: container engine: ImagePullBackOff: {BACK_OFF}"
    assert failed(stack) == ("True", why)
    assert "was not read" not in told.text
    # A preview reads nothing, and shows no change of any resource.
    assert stack.preview() == {}
    good = role("bad", replicas=1, tag="2")
    stack.write(service(namespace, role("good", replicas=1), good, wait=nothing))
    stack.up().assert_fine()
    assert phases(stack)["bad"] == "Running"
    assert failed(stack)[0] == "False"


@pytest.mark.proves(
    "Pods that fail after the update are reported after a refresh",
    needs=ENGINE,
)
def test_pods_that_fail_later(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    stack.write(service(namespace, role(replicas=2)))
    stack.up().assert_fine()
    assert (phases(stack), failed(stack)[0]) == ({"serve": "Running"}, "False")
    status = {
        "conditions": [{"type": each, "status": "False"} for each in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {
                "name": "engine",
                "image": "registry.example/engine:1",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": BACK_OFF}},
            }
        ],
    }
    cluster.patch("v1/Pod", "svc-serve-1-0", {"status": status}, namespace, subresource="status")
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"

    def down() -> bool:
        found = cluster.get(kind, "svc-serve-1", namespace)["status"]["conditions"]
        return any(each["type"] == "Available" and each["status"] != "True" for each in found)

    cluster.wait(down, 60, "the set to notice")
    stack.refresh().assert_fine()
    program = stack.folder / "__main__.py"
    text = program.read_text(encoding="utf-8")
    nobody = cluster.kubeconfig_for(f"system:serviceaccount:{namespace}:default")
    program.write_text(
        "from fusioninfer_pulumi.component import cluster_access as access\n"
        f"async def kubeconfig(_): return {str(nobody)!r}, None\n"
        "assert access.kubeconfig_of\naccess.kubeconfig_of = kubeconfig\n" + text,
        encoding="utf-8",
    )
    told = stack.up().assert_fine()
    assert f"failures of replicas were not read: pods in {namespace}: 403 Forbidden" in told.text
    assert (phases(stack), failed(stack)[0]) == ({"serve": "Deploying"}, "False")
    program.write_text(text, encoding="utf-8")
    stack.up().assert_fine()
    assert phases(stack) == {"serve": "Failed"}
    assert failed(stack)[1].startswith("svc-serve-1: pod svc-serve-1-0: container engine: Image")
