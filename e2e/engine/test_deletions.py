"""How long a deletion may take: as long as pods may take to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import left, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]


def deletions(stack: Project) -> dict[str, float | None]:
    """The time that the state gives the deletion of each set, in seconds."""
    return {
        resource["urn"].rpartition("::")[2]: (resource.get("customTimeouts") or {}).get("delete")
        for resource in stack.resources()
        if resource["type"].endswith(":LeaderWorkerSet")
    }


@pytest.mark.proves(
    "Deletion waits for long grace periods; storing the longer timeout restarts nothing",
    needs=ENGINE,
)
def test_pods_that_end_slowly(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    slow: dict[str, Any] = role(replicas=2)
    slow["template"]["spec"]["terminationGracePeriodSeconds"] = 900
    stack.write(service(namespace, slow))
    stack.up().assert_fine()
    noted = {"svc-serve-0": 1200, "svc-serve-1": 1200}
    assert deletions(stack) == noted
    state = stack.json("stack", "export")
    for resource in state["deployment"]["resources"]:
        (resource.get("customTimeouts") or {}).pop("delete", None)
    (stack.folder / "old.json").write_text(json.dumps(state), encoding="utf-8")
    stack.run("stack", "import", "--file", "old.json").assert_fine()
    assert deletions(stack) == {"svc-serve-0": None, "svc-serve-1": None}
    assert stack.preview() == {}
    stack.up().assert_fine()
    assert stack.changes() == {}
    assert deletions(stack) == noted
    stack.down().assert_fine()
    assert left(cluster, namespace) == []
