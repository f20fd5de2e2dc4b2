"""Services that would share an object are rejected unless their clusters differ."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pulumi_kubernetes import Provider

from fusioninfer_pulumi import InferenceService, InvalidServiceError

Options = pulumi.ResourceOptions


def args(role: str = "inference", **more: Any) -> dict[str, Any]:
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "m"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    template = {"spec": {"containers": [container]}}
    return {"roles": [{"name": role, "componentType": "worker", "template": template}], **more}


def lws(deployment: Any) -> int:
    return sum(child.request.type.endswith(":LeaderWorkerSet") for child in deployment.children)


def rejected(second: Any) -> Any:
    def run() -> None:
        InferenceService("one", args(name="svc"))
        with pytest.raises(InvalidServiceError, match=r"^two: .*svc"):
            second()

    return run


def test_same_service_name_is_rejected(engine: Any) -> None:
    deployment = engine.run(rejected(lambda: InferenceService("two", args(name="svc"))))
    assert lws(deployment) == 1


def test_colliding_lws_names_are_rejected(engine: Any) -> None:
    def program() -> None:
        InferenceService("a", args("b-c"))
        with pytest.raises(InvalidServiceError, match="a-b-c"):
            InferenceService("a-b", args("c"))

    assert lws(engine.run(program)) == 1


def test_rejected_service_reserves_no_names(engine: Any) -> None:
    def program() -> None:
        bad = args(name="svc")
        bad["roles"][0]["replicas"] = -1
        with pytest.raises(InvalidServiceError):
            InferenceService("one", bad)
        InferenceService("two", args(name="svc"))

    assert lws(engine.run(program)) == 1


@pytest.mark.parametrize("namespace", ["other", "output"])
def test_same_name_in_different_namespaces_is_allowed(engine: Any, namespace: str) -> None:
    def program() -> None:
        value: Any = pulumi.Output.from_input("x") if namespace == "output" else namespace
        InferenceService("one", args(name="svc"))
        InferenceService("two", args(name="svc", namespace=value))

    assert lws(engine.run(program)) == 2


@pytest.mark.parametrize("form", ["provider", "providers", "parent"])
def test_same_name_in_different_clusters_is_allowed(engine: Any, form: str) -> None:
    def options(name: str) -> Options:
        provider = Provider(name)
        if form == "provider":
            return Options(provider=provider)
        if form == "providers":
            return Options(providers={"kubernetes": provider})
        platform = pulumi.ComponentResource(
            "my:index:Platform", f"platform-{name}", opts=Options(providers=[provider])
        )
        return Options(parent=platform)

    def program() -> None:
        InferenceService("one", args(name="svc"), options("east"))
        InferenceService("two", args(name="svc"), options("west"))

    assert lws(engine.run(program)) == 2


@pytest.mark.parametrize("form", ["provider", "parent"])
def test_same_provider_twice_is_one_cluster(engine: Any, form: str) -> None:
    def program() -> None:
        provider = Provider("east")
        InferenceService("one", args(name="svc"), Options(provider=provider))
        if form == "provider":
            second = Options(providers=[provider])
        else:
            platform = pulumi.ComponentResource(
                "my:index:Platform", "platform", opts=Options(providers=[provider])
            )
            second = Options(parent=platform)
        with pytest.raises(InvalidServiceError, match="svc"):
            InferenceService("two", args(name="svc"), second)

    assert lws(engine.run(program)) == 1
