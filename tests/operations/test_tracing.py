"""Trace exporters of engines and endpoint pickers."""

from __future__ import annotations

from typing import Any

from routed import V1_5, picker_container, routed
from samples import (
    container,
    list_findings,
    nodes,
    problems,
    role,
    service,
    serving_containers,
    template,
    warnings,
)

Manifest = dict[str, Any]
OTEL = "vllm/vllm-openai:v0.17.1"
ENDPOINT = "http://otel.observability:4317"


def about(field: str, findings: list[str]) -> list[str]:
    return [finding for finding in findings if field in finding]


def traced(manifest: Manifest, **more: Any) -> Manifest:
    manifest["spec"]["tracing"] = {"endpoint": ENDPOINT, **more}
    return manifest


def variables(built: Manifest) -> dict[str, str]:
    return {item["name"]: item["value"] for item in built.get("env", ()) if "value" in item}


def otel(**more: Any) -> Manifest:
    return role(template=template(container(image=OTEL, **more)))


def test_picker_and_engine_send_to_one_collector() -> None:
    manifest = traced(routed(otel(), endpointPicker={"image": V1_5}), sampling=0.25)
    assert problems(manifest) == []
    picker = picker_container(manifest)
    assert "--tracing=true" in picker["args"]
    (engine,) = serving_containers(manifest)
    assert engine["args"] == ["--model", "m", "--otlp-traces-endpoint", ENDPOINT]
    common = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT,
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "true",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.25",
    }
    assert variables(engine) == {"OTEL_SERVICE_NAME": "svc-inference", **common}
    assert variables(picker) == {"OTEL_SERVICE_NAME": "svc-epp", **common}


def test_tracing_flag_is_added_where_the_engine_starts() -> None:
    result = role(multinode=nodes(2), template=template(container(image=OTEL)))
    leader, worker = serving_containers(traced(service(result)))
    assert f"vllm serve m --otlp-traces-endpoint {ENDPOINT}" in leader["args"][0]
    assert "otlp" not in worker["args"][0]
    script = container(image=OTEL, command=["/bin/sh", "-c"], args=["exec vllm serve m; exit 1"])
    (engine,) = serving_containers(traced(service(role(template=template(script)))))
    assert engine["args"] == [f"exec vllm serve m --otlp-traces-endpoint {ENDPOINT}; exit 1"]


def test_engine_without_tracing_flags_is_reported() -> None:
    user_container = container(
        image="lmsysorg/sglang:v0.5.3",
        command=["python3", "-m", "sglang.launch_server"],
        args=["--model-path=m", "--port=8000"],
    )
    manifest = traced(service(role(template=template(user_container))))
    assert about("does not know the tracing flags of sglang", list_findings(manifest))
    assert about("tracing: has no effect", warnings(manifest))
    (engine,) = serving_containers(manifest)
    assert "env" not in engine
