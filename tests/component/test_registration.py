"""Resources of a component: exact lists, names, order and options."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import pytest
from random_services import generate_service

from fusioninfer_pulumi import (
    InferenceService,
    InferenceServiceArgs,
    SubGroupPolicyArgs,
    model_service,
    plan_service,
    render,
)
from fusioninfer_pulumi.component.inference_service import build_recorded_inputs
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.loading.validate import validate_mapping

Story = Callable[[int], InferenceServiceArgs]

POD_GROUP = "kubernetes:scheduling.volcano.sh/v1beta1:PodGroup"
SET = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
SERVICE = "kubernetes:core/v1:Service"
#: Annotations that keep the provider from waiting, because the program waits.
UNAWAITED = {"pulumi.com/skipAwait": "true"}


def listed(pod_group: bool, *replicas: str) -> list[tuple[str, str]]:
    groups = [(POD_GROUP, "app")] if pod_group else []
    lws = [(SET, f"app-{replica}") for replica in replicas]
    return [(TOKEN, "app"), *groups, *lws, (SERVICE, "app")]


DECODE = [f"decode-{index}" for index in range(4)]
LISTS = {
    1: listed(False, "inference-0"),
    2: listed(True, "prefill-0", "prefill-1", *DECODE),
    3: listed(True, "inference-0", "inference-1"),
    4: listed(True, "prefill-0", *DECODE[:2]),
}


def partial(args: InferenceServiceArgs) -> dict[str, Any]:
    """Return the same service with the PodGroup form that may run in part."""
    return {
        "name": args.name,
        "roles": list(args.roles),
        "schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"prefill": 1, "decode": 1}}},
    }


def test_type_token_is_unchanged() -> None:
    assert TOKEN == "fusioninfer:index:InferenceService"


@pytest.mark.parametrize("number", LISTS)
def test_story_registers_expected_resources(engine: Any, story: Story, number: int) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(number)))
    assert sorted(deployment.keys) == sorted(LISTS[number])


def test_partial_gang_registers_same_resources(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", partial(story(4))))
    assert sorted(deployment.keys) == sorted(LISTS[4])
    (group,) = [item for item in deployment.registered if item.request.type == POD_GROUP]
    assert [item["name"] for item in group.inputs["spec"]["subGroupPolicy"]] == [
        "prefill",
        "decode",
    ]


@pytest.mark.parametrize("number", LISTS)
def test_registered_inputs_equal_rendered_objects(engine: Any, story: Story, number: int) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(number)))
    rendered = {
        (entry["kind"], entry["metadata"]["name"]): entry
        for entry in render(plan_service(story(number)))
    }
    registered = {
        (child.inputs["kind"], child.inputs["metadata"]["name"]): child.inputs
        for child in deployment.children
    }
    for (kind, _), item in rendered.items():
        if kind in ("Service", "PodGroup", "LeaderWorkerSet"):
            item["metadata"]["annotations"] = UNAWAITED
    assert registered == rendered


def test_children_are_parented_to_the_component(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(4)))
    result = deployment.children
    assert {item.urn for item in result} == {
        f"urn:pulumi:dev::app::{TOKEN}${kind}::{name}" for kind, name in LISTS[4] if kind != TOKEN
    }
    assert {item.request.parent for item in result} == {deployment.component.urn}


def test_lws_depend_only_on_pod_group(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(4)))
    (group,) = [item for item in deployment.registered if item.request.type == POD_GROUP]
    lws = [item for item in deployment.registered if item.request.type == SET]
    assert {item.request.name: list(item.request.dependencies) for item in lws} == {
        "app-prefill-0": [group.urn],
        "app-decode-1": [group.urn],
        "app-decode-0": [group.urn],
    }
    position = deployment.registered.index(group)
    assert all(deployment.registered.index(item) > position for item in lws)


def test_lws_without_gang_have_no_dependencies(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(1)))
    assert [list(child.request.dependencies) for child in deployment.children] == [[], []]


@pytest.mark.parametrize("grouped", [False, True])
def test_lws_with_immutable_fields_are_deleted_before_replacement(
    engine: Any, story: Story, *, grouped: bool
) -> None:
    args = story(4)
    if grouped:
        policy = SubGroupPolicyArgs(sub_group_size=2)
        roles = [role.model_copy(update={"sub_group_policy": policy}) for role in args.roles]
        args = args.model_copy(update={"roles": roles})
    deployment = engine.run(lambda: InferenceService("app", args))
    result = {
        child.request.type: (
            child.request.deleteBeforeReplace,
            list(child.request.replaceOnChanges),
        )
        for child in deployment.children
    }
    assert result == {
        POD_GROUP: (False, []),
        # Other replacements, such as a rename, create the new LeaderWorkerSet first.
        SET: (grouped, ["spec.leaderWorkerTemplate.subGroupPolicy"]),
        SERVICE: (False, []),
    }


def test_children_use_installed_provider_version(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(4)))
    assert {child.request.version for child in deployment.children} == {
        importlib.metadata.version("pulumi-kubernetes")
    }


def test_outputs_are_registered_last(engine: Any, story: Story) -> None:
    deployment = engine.run(lambda: InferenceService("app", story(4)))
    assert deployment.order[-1] == "outputs of app"
    assert deployment.order.count("outputs of app") == 1
    urn, outputs = deployment.outputs[-1]
    assert urn == deployment.component.urn
    assert set(outputs) == {"name", "namespace", "endpoint", "status", "observed"}
    assert outputs["name"] == "deepseek-r1-disagg"
    assert outputs["namespace"] == "default"
    assert outputs["endpoint"] == "http://deepseek-r1-disagg.default.svc:8000"


def test_children_are_attributes(engine: Any, story: Story) -> None:
    def program() -> dict[str, Any]:
        service = InferenceService("app", story(4))
        assert service.pod_group is not None
        assert service.service is not None
        assert list(service.leader_worker_sets) == [
            "deepseek-r1-disagg-prefill-0",
            "deepseek-r1-disagg-decode-0",
            "deepseek-r1-disagg-decode-1",
        ]
        assert service.plan == plan_service(story(4))
        return {
            "group": service.pod_group.metadata["name"],
            "service": service.service.spec["ports"],
            **{name: item.urn for name, item in service.leader_worker_sets.items()},
        }

    deployment = engine.run(program)
    exports = deployment.exports
    assert exports.pop("group") == "deepseek-r1-disagg"
    assert exports.pop("service")[0]["port"] == 8000
    assert exports == {
        f"deepseek-r1-disagg-{task}": deployment[f"app-{task}"].urn
        for task in ("prefill-0", "decode-0", "decode-1")
    }


def test_role_scaled_to_zero_registers_no_lws(engine: Any, story: Story) -> None:
    scaled_to_zero = story(4).model_copy(
        update={"roles": [role.model_copy(update={"replicas": 0}) for role in story(4).roles]}
    )
    deployment = engine.run(lambda: InferenceService("app", scaled_to_zero))
    assert sorted(deployment.keys) == sorted([(TOKEN, "app"), (SERVICE, "app")])


def test_component_inputs_show_model_gpus_and_replicas(engine: Any) -> None:
    args = model_service("Qwen/Qwen3-32B", accelerator="H100")
    deployment = engine.run(lambda: InferenceService("qwen", args))
    (role,) = deployment.component.inputs["roles"]
    assert deployment.component.inputs["name"] == "qwen"
    assert deployment.component.inputs["namespace"] == "default"
    assert deployment.component.inputs["model"] == {"uri": "hf://Qwen/Qwen3-32B"}
    assert (role["accelerator"], role["gpus"], role["replicas"]) == ("H100", 2, 1)


def test_recorded_inputs_describe_the_same_service() -> None:
    compared = 0
    for seed in range(15):
        for manifest in generate_service(seed).documents:
            args, _ = validate_mapping(manifest, "random")
            if args is None or filter_errors((plan := plan_service(args)).findings):
                continue
            recorded = plan_service(InferenceServiceArgs(**build_recorded_inputs(plan)))
            assert render(recorded) == render(plan)
            compared += 1
    assert compared >= 5
