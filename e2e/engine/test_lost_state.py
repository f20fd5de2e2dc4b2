"""A state that is lost or restored, a service of two stacks: docs/how-to/lost-state.md."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import (
    images,
    left,
    lowest,
    lws,
    noted,
    pods,
    ready,
    rendered,
    role,
    router,
    service,
)
from e2e.harness import Cluster

Make = Callable[..., Project]
#: Takes over objects that exist, and fields that another field manager has.
RECOVER = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true", "PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 1}


def made(namespace: str, tag: str = "1", replicas: int = 3) -> dict[str, Any]:
    """A gang behind a route, with a disruption budget."""
    serving = role(replicas=replicas, tag=tag, behaviour="slow", **SPREAD)
    return service(namespace, router(), serving, disruptionBudget={"maxUnavailable": 1})


def lose(stack: Project) -> None:
    """Loses the state, and begins with an empty one of the same name."""
    shutil.rmtree(stack.state)
    stack.state.mkdir()
    name = f"organization/{stack.folder.name}/dev"
    stack.run("stack", "init", name).assert_fine()
    assert stack.resources() == []


@pytest.mark.proves(
    "A lost state is recovered by one `up`, without restarts",
    needs=ENGINE,
)
def test_recovered(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(made(namespace))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    uids = {name: each["metadata"]["uid"] for name, each in lws(cluster, namespace).items()}
    lose(stack)
    told = stack.up()
    assert told.status != 0
    assert "already exists" in told.text
    stack.up(**RECOVER).assert_fine()
    assert pods(cluster, namespace) == before
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(made(namespace))
    assert stack.preview() == {}
    stack.write(made(namespace, "2"))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2, least
    assert set(images(cluster, namespace).values()) == {"2"}
    found = {name: each["metadata"]["uid"] for name, each in lws(cluster, namespace).items()}
    assert found == uids
    stack.down().assert_fine()
    assert left(cluster, namespace) == []


@pytest.mark.proves(
    "A lost state is recovered with another image, one replica at a time",
    needs=ENGINE,
)
def test_recovered_with_another_image(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(made(namespace))
    stack.up().assert_fine()
    lose(stack)
    stack.write(made(namespace, "2"))
    with lowest(cluster, namespace) as least:
        stack.up(**RECOVER).assert_fine()
    assert least["serve"] == 2, least
    assert set(images(cluster, namespace).values()) == {"2"}
    assert stack.preview() == {}


@pytest.mark.proves(
    "An old backup of a stack is restored without restarts",
    needs=ENGINE,
)
def test_restored_from_a_backup(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(made(namespace, replicas=2))
    stack.up().assert_fine()
    stack.run("stack", "export", "--file", "backup.json").assert_fine()
    stack.write(made(namespace, "2", replicas=3))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    lose(stack)
    stack.run("stack", "import", "--file", "backup.json").assert_fine()
    stack.refresh().assert_fine()
    stack.up(**RECOVER).assert_fine()
    assert pods(cluster, namespace) == before
    assert ready(cluster, namespace)["serve"] == 3
    assert stack.preview() == {}
    assert left(cluster, namespace) == noted(stack.resources())


@pytest.mark.proves(
    "A second stack that claims the same service fails at the existing objects",
    needs=ENGINE,
)
def test_two_stacks(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    first, second = project("first"), project("second")
    first.write(made(namespace))
    first.up().assert_fine()
    before = pods(cluster, namespace)
    second.write(made(namespace))
    told = second.up()
    assert told.status != 0
    assert "already exists" in told.text
    assert first.preview() == {}
    second.up(**RECOVER).assert_fine()
    assert pods(cluster, namespace) == before
    # Until the second one changes a field itself, the first one still may.
    second.write(made(namespace, "2"))
    second.up().assert_fine()
    changed = pods(cluster, namespace)
    first.write(made(namespace, "3"))
    for words in (("preview",), ("up", "--yes", "--skip-preview")):
        refused = first.run(*words)
        assert refused.status != 0
        assert "field conflict" in refused.text, refused.text[-4000:]
        assert 'conflicts with "pulumi-kubernetes-' in refused.text
    assert pods(cluster, namespace) == changed
    first.run("stack", "rm", "--force", "--yes").assert_fine()
    assert pods(cluster, namespace) == changed
    assert second.preview() == {}
