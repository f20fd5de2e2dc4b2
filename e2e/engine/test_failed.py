"""The status says which role has failed, and why, where the cluster can be read."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.project import Project
from e2e.engine.services import Stack, role


def phases(stack: Project) -> dict[str, str]:
    """The phase of each role, as the stack's output tells it."""
    found = stack.output("status")["components"]
    return {name: each["phase"] for name, each in found.items()}


def failed(stack: Project) -> tuple[str, str]:
    (found,) = [
        condition
        for condition in stack.output("status")["conditions"]
        if condition["type"] == "Failed"
    ]
    return found["status"], found["message"]


def show(stack: Stack, text: str) -> None:
    stack.cluster.wait(
        lambda: text in str(stack.cluster.pods(stack.namespace)), 60, f"{text} of a pod"
    )


BACK_OFF = 'Back-off pulling image "registry.example/engine:1"'


@pytest.mark.proves("With wait.level None, the next `up` reports and clears phase Failed")
def test_next_update_reports_failed_role(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    nothing: dict[str, Any] = {"level": "None"}
    bad = role("bad", replicas=1, behaviour="unpullable")
    stack.deploy(role("good", replicas=1), bad, wait=nothing)
    show(stack, "ImagePullBackOff")
    result = stack.up().assert_succeeded()
    assert stack.changes() == {}
    assert phases(stack)["bad"] == "Failed"
    assert phases(stack)["good"] != "Failed"
    why = f"svc-bad-0: pod svc-bad-0-0: container engine: ImagePullBackOff: {BACK_OFF}"
    assert failed(stack) == ("True", why)
    assert "was not read" not in result.text
    # A preview reads nothing, and shows no change of any resource.
    assert stack.preview() == {}
    good = role("bad", replicas=1, tag="2")
    stack.deploy(role("good", replicas=1), good, wait=nothing)
    assert phases(stack)["bad"] == "Running"
    assert failed(stack)[0] == "False"


@pytest.mark.proves("Pods that fail after the update are reported after a refresh")
def test_later_failures_are_reported_after_refresh(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    stack.deploy(role(replicas=2))
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
    stack.cluster.patch(
        "v1/Pod", "svc-serve-1-0", {"status": status}, stack.namespace, subresource="status"
    )
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"

    def down() -> bool:
        found = stack.cluster.get(kind, "svc-serve-1", stack.namespace)["status"]["conditions"]
        return any(each["type"] == "Available" and each["status"] != "True" for each in found)

    stack.cluster.wait(down, 60, "the set to notice")
    stack.refresh().assert_succeeded()
    program = stack.program
    stack.without_permissions()
    result = stack.up().assert_succeeded()
    assert (
        f"failures of replicas were not read: pods in {stack.namespace}: 403 Forbidden"
        in result.text
    )
    assert (phases(stack), failed(stack)[0]) == ({"serve": "Deploying"}, "False")
    stack.program = program
    stack.up().assert_succeeded()
    assert phases(stack) == {"serve": "Failed"}
    assert failed(stack)[1].startswith("svc-serve-1: pod svc-serve-1-0: container engine: Image")
