"""Lost and restored states, and objects changed by hand (docs/how-to/lost-state.md)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import Project
from e2e.engine.services import (
    GROUPS,
    SETS,
    TWO_NODES,
    Stack,
    rendered,
    role,
    router,
    service,
    state_objects,
)

#: Takes over existing objects, and fields of other field managers.
RECOVER = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true", "PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}
SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 1}


def made(namespace: str, tag: str = "1", replicas: int = 3) -> dict[str, Any]:
    """Return a service with a gang, a route and a disruption budget."""
    serving = role(replicas=replicas, tag=tag, behaviour="slow", **SPREAD)
    return service(namespace, router(), serving, disruptionBudget={"maxUnavailable": 1})


def lose(stack: Project) -> None:
    """Delete the state, and create an empty stack with the same name."""
    shutil.rmtree(stack.state)
    stack.state.mkdir()
    name = f"organization/{stack.folder.name}/dev"
    stack.run("stack", "init", name).assert_succeeded()
    assert stack.resources() == []


@pytest.mark.verifies("A lost state is recovered by one `up`, without restarts")
def test_lost_state_is_recovered(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(made(stack.namespace))
    before = stack.pods()
    uids = stack.lws_uids()
    lose(stack)
    result = stack.up().assert_failed()
    assert "already exists" in result.text
    stack.up(**RECOVER).assert_succeeded()
    assert stack.pods() == before
    stack.assert_objects(made(stack.namespace))
    assert stack.preview() == {}
    least = stack.roll_services(made(stack.namespace, "2"))
    assert least["serve"] == 2, least
    assert set(stack.images().values()) == {"2"}
    assert stack.lws_uids() == uids
    stack.destroy()


@pytest.mark.verifies("An old backup of a stack is restored without restarts")
def test_backup_is_restored_without_restarts(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(made(stack.namespace, replicas=2))
    stack.run("stack", "export", "--file", "backup.json").assert_succeeded()
    stack.deploy_services(made(stack.namespace, "2", replicas=3))
    before = stack.pods()
    lose(stack)
    stack.run("stack", "import", "--file", "backup.json").assert_succeeded()
    stack.refresh().assert_succeeded()
    stack.up(**RECOVER).assert_succeeded()
    assert stack.pods() == before
    assert stack.ready()["serve"] == 3
    assert stack.preview() == {}
    assert stack.remaining_objects() == state_objects(stack.resources())


@pytest.mark.verifies("A second stack that claims the same service fails at the existing objects")
def test_two_stacks(project: Callable[..., Stack]) -> None:
    first, second = project("first"), project("second")
    first.cluster.add_nodes(4)
    namespace = first.namespace
    first.deploy_services(made(namespace))
    before = first.pods()
    second.write(made(namespace))
    assert "already exists" in second.up().assert_failed().text
    assert first.preview() == {}
    second.up(**RECOVER).assert_succeeded()
    assert first.pods() == before
    # The first stack can update fields that the second one has not changed.
    second.deploy_services(made(namespace, "2"))
    changed = first.pods()
    conflict = ("field conflict", 'conflicts with "pulumi-kubernetes-')
    first.assert_rejected(made(namespace, "3"), *conflict)
    first.run("stack", "rm", "--force", "--yes").assert_succeeded()
    assert first.pods() == changed
    assert second.preview() == {}


@pytest.mark.verifies(
    "A deleted PodGroup or Service returns without restarts; edited images conflict until forced"
)
def test_manual_changes_of_gang_are_repaired(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    wanted = stack.service(role(replicas=2, **SPREAD))
    stack.deploy_services(wanted)
    before = stack.pods()
    stack.cluster.delete(GROUPS, "svc", stack.namespace)
    stack.cluster.delete("v1/Service", "svc", stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview()["create"] == 2
    stack.up().assert_succeeded()
    assert stack.remaining_objects() == rendered(wanted)
    assert stack.pods() == before
    assert stack.preview() == {}
    template = stack.lws()["svc-serve-0"]["spec"]["leaderWorkerTemplate"]
    template["workerTemplate"]["spec"]["containers"][0]["image"] = "registry.example/engine:hand"
    edited = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template["workerTemplate"]}}}
    stack.cluster.patch(SETS, "svc-serve-0", edited, stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview() == {"update": 1}
    result = stack.up().assert_failed()
    assert 'conflict with "' in result.text
    assert '.containers[name="engine"].image' in result.text
    assert stack.images() == {"svc-serve-0": "hand", "svc-serve-1": "1"}
    stack.up(PULUMI_K8S_ENABLE_PATCH_FORCE="true").assert_succeeded()
    assert set(stack.images().values()) == {"1"}
    assert stack.ready() == {"serve": 2}
    assert stack.preview() == {}
