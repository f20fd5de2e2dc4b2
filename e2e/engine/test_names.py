"""Renames: of the component, of the service, of a role; and who owns a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import ENGINE, PROGRAM, Project
from e2e.engine.services import left, lowest, noted, pods, ready, rendered, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
CALL = 'InferenceService(args["metadata"]["name"], args, options)'


def program(stack: Project, logical: str, *, alias: str | None = None) -> None:
    """Gives the component a logical name of its own."""
    assert CALL in PROGRAM
    aliases = f"aliases=[pulumi.Alias(name={alias!r})]" if alias else ""
    call = f"InferenceService({logical!r}, args, pulumi.ResourceOptions({aliases}))"
    text = PROGRAM.replace(CALL, call)
    Path(stack.folder / "__main__.py").write_text(text, encoding="utf-8")


@pytest.mark.proves(
    "A renamed component with an alias changes nothing; without an alias it fails",
    needs=ENGINE,
)
def test_component_renamed_with_an_alias(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, role(replicas=2)))
    stack.up().assert_fine()
    before = pods(cluster, namespace)
    program(stack, "other")
    told = stack.up()
    assert told.status != 0
    assert "already exists" in told.text
    assert pods(cluster, namespace) == before
    # The state holds the new component now, beside the old one: an alias comes too late.
    program(stack, "svc")
    stack.up().assert_fine()
    assert pods(cluster, namespace) == before
    program(stack, "other", alias="svc")
    assert stack.preview() == {}
    stack.up().assert_fine()
    assert stack.changes() == {}
    assert pods(cluster, namespace) == before
    program(stack, "other")
    assert stack.preview() == {}


@pytest.mark.proves(
    "A renamed service and component becomes available before the old one is deleted",
    needs=ENGINE,
)
def test_service_renamed(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    stack.write(service(namespace, role(replicas=2, behaviour="slow")))
    stack.up().assert_fine()
    wanted = service(namespace, role(replicas=2, behaviour="slow"), name="other")
    stack.write(wanted)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(wanted)
    assert ready(cluster, namespace) == {"serve": 2}


@pytest.mark.proves("A renamed role becomes available before the old one is deleted", needs=ENGINE)
def test_role_renamed(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(8)
    stack = project()
    spread: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 8}
    old = role("serve", replicas=2, behaviour="slow", **spread)
    stack.write(service(namespace, old))
    stack.up().assert_fine()
    wanted = service(namespace, {**old, "name": "decode"})
    stack.write(wanted)
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    # Who looks while pods go sees fewer of the old role, but then the new one is there.
    assert least["total"] == 2, least
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(wanted)
    assert ready(cluster, namespace) == {"decode": 2}


@pytest.mark.proves(
    "Another metadata.name or namespace creates new objects before deleting the old ones",
    needs=ENGINE,
)
def test_service_renamed_alone(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    program(stack, "fixed")
    stack.write(service(namespace, role(replicas=2, behaviour="slow")))
    stack.up().assert_fine()
    wanted = service(namespace, role(replicas=2, behaviour="slow"), name="other")
    stack.write(wanted)
    assert stack.preview() == {"replace": 3}
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2, least
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(wanted)
    assert ready(cluster, namespace) == {"serve": 2}
    elsewhere = cluster.new_namespace()
    try:
        stack.write(service(elsewhere, role(replicas=2, behaviour="slow"), name="other"))
        with lowest(cluster, namespace, elsewhere) as least:
            stack.up().assert_fine()
        assert least["total"] == 2, least
        assert left(cluster, namespace) == []
        assert left(cluster, elsewhere) == noted(stack.resources()) == rendered(wanted)
    finally:
        cluster.delete_namespace(elsewhere)


@pytest.mark.proves(
    "A second stack cannot take over a service of the same name and namespace", needs=ENGINE
)
def test_a_name_belongs_to_one_stack(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    one, two = project("one"), project("two")
    one.write(service(namespace, role(replicas=1)))
    one.up().assert_fine()
    before = pods(cluster, namespace)
    two.write(service(namespace, role(replicas=1, tag="2")))
    told = two.up()
    assert told.status != 0
    assert "already exists" in told.text
    assert pods(cluster, namespace) == before
    assert one.preview() == {}


TWO = """\
from pathlib import Path

import yaml

from fusioninfer_pulumi import InferenceService

for text in Path("services.yaml").read_text().split("\\n---\\n"):
    args = yaml.safe_load(text)
    if args is not None:
        InferenceService(args["metadata"]["labels"]["component"], args)
"""


@pytest.mark.proves(
    "Components with services of one name in two namespaces stay separate",
    needs=ENGINE,
)
def test_one_service_name_in_two_namespaces(
    cluster: Cluster, namespace: str, project: Make
) -> None:
    cluster.add_nodes(4)
    elsewhere = cluster.new_namespace()
    spread: dict[str, Any] = {"multinode": {"nodeCount": 4, "launcher": "none"}}
    alone = {"gangPolicy": {"mode": "Off"}}

    def made(where: str, component: str, replicas: int = 2, **more: Any) -> dict[str, Any]:
        labels = {"labels": {"component": component}}
        one = role(replicas=replicas, **spread, **more)
        return service(where, one, metadata=labels, schedulingStrategy=alone)

    try:
        stack = project()
        (stack.folder / "__main__.py").write_text(TWO, encoding="utf-8")
        east = made(namespace, "east")
        policy = {"subGroupPolicy": {"subGroupSize": 2}}
        stack.write(east)
        stack.up().assert_fine()
        before = pods(cluster, namespace)
        for replicas in (1, 2):
            # It is refused as a change of the policy of the other one's sets, if it is mistaken.
            stack.write(made(elsewhere, "west", replicas, **policy), east)
            stack.up().assert_fine()
            assert ready(cluster, elsewhere) == {"serve": replicas}
            assert pods(cluster, namespace) == before
        assert stack.preview() == {}
    finally:
        cluster.delete_namespace(elsewhere)
