"""Adoption of objects that another tool created (docs/how-to/adopt.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from e2e import inputs
from e2e.engine.services import Stack
from fusioninfer_pulumi import load, plan_service, render
from tests.page_blocks import blocks

PAGE = inputs.ROOT / "docs" / "how-to" / "adopt.md"


def make_service(namespace: str, image: str = "registry.example/engine:1") -> dict[str, Any]:
    """Return a service with two gang-scheduled replicas of two nodes."""
    role = inputs.role("serve", "worker", 2, 2)
    role["template"]["spec"]["containers"][0]["image"] = image
    manifest = inputs.service("svc", role)
    # The cluster has no EndpointSlices, which the provider would wait for (e2e/README.md).
    annotations = {"pulumi.com/skipAwait": "true"}
    manifest["metadata"] |= {"namespace": namespace, "annotations": annotations}
    return manifest


def write_service(stack: Stack, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    path = stack.folder / "service.yaml"
    path.write_text(yaml.safe_dump(dict(args)), encoding="utf-8")
    return [item for args in load(path) for item in render(plan_service(args))]


@pytest.fixture
def stack(stack: Stack) -> Stack:
    (program,) = [block.text for block in blocks(PAGE) if block.title == "__main__.py"]
    stack.program = program
    return stack


def read_uids(stack: Stack, objects: list[dict[str, Any]]) -> dict[str, str]:
    uids = stack.pods()
    for manifest in objects:
        kind = f"{manifest['apiVersion']}/{manifest['kind']}"
        name = manifest["metadata"]["name"]
        uids[f"{kind}/{name}"] = stack.cluster.get(kind, name, stack.namespace)["metadata"]["uid"]
    return uids


@pytest.mark.verifies("Adopting existing objects as docs/how-to/adopt.md describes restarts no pod")
def test_adoption_restarts_nothing(stack: Stack) -> None:
    cluster, namespace = stack.cluster, stack.namespace
    cluster.add_nodes(4, gpus=8)
    objects = write_service(stack, make_service(namespace))
    cluster.apply(objects)
    cluster.wait(lambda: len(cluster.bound_pods(namespace)) == 4, 60)
    before = read_uids(stack, objects)

    stack.run("config", "set", "adopt", "true").assert_succeeded()
    # Pulumi creates the stack and the component, and imports and updates each object.
    adopted = {"create": 2, "import": len(objects), "update": len(objects)}
    assert stack.preview() == adopted
    stack.up().assert_succeeded()
    # Without the import option, the objects get an annotation.
    stack.run("config", "rm", "adopt").assert_succeeded()
    assert stack.preview() == {"update": len(objects)}
    stack.up().assert_succeeded()
    assert stack.preview() == {}
    assert read_uids(stack, objects) == before

    write_service(stack, make_service(namespace, image="registry.example/engine:2"))
    assert stack.preview() == {"update": 3}  # LeaderWorkerSets and the component
    stack.up().assert_succeeded()
    assert set(stack.lws_tags().values()) == {"2"}
    stack.down().assert_succeeded()
    cluster.wait(lambda: not cluster.pods(namespace), 60)


@pytest.mark.verifies(
    "Adoption is rejected if it would change an object; the error names the fields"
)
def test_adoption_that_changes_objects_is_rejected(stack: Stack) -> None:
    cluster, namespace = stack.cluster, stack.namespace
    cluster.apply(write_service(stack, make_service(namespace)))
    write_service(stack, make_service(namespace, image="registry.example/engine:2"))
    stack.run("config", "set", "adopt", "true").assert_succeeded()
    result = stack.up().assert_failed()
    assert "field conflict" in result.text
    image = '.spec.leaderWorkerTemplate.workerTemplate.spec.containers[name="engine"].image'
    assert image in result.text
