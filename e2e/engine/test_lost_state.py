"""Lost and restored states, and objects changed by hand (docs/how-to/lost-state.md)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import Project
from e2e.engine.services import (
    LWS,
    POD_GROUP,
    TWO_NODES,
    Stack,
    list_rendered,
    list_state,
    role,
    router,
    service,
)

#: Takes over existing objects, and fields of other field managers.
RECOVER = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true", "PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}
SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 1}


def make_service(namespace: str, tag: str = "1", replicas: int = 3) -> dict[str, Any]:
    """Return a service with a gang, a route and a disruption budget."""
    serving = role(replicas=replicas, tag=tag, behavior="slow", **SPREAD)
    return service(namespace, router(), serving, disruptionBudget={"maxUnavailable": 1})


def lose_state(stack: Project) -> None:
    """Delete the state, and create an empty stack with the same name."""
    shutil.rmtree(stack.state)
    stack.state.mkdir()
    name = f"organization/{stack.folder.name}/dev"
    stack.run("stack", "init", name).assert_succeeded()
    assert stack.read_resources() == []


@pytest.mark.verifies("A lost state is recovered by one `up`, without restarts")
def test_lost_state_is_recovered(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(make_service(stack.namespace))
    before = stack.pods()
    uids = stack.list_lws_uids()
    lose_state(stack)
    result = stack.up().assert_failed()
    assert "already exists" in result.text
    stack.up(**RECOVER).assert_succeeded()
    assert stack.pods() == before
    stack.assert_objects(make_service(stack.namespace))
    assert stack.preview() == {}
    min_ready = stack.roll_services(make_service(stack.namespace, "2"))
    assert min_ready["serve"] == 2, min_ready
    assert set(stack.lws_tags().values()) == {"2"}
    assert stack.list_lws_uids() == uids
    stack.destroy()


@pytest.mark.verifies("An old backup of a stack is restored without restarts")
def test_backup_is_restored_without_restarts(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    stack.deploy_services(make_service(stack.namespace, replicas=2))
    stack.run("stack", "export", "--file", "backup.json").assert_succeeded()
    stack.deploy_services(make_service(stack.namespace, "2", replicas=3))
    before = stack.pods()
    lose_state(stack)
    stack.run("stack", "import", "--file", "backup.json").assert_succeeded()
    stack.refresh().assert_succeeded()
    stack.up(**RECOVER).assert_succeeded()
    assert stack.pods() == before
    assert stack.count_ready()["serve"] == 3
    assert stack.preview() == {}
    assert stack.list_objects() == list_state(stack.read_resources())


@pytest.mark.verifies("A second stack that claims the same service fails at the existing objects")
def test_second_stack_fails_at_existing_objects(project: Callable[..., Stack]) -> None:
    first, second = project("first"), project("second")
    first.cluster.add_nodes(4)
    namespace = first.namespace
    first.deploy_services(make_service(namespace))
    before = first.pods()
    second.write(make_service(namespace))
    assert "already exists" in second.up().assert_failed().text
    assert first.preview() == {}
    second.up(**RECOVER).assert_succeeded()
    assert first.pods() == before
    # The first stack can update fields that the second one has not changed.
    second.deploy_services(make_service(namespace, "2"))
    changed = first.pods()
    conflict = ("field conflict", 'conflicts with "pulumi-kubernetes-')
    first.assert_rejected(make_service(namespace, "3"), *conflict)
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
    stack.cluster.delete(POD_GROUP, "svc", stack.namespace)
    stack.cluster.delete("v1/Service", "svc", stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview()["create"] == 2
    stack.up().assert_succeeded()
    assert stack.list_objects() == list_rendered(wanted)
    assert stack.pods() == before
    assert stack.preview() == {}
    template = stack.lws()["svc-serve-0"]["spec"]["leaderWorkerTemplate"]
    template["workerTemplate"]["spec"]["containers"][0]["image"] = "registry.example/engine:hand"
    edited = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template["workerTemplate"]}}}
    stack.cluster.patch(LWS, "svc-serve-0", edited, stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview() == {"update": 1}
    result = stack.up().assert_failed()
    assert 'conflict with "' in result.text
    assert '.containers[name="engine"].image' in result.text
    assert stack.lws_tags() == {"svc-serve-0": "hand", "svc-serve-1": "1"}
    stack.up(PULUMI_K8S_ENABLE_PATCH_FORCE="true").assert_succeeded()
    assert set(stack.lws_tags().values()) == {"1"}
    assert stack.count_ready() == {"serve": 2}
    assert stack.preview() == {}
