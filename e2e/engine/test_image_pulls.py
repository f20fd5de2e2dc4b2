"""Image pulls: an update waits until nodes have the new image."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import Stack, role

DAEMON_SETS = "apps/v1/DaemonSet"


def read_pull(stack: Stack) -> tuple[str, int]:
    """Return the image that is pulled, and the number of nodes that have it."""
    (pull,) = stack.cluster.list(DAEMON_SETS, stack.namespace)
    (container,) = pull["spec"]["template"]["spec"]["containers"]
    return container["image"].rpartition(":")[2], pull["status"].get("numberReady", 0)


@pytest.mark.verifies(
    "Pods change after their image was pulled on all nodes, and not if that fails"
)
def test_pods_change_after_image_pull(stack: Stack) -> None:
    spec: dict[str, Any] = {"rollout": {"pullImages": True}}
    stack.cluster.add_nodes(2)
    stack.deploy(role(replicas=2), **spec)
    assert read_pull(stack) == ("1", 2)
    assert stack.preview() == {}
    stack.deploy(role(replicas=2, tag="2"), **spec)
    assert read_pull(stack) == ("2", 2)
    assert set(stack.pod_tags().values()) == {"2"}

    # The DaemonSet cannot replace its pods.
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "2"}}}
    metadata = {"name": "pods", "namespace": stack.namespace}
    stack.cluster.create({**quota, "metadata": metadata})
    stack.write(stack.service(role(replicas=2, tag="3"), wait={"timeout": "20s"}, **spec))
    stack.up().assert_failed()
    assert read_pull(stack)[0] == "3"
    assert set(stack.pod_tags().values()) == {"2"}
    stack.down().assert_succeeded()
