"""Objects that another tool made become a stack's own, on the real engine: docs/how-to/adopt.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from e2e.engine.project import ENGINE, Project
from e2e.harness import Cluster
from fusioninfer_pulumi import load, plan_service, render

#: The program of docs/how-to/adopt.md.
PROGRAM = """\
from typing import Any

import pulumi

from fusioninfer_pulumi import InferenceService, load

ADOPT = pulumi.Config().get_bool("adopt")


def existing(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    if not args.custom:
        return None
    options = args.opts
    metadata: Any = args.props["metadata"]
    if args.type_ == "kubernetes:core/v1:Service":
        # Its addresses are imported, and would cause a replacement.
        options.ignore_changes = ["spec.clusterIP", "spec.clusterIPs"]
    if ADOPT:
        options.import_ = "/".join(filter(None, [metadata.get("namespace"), metadata["name"]]))
        return pulumi.ResourceTransformResult(args.props, options)
    # The API server records the other tool as the owner of the fields: take them over on a change.
    annotations = {**(metadata.get("annotations") or {}), "pulumi.com/patchForce": "true"}
    props = {**args.props, "metadata": {**metadata, "annotations": annotations}}
    return pulumi.ResourceTransformResult(props, options)


for args in load("service.yaml"):
    InferenceService(str(args.name), args, pulumi.ResourceOptions(transforms=[existing]))
"""


def service(namespace: str, image: str = "registry.example/engine:1") -> dict[str, Any]:
    """Two replicas of two nodes: sets, a gang and a Service."""
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    engine = {"name": "engine", "image": image, "command": ["serve"], "resources": limits}
    role = {
        "name": "serve",
        "componentType": "worker",
        "replicas": 2,
        "multinode": {"nodeCount": 2, "launcher": "none"},
        "template": {"spec": {"containers": [engine]}},
    }
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        # There are no EndpointSlices here for the provider to wait for (e2e/README.md).
        "metadata": {
            "name": "svc",
            "namespace": namespace,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {"roles": [role]},
    }


def write(stack: Project, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sets what the program makes, and returns its objects."""
    path = stack.folder / "service.yaml"
    path.write_text(yaml.safe_dump(dict(args)), encoding="utf-8")
    return [each for found in load(path) for each in render(plan_service(found))]


@pytest.fixture
def stack(project: Callable[..., Project]) -> Project:
    """An empty stack on the cluster, with the program of the documentation."""
    made = project("adoption")
    (made.folder / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    return made


def identities(cluster: Cluster, namespace: str, objects: list[dict[str, Any]]) -> dict[str, str]:
    """What tells an object, or a pod, from one that took its place."""
    found = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods(namespace)}
    for manifest in objects:
        kind = f"{manifest['apiVersion']}/{manifest['kind']}"
        name = manifest["metadata"]["name"]
        found[f"{kind}/{name}"] = cluster.get(kind, name, namespace)["metadata"]["uid"]
    return found


@pytest.mark.proves(
    "Adopting existing objects as docs/how-to/adopt.md describes restarts no pod",
    needs=ENGINE,
)
def test_objects_of_another_tool_are_adopted_and_nothing_restarts(
    cluster: Cluster, namespace: str, stack: Project
) -> None:
    cluster.add_nodes(4, gpus=8)
    objects = write(stack, service(namespace))
    cluster.apply(objects)
    cluster.wait(lambda: len(cluster.bound(namespace)) == 4, 60)
    before = identities(cluster, namespace, objects)

    stack.run("config", "set", "adopt", "true").assert_fine()
    # The stack and the component are new; each object is imported, then applied.
    adopted = {"create": 2, "import": len(objects), "update": len(objects)}
    assert stack.preview() == adopted
    stack.up().assert_fine()
    # Without the option the objects get an annotation, and it is a stack as any other.
    stack.run("config", "rm", "adopt").assert_fine()
    assert stack.preview() == {"update": len(objects)}
    stack.up().assert_fine()
    assert stack.preview() == {}
    assert identities(cluster, namespace, objects) == before

    changed = write(stack, service(namespace, image="registry.example/engine:2"))
    assert stack.preview() == {"update": 2}
    stack.up().assert_fine()
    for each in changed:
        if each["kind"] == "LeaderWorkerSet":
            kind = f"{each['apiVersion']}/{each['kind']}"
            stored = cluster.get(kind, each["metadata"]["name"], namespace)
            template = stored["spec"]["leaderWorkerTemplate"]["workerTemplate"]
            assert template["spec"]["containers"][0]["image"] == "registry.example/engine:2"
    stack.down().assert_fine()
    cluster.wait(lambda: not cluster.pods(namespace), 60)


@pytest.mark.proves("Adopting an object that does not exist fails", needs=ENGINE)
def test_an_object_that_is_not_there_is_said(
    cluster: Cluster, namespace: str, stack: Project
) -> None:
    objects = write(stack, service(namespace))
    cluster.apply(manifest for manifest in objects if manifest["kind"] != "Service")
    stack.run("config", "set", "adopt", "true").assert_fine()
    told = stack.up()
    assert told.status != 0
    assert f"resource '{namespace}/svc' does not exist" in told.text


@pytest.mark.proves(
    "Adoption is rejected if it would change an object; the error names the fields", needs=ENGINE
)
def test_what_differs_is_refused(cluster: Cluster, namespace: str, stack: Project) -> None:
    cluster.apply(write(stack, service(namespace)))
    write(stack, service(namespace, image="registry.example/engine:2"))
    stack.run("config", "set", "adopt", "true").assert_fine()
    told = stack.up()
    assert told.status != 0
    assert "field conflict" in told.text
    image = '.spec.leaderWorkerTemplate.workerTemplate.spec.containers[name="engine"].image'
    assert image in told.text
