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
