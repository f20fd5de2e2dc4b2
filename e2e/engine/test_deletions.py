"""How long a deletion may take: as long as pods may take to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.engine.project import Project
from e2e.engine.services import Stack, role


def deletions(stack: Project) -> dict[str, float | None]:
    """The time that the state gives the deletion of each set, in seconds."""
    return {
        resource["urn"].rpartition("::")[2]: (resource.get("customTimeouts") or {}).get("delete")
        for resource in stack.resources()
        if resource["type"].endswith(":LeaderWorkerSet")
    }


@pytest.mark.proves(
    "Deletion waits for long grace periods; storing the longer timeout restarts nothing"
)
def test_deletion_waits_for_grace_period(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    slow: dict[str, Any] = role(replicas=2)
    slow["template"]["spec"]["terminationGracePeriodSeconds"] = 900
    stack.deploy(slow)
    noted = {"svc-serve-0": 1200, "svc-serve-1": 1200}
    assert deletions(stack) == noted
    state = stack.json("stack", "export")
    for resource in state["deployment"]["resources"]:
        (resource.get("customTimeouts") or {}).pop("delete", None)
    (stack.folder / "old.json").write_text(json.dumps(state), encoding="utf-8")
    stack.run("stack", "import", "--file", "old.json").assert_succeeded()
    assert deletions(stack) == {"svc-serve-0": None, "svc-serve-1": None}
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    assert stack.changes() == {}
    assert deletions(stack) == noted
    stack.down().assert_succeeded()
    assert stack.remaining_objects() == []
