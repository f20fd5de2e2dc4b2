"""Arguments that a component accepts or rejects before it registers anything."""

from __future__ import annotations

import copy
from typing import Any

import pulumi
import pytest
from component.services import CAMEL, TEMPLATE
from pulumi_kubernetes.core.v1 import (
    ContainerArgs,
    ContainerPortArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ResourceRequirementsArgs,
    SecretKeySelectorArgs,
    TolerationArgs,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from fusioninfer_pulumi import (
    ComponentType,
    InferenceService,
    InferenceServiceArgs,
    InvalidServiceError,
    RoleArgs,
    load,
)

SNAKE: dict[str, Any] = {
    "roles": [
        {
            "name": "inference",
            "component_type": "worker",
            "replicas": 2,
            "template": TEMPLATE,
            "restart_policy": "None",
        }
    ],
    "scheduling_strategy": {"priority_class_name": "high"},
}
MANIFEST = {
    "apiVersion": "fusioninfer.io/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "svc"},
    "spec": CAMEL,
}


def inputs(engine: Any, args: Any, name: str = "svc") -> Any:
    deployment = engine.run(lambda: InferenceService(name, args) and None)
    return {child.request.name + child.request.type: child.inputs for child in deployment.children}


def rejection(engine: Any, args: Any, name: str = "svc") -> list[str]:
    """Return the lines of the error; nothing was registered before it."""
    lines: list[str] = []

    def program() -> None:
        with pytest.raises(InvalidServiceError) as caught:
            InferenceService(name, args)
        lines.extend(str(caught.value).splitlines())

    deployment = engine.run(program)
    assert deployment.registered == []
    return lines


@pytest.mark.parametrize(
    "args",
    [
        SNAKE,
        CAMEL,
        {"spec": CAMEL},
        {"metadata": {}, "spec": SNAKE},
        MANIFEST,
        {**CAMEL, "name": "svc"},
        InferenceServiceArgs(**SNAKE),
        InferenceServiceArgs.model_validate(MANIFEST),
        load(MANIFEST)[0],
    ],
    ids=["snake", "camel", "spec", "blocks", "manifest", "name", "model", "validated", "loaded"],
)
def test_all_argument_forms_register_same_objects(engine: Any, args: Any) -> None:
    result = inputs(engine, args)
    assert result == inputs(engine, load(MANIFEST)[0])
    assert len(result) == 3


def test_kubernetes_name_defaults_to_logical_name(engine: Any) -> None:
    assert {item["metadata"]["name"] for item in inputs(engine, SNAKE, "app").values()} == {
        "app",
        "app-inference-0",
        "app-inference-1",
    }
    explicit = inputs(engine, {**SNAKE, "name": "other"}, "app")
    assert {
        key.partition("kubernetes")[0]: item["metadata"]["name"] for key, item in explicit.items()
    } == {
        "app": "other",
        "app-inference-0": "other-inference-0",
        "app-inference-1": "other-inference-1",
    }  # fmt: skip


def test_invalid_logical_name_is_rejected(engine: Any) -> None:
    for args in (SNAKE, InferenceServiceArgs(**SNAKE)):
        lines = rejection(engine, args, "My_Service")
        assert len(lines) == 1
        assert "My_Service" in lines[0]
        assert "metadata.name" in lines[0] or ": name: " in lines[0]


TYPED = PodTemplateSpecArgs(
    metadata=ObjectMetaArgs(labels={"team": "a"}),
    spec=PodSpecArgs(
        containers=[
            ContainerArgs(
                name="vllm",
                image="vllm/vllm-openai:v0.11.0",
                args=["--model", "Qwen/Qwen3-8B"],
                env=[
                    EnvVarArgs(
                        name="HF_TOKEN",
                        value_from=EnvVarSourceArgs(
                            secret_key_ref=SecretKeySelectorArgs(name="hf", key="token")
                        ),
                    )
                ],
                ports=[ContainerPortArgs(container_port=8000, name="http")],
                resources=ResourceRequirementsArgs(limits={"nvidia.com/gpu": "1"}),
            )
        ],
        tolerations=[TolerationArgs(key="gpu", operator="Exists")],
        termination_grace_period_seconds=30,
    ),
)


def with_template(template: Any) -> dict[str, Any]:
    return {"roles": [{**SNAKE["roles"][0], "template": template}]}


def test_typed_args_register_same_objects_as_mapping(engine: Any) -> None:
    plain = inputs(engine, with_template(TEMPLATE))
    assert inputs(engine, with_template(TYPED)) == plain
    role = RoleArgs(
        name="inference",
        component_type=ComponentType.WORKER,
        replicas=2,
        template=TYPED,
        restart_policy="None",
    )
    assert inputs(engine, InferenceServiceArgs(roles=[role])) == plain


def test_typed_args_inside_mapping_are_converted(engine: Any) -> None:
    mixed = copy.deepcopy(TEMPLATE)
    mixed["spec"]["tolerations"] = [TolerationArgs(key="gpu", operator="Exists")]
    mixed["spec"]["containers"][0]["ports"] = [ContainerPortArgs(container_port=8000, name="http")]
    assert inputs(engine, with_template(mixed)) == inputs(engine, with_template(TEMPLATE))


def test_all_errors_of_mapping_are_reported_together(engine: Any) -> None:
    role = {**CAMEL["roles"][0], "replicas": -1, "restrtPolicy": "None"}
    args = {"roles": [role, {"name": "Bad", "componentType": "woker"}], "namespace": 5}
    lines = rejection(engine, args)
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == [
        "namespace",
        "roles[0].replicas",
        "roles[0].restrtPolicy",
        "roles[1].name",
        "roles[1].componentType",
    ]
    assert all(line.startswith("svc: ") for line in lines)
    assert lines[1] == "svc: roles[0].replicas: must be at least 0, got -1 [out-of-range]"
    assert (
        lines[2]
        == "svc: roles[0].restrtPolicy: unknown key, did you mean restartPolicy? [unknown-key]"
    )


@pytest.mark.parametrize("args", [None, 5, "manifest.yaml", [MANIFEST], pulumi.ResourceOptions()])
def test_other_argument_type_raises_type_error(engine: Any, args: Any) -> None:
    def program() -> None:
        with pytest.raises(TypeError, match="svc: args must be InferenceServiceArgs or a mapping"):
            InferenceService("svc", args)

    assert engine.run(program).registered == []


def test_plan_errors_are_raised(engine: Any) -> None:
    wide = copy.deepcopy(SNAKE)
    wide["roles"][0]["template"]["spec"]["containers"][0]["args"] += ["-tp", "4"]
    for args in (wide, InferenceServiceArgs(**wide)):
        (line,) = rejection(engine, args)
        assert line.startswith(
            "svc: roles[0].template.spec.containers[0].args: --tensor-parallel-size 4"
        )


def test_mapping_of_caller_is_not_modified(engine: Any) -> None:
    value = copy.deepcopy(MANIFEST)
    inputs(engine, value)
    assert value == MANIFEST


def test_rejected_service_has_no_traceback_and_names_the_rule(engine: Any) -> None:
    # Pulumi's language host prints the text of a RunError, and a traceback of anything else.
    with pytest.raises(pulumi.RunError) as raised:
        engine.run(lambda: InferenceService("svc", {"roles": []}) and None)
    assert isinstance(raised.value, InvalidServiceError)
    assert str(raised.value).startswith("svc: roles: ")
    assert str(raised.value).endswith(f"[{raised.value.findings[0].rule}]")
