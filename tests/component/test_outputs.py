"""Outputs as values, unknown values in previews, secrets, warnings and stack outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from google.protobuf import json_format
from pulumi.runtime import rpc
from pulumi_kubernetes.core.v1 import Namespace, Secret
from samples import container, role, template
from state_entries import lws_entry, urn

from fusioninfer_pulumi import InferenceService, InferenceServiceArgs, Severity

Story = Callable[[int], InferenceServiceArgs]


def args(**more: Any) -> dict[str, Any]:
    return {"roles": [role(template=template(container(gpus="1", **more)))]}


def pod(deployment: Any, name: str = "svc-inference-0") -> Any:
    return deployment[name].inputs["spec"]["leaderWorkerTemplate"]["workerTemplate"]


def exports(service: InferenceService) -> dict[str, Any]:
    return {
        "name": service.name,
        "namespace": service.namespace,
        "endpoint": service.endpoint,
        "status": service.status,
    }


def unknown() -> pulumi.Output[Any]:
    """Return the output of a resource that does not exist yet, in a preview."""
    known = pulumi.Output.from_input(False).future()
    value = pulumi.Output.from_input(pulumi.output.UNKNOWN).future()
    return pulumi.Output(set(), value, known)


def test_secret_stays_secret(engine: Any) -> None:
    def program() -> None:
        token = pulumi.Output.secret("t0ken")
        InferenceService("svc", args(env=[{"name": "HF_TOKEN", "value": token}]))

    deployment = engine.run(program)
    # Parsed here, because the SDK would mark all values around a secret as secret.
    sent = json_format.MessageToDict(deployment["svc-inference-0"].request.object)
    (env,) = _container(sent)["env"]
    secret = {rpc._special_sig_key: rpc._special_secret_sig, "value": "t0ken"}
    assert env == {"name": "HF_TOKEN", "value": secret}
    assert "t0ken" not in str(deployment.outputs)


def test_component_inputs_keep_secrets_and_unknowns(engine: Any) -> None:
    def program() -> None:
        env = [{"name": "HF_TOKEN", "value": pulumi.Output.secret("t0ken")}]
        InferenceService("svc", {**args(env=env), "namespace": unknown()})

    deployment = engine.run(program, preview=True)
    assert deployment.component.inputs["namespace"] is ...
    # Parsed here, because the SDK would mark all values around a secret as secret.
    sent = json_format.MessageToDict(deployment.component.request.object)
    (sent_container,) = sent["roles"][0]["template"]["spec"]["containers"]
    secret = {rpc._special_sig_key: rpc._special_secret_sig, "value": "t0ken"}
    assert sent_container["env"] == [{"name": "HF_TOKEN", "value": secret}]
    assert str(sent).count("t0ken") == 1


def _container(inputs: Any) -> Any:
    return inputs["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]


def test_annotations_and_namespace_may_be_outputs(engine: Any) -> None:
    def program() -> Any:
        value = {
            **args(),
            "annotations": {"owner": pulumi.Output.from_input("team-a")},
            "namespace": pulumi.Output.from_input("models"),
        }
        value["roles"][0]["template"]["metadata"] = {
            "annotations": {"build": pulumi.Output.from_input("17")}
        }
        return exports(InferenceService("svc", value))

    deployment = engine.run(program)
    metadata = [child.inputs["metadata"] for child in deployment.children]
    assert {item["namespace"] for item in metadata} == {"models"}
    assert [item["annotations"]["owner"] for item in metadata] == ["team-a"] * 2
    assert pod(deployment)["metadata"]["annotations"] == {"build": "17"}
    assert deployment.exports["namespace"] == "models"
    assert deployment.exports["endpoint"] == "http://svc.models.svc:8000"


def test_output_dependency_applies_to_objects_that_use_it(engine: Any) -> None:
    def program() -> None:
        namespace = Namespace("models", metadata={"name": "models"})
        InferenceService("svc", {**args(), "namespace": namespace.metadata["name"]})

    deployment = engine.run(program)
    urn = deployment["models"].urn
    objects = [child for child in deployment.children if child.request.name != "models"]
    assert [urn in resource.request.dependencies for resource in objects] == [True] * 2


def test_preview_with_unknown_values(engine: Any) -> None:
    def program() -> Any:
        value = args(image=unknown(), env=[{"name": "URL", "value": unknown()}])
        service = InferenceService("svc", {**value, "namespace": unknown()})
        assert service.plan.total_pods == 1
        return exports(service)

    deployment = engine.run(program, preview=True)
    container = _container(deployment["svc-inference-0"].inputs)
    assert container["image"] is ...
    assert container["env"] == [{"name": "URL", "value": ...}]
    assert deployment["svc-inference-0"].inputs["metadata"]["namespace"] is ...
    assert deployment.exports["name"] == "svc"
    assert deployment.exports["namespace"] is ...
    assert deployment.exports["endpoint"] is ...


def test_revision_does_not_depend_on_output_value(engine: Any) -> None:
    def revision(image: str) -> str:
        deployment = engine.run(
            lambda: InferenceService("svc", args(image=pulumi.Output.from_input(image))) and None
        )
        return str(deployment["svc-inference-0"].inputs["metadata"]["labels"])

    assert revision("a:1") == revision("b:2")


def live(**status: Any) -> dict[str, Any]:
    available = {"type": "Available", "status": "True", "observedGeneration": 1}
    return {"status": {"readyReplicas": 1, "conditions": [available], **status}}


def test_status_follows_live_objects(engine: Any, story: Story) -> None:
    for task in ("prefill-0", "decode-0"):
        engine.live[f"deepseek-r1-disagg-{task}"] = live()
    engine.live["deepseek-r1-disagg-decode-1"] = {"status": {"conditions": []}}
    deployment = engine.run(lambda: exports(InferenceService("svc", story(4))))
    assert deployment.exports["status"] == {
        "conditions": [
            {
                "type": "Initialized",
                "status": "True",
                "reason": "InferenceServiceProcessing",
                "message": "all objects exist",
            },
            {
                "type": "Active",
                "status": "True",
                "reason": "Partial",
                "message": "ready: prefill 1/1, decode 1/2",
            },
            {
                "type": "Failed",
                "status": "False",
                "reason": "InferenceServiceProcessing",
                "message": "no failure is known",
            },
        ],
        "components": {
            "prefill": {
                "desiredReplicas": 1,
                "readyReplicas": 1,
                "nodesPerReplica": 2,
                "totalPods": 2,
                "readyPods": 2,
                "phase": "Running",
            },
            "decode": {
                "desiredReplicas": 2,
                "readyReplicas": 1,
                "nodesPerReplica": 4,
                "totalPods": 8,
                "readyPods": 4,
                "phase": "Deploying",
            },
        },
    }


def test_warnings_are_logged(engine: Any, story: Story) -> None:
    plans = []
    deployment = engine.run(lambda: plans.append(InferenceService("svc", story(4)).plan))
    warned = [finding for finding in plans[0].findings if finding.severity is Severity.WARNING]
    assert warned
    assert sorted(deployment.logged) == sorted(
        f"warning: {item.path}: {item.message} [{item.rule}]" for item in warned
    )


def test_unknown_rule_in_annotation_is_logged(engine: Any) -> None:
    annotated = {**args(), "annotations": {"fusioninfer.io/ignore-rules": "engine-on-lopback"}}
    deployment = engine.run(lambda: InferenceService("svc", annotated) and None)
    (line,) = deployment.logged
    assert line == (
        "warning: metadata.annotations[fusioninfer.io/ignore-rules]: unknown rule "
        "'engine-on-lopback'; did you mean engine-on-loopback? [unknown-value]"
    )


def test_valid_service_logs_nothing(engine: Any) -> None:
    deployment = engine.run(lambda: InferenceService("svc", args()) and None)
    assert deployment.logged == []


def test_preview_shows_last_known_status(engine: Any) -> None:
    engine.live["svc-inference-0"] = live()
    known = engine.run(lambda: exports(InferenceService("svc", args())), preview=True)
    active = known.exports["status"]["conditions"][1]
    assert (active["status"], active["reason"]) == ("True", "InferenceServiceAvailable")


def test_preview_of_changed_lws_has_unknown_status(engine: Any) -> None:
    engine.live["svc-inference-0"] = {"status": pulumi.output.UNKNOWN}
    deployment = engine.run(lambda: exports(InferenceService("svc", args())), preview=True)
    assert deployment.exports["status"] is ...


def test_preview_of_new_generation_has_unknown_status(engine: Any) -> None:
    # `up --plan` fails if the final status differs from the previewed one.
    for generation in (0, 2):
        metadata = {"name": "svc-inference-0", "generation": generation, "uid": ""}
        engine.live["svc-inference-0"] = {"metadata": metadata, **live()}
        engine.state = {urn("svc-inference-0"): lws_entry("svc-inference-0", index="0")}
        deployment = engine.run(lambda: exports(InferenceService("svc", args())), preview=True)
        assert (deployment.exports["status"] is ...) == (generation == 2)
        assert dict(deployment.outputs)[deployment.component.urn]["observed"] is ...
    deployment = engine.run(lambda: exports(InferenceService("svc", args())))
    assert deployment.exports["status"]["components"]["inference"]["phase"] == "Deploying"


def test_outputs_are_combined_without_nested_outputs(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Output.all` creates an Output for every structure in a value; only the SDK calls it."""
    calls: list[int] = []
    value = pulumi.Output.all

    def counted(*values: Any, **named: Any) -> Any:
        calls.append(len(values))
        return value(*values, **named)

    for index in range(4):
        engine.live[f"svc-inference-{index}"] = live()
    monkeypatch.setattr(pulumi.Output, "all", counted)
    spec = args()
    spec["roles"][0]["replicas"] = 4
    deployment = engine.run(lambda: InferenceService("svc", spec) and None)
    # One for the URN of each resource, and the URL.
    assert len(calls) <= len(deployment.registered) + 3


def test_lws_depends_on_secret_of_same_program(engine: Any) -> None:
    def program() -> None:
        token = Secret("token", metadata={"name": "token"}).metadata.apply(lambda kept: kept.name)
        model = {"uri": "hf://a/b", "token_secret": {"name": token}}
        InferenceService("svc", {**args(args=[]), "model": model})

    deployment = engine.run(program)
    urn = deployment["token"].urn
    sent = deployment["svc-inference-0"].request
    assert urn in sent.propertyDependencies["spec"].urns
    assert urn in sent.dependencies
