"""Resource options of a component reach its objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes import Provider
from pulumi_kubernetes.core.v1 import ConfigMap

from fusioninfer_pulumi import InferenceService, InferenceServiceArgs

Story = Callable[[int], InferenceServiceArgs]
Options = pulumi.ResourceOptions


def run(engine: Any, story: Story, options: Callable[[], Options], number: int = 4) -> Any:
    return engine.run(lambda: InferenceService("app", story(number), options()) and None)


def objects(deployment: Any) -> list[Any]:
    """Return the component's resources without those of the test."""
    return [
        child for child in deployment.children if child.request.parent == service(deployment).urn
    ]


def service(deployment: Any) -> Any:
    (item,) = [entry for entry in deployment.registered if entry.request.type.startswith("fusion")]
    return item


@pytest.mark.parametrize("listed", ["provider", "providers", "mapping"])
def test_provider_applies_to_all_children(engine: Any, story: Story, listed: str) -> None:
    def options() -> Options:
        provider = Provider("cluster")
        if listed == "provider":
            return Options(provider=provider)
        return Options(providers=[provider] if listed == "providers" else {"kubernetes": provider})

    deployment = run(engine, story, options)
    provider = deployment["cluster"]
    assert {resource.request.provider for resource in objects(deployment)} == {
        f"{provider.urn}::cluster-id"
    }
    assert len(objects(deployment)) == 5


def test_protect_applies_to_all_children(engine: Any, story: Story) -> None:
    deployment = run(engine, story, lambda: Options(protect=True))
    assert {item.request.protect for item in deployment.registered} == {True}


def test_retain_on_delete_applies_to_all_children(engine: Any, story: Story) -> None:
    deployment = run(engine, story, lambda: Options(retain_on_delete=True))
    assert {resource.request.retainOnDelete for resource in objects(deployment)} == {True}


@pytest.mark.parametrize("form", ["list", "one", "output"])
def test_depends_on_applies_to_all_children(engine: Any, story: Story, form: str) -> None:
    def options() -> Options:
        first = ConfigMap("first", metadata={"name": "first"})
        value: Any = {"list": [first], "one": first, "output": pulumi.Output.from_input([first])}
        return Options(depends_on=value[form])

    deployment = run(engine, story, options)
    first = deployment["first"].urn
    assert [first in resource.request.dependencies for resource in objects(deployment)] == [
        True
    ] * 5
    (group,) = [child.urn for child in deployment.children if "PodGroup" in child.urn]
    lws = [child for child in deployment.children if "LeaderWorkerSet" in child.urn]
    assert all({first, group} <= set(item.request.dependencies) for item in lws)


def test_component_alias_is_registered(engine: Any, story: Story) -> None:
    deployment = run(engine, story, lambda: Options(aliases=[pulumi.Alias(name="old")]))
    assert [alias.spec.name for alias in service(deployment).request.aliases] == ["old"]


def test_transformation_receives_all_children(engine: Any, story: Story) -> None:
    seen = []

    def label(args: pulumi.ResourceTransformationArgs) -> Any:
        seen.append(args.name)
        if args.type_ != "kubernetes:core/v1:Service":
            return None
        props: Any = args.props
        props = {**props, "metadata": {**props["metadata"], "labels": {"team": "a"}}}
        return pulumi.ResourceTransformationResult(props, args.opts)

    deployment = run(engine, story, lambda: Options(transformations=[label]))
    lws = ["app-decode-0", "app-decode-1", "app-prefill-0"]
    assert sorted(seen) == sorted(["app"] * 3 + lws)
    result = [child for child in deployment.children if child.request.type.endswith(":Service")]
    assert [child.inputs["metadata"]["labels"] for child in result] == [{"team": "a"}]


def test_transforms_are_registered(engine: Any, story: Story) -> None:
    deployment = run(engine, story, lambda: Options(transforms=[lambda _args: None]))
    assert len(service(deployment).request.transforms) == 1


def test_options_of_caller_are_not_modified(engine: Any, story: Story) -> None:
    value = Options(protect=True, depends_on=[])
    before = dict(vars(value))
    engine.run(lambda: InferenceService("app", story(4), value) and None)
    assert dict(vars(value)) == before


def test_component_keeps_its_parent(engine: Any, story: Story) -> None:
    def program() -> None:
        platform = pulumi.ComponentResource("my:index:Platform", "platform")
        InferenceService("app", story(1), Options(parent=platform))

    deployment = engine.run(program)
    assert service(deployment).urn == (
        "urn:pulumi:dev::app::my:index:Platform$fusioninfer:index:InferenceService::app"
    )
    assert len(objects(deployment)) == 2
