"""Requests of the Pulumi engine to the plugin."""

from __future__ import annotations

import contextvars
from typing import Any

import pulumi
import pytest
from pulumi.errors import InputPropertiesError
from samples import container, role, template

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.provider.server import Provider, normalize_inputs

CHECK = "fusioninfer:index:ServingPrerequisites"


def over_the_wire(value: Any) -> Any:
    """Return a value as the Pulumi engine sends it, with all numbers as floats."""
    if isinstance(value, dict):
        return {key: over_the_wire(item) for key, item in value.items()}
    if isinstance(value, list):
        return [over_the_wire(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def inputs(**more: Any) -> dict[str, Any]:
    pod = template(container(gpus=1, ports=[{"name": "http", "containerPort": 8000}]))
    return {"roles": [role(replicas=2, template=pod)], **more}


def objects(deployment: Any) -> list[Any]:
    return [(item.key, item.inputs) for item in deployment.registered]


def test_plugin_registers_same_objects_as_python(engine: Any) -> None:
    local = engine.run(lambda: InferenceService("svc", inputs()) and None)
    remote = engine.run(
        lambda: Provider().construct("svc", TOKEN, over_the_wire(inputs())) and None
    )
    assert objects(remote) == objects(local)
    assert len(objects(local)) > 3


def test_plugin_returns_component_outputs(engine: Any) -> None:
    gang = {"gangPolicy": {"mode": "On"}}
    routed = over_the_wire(inputs(namespace="llm", schedulingStrategy=gang))
    gateway = {"gatewayClassName": "eg"}
    routed["roles"].append({"name": "r", "componentType": "router", "gateway": gateway})

    def program() -> Any:
        return Provider().construct("svc", TOKEN, routed).state

    deployment = engine.run(program, preview=True)
    outputs = dict(deployment.exports)
    # Unknown until the objects exist.
    del outputs["status"], outputs["endpoint"]
    plan = outputs.pop("plan")
    assert (plan["namespace"], plan["totalGpus"], plan["gang"]["minMember"]) == ("llm", 2, 2)
    assert outputs == {
        "name": "svc",
        "namespace": "llm",
        "leaderWorkerSets": ["svc-inference-0", "svc-inference-1"],
        "podGroups": ["svc"],
        "inferencePool": "svc-pool",
        "httpRoute": "svc-httproute",
        "gateway": "svc-gateway",
    }


def test_plugin_returns_empty_names_without_router(engine: Any) -> None:
    def program() -> Any:
        return Provider().construct("svc", TOKEN, over_the_wire(inputs())).state

    outputs = engine.run(program, preview=True).exports
    assert outputs["endpoint"] == "http://svc.default.svc:8000"
    assert [outputs[name] for name in ("inferencePool", "httpRoute", "gateway")] == ["", "", ""]


def test_findings_become_property_errors(output: Any) -> None:
    output("the fixture gives an event loop")
    wrong = over_the_wire(inputs(layout="PerPod"))
    wrong["roles"][0]["replicas"] = 1.5
    with pytest.raises(InputPropertiesError) as rejected:
        # Each request of the Pulumi engine has its own context.
        contextvars.copy_context().run(Provider().construct, "svc", TOKEN, wrong)
    assert [error["property_path"] for error in rejected.value.errors or ()] == [
        "roles[0].replicas",
        "layout",
    ]


def test_secret_in_template_stays_secret(engine: Any) -> None:
    def program() -> None:
        token = pulumi.Output.secret("t0ken")
        kept = inputs()
        kept["roles"][0]["template"] = template(container(env=[{"name": "T", "value": token}]))
        Provider().construct("svc", TOKEN, over_the_wire(kept))

    deployment = engine.run(program)
    assert "t0ken" in str(deployment["svc-inference-0"].inputs)
    assert "secret" in str(deployment["svc-inference-0"].inputs)


def test_whole_floats_become_integers() -> None:
    value = {"a": [1.0, 2.5, True, "1.0", None], "b": {"c": 3.0}}
    assert repr(normalize_inputs(value)) == "{'a': [1, 2.5, True, '1.0', None], 'b': {'c': 3}}"


def test_unknown_values_become_outputs(output: Any) -> None:
    output("the fixture gives an event loop")
    value = normalize_inputs({"image": pulumi.output.Unknown()})
    assert isinstance(value["image"], pulumi.Output)


def test_prerequisites_report_path_of_invalid_service(engine: Any) -> None:
    def program() -> None:
        with pytest.raises(InputPropertiesError) as rejected:
            Provider().construct("check", CHECK, {"services": [{"name": "a", "roles": []}]})
        (finding,) = rejected.value.errors or ()
        assert finding["property_path"] == "services[0].roles"

    assert engine.run(program).registered == []


def test_unknown_resource_type_is_rejected() -> None:
    with pytest.raises(ValueError, match="no resource fusioninfer:index:Nothing"):
        Provider().construct("a", "fusioninfer:index:Nothing", {})
