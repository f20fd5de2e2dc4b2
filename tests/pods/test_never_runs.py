"""Pods that the API server takes and that never serve, and similar ones that do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from rule_examples import found_in

from fusioninfer_pulumi.rules.catalog import changed

CONTAINER = "roles[0].template.spec.containers[0]"
SGLANG = {"image": "lmsysorg/sglang:v0.5.5", "command": ["python3", "-m", "sglang.launch_server"]}


def rules(fields: dict[str, Any] | None = None, **container: Any) -> set[str]:
    """The rules of errors and warnings about one worker."""
    given = {f"{CONTAINER}.{key}": value for key, value in container.items()}
    found = found_in([changed("worker", {**given, **(fields or {})})])
    return {rule for rule, severity in found if severity != "info"}


#: Arguments of vLLM v0.11.0, and the rule that they violate.
REFUSED: list[tuple[Sequence[str], str]] = [
    (["--port", "0"], "argument-value-invalid"),
    (["--port", "70000"], "argument-value-invalid"),
    (["--gpu-memory-utilization", "0"], "argument-value-invalid"),
    (["--max-num-seqs", "0"], "argument-value-invalid"),
    (["--max-model-len", "-5"], "argument-value-invalid"),
    (["--tokenizer", "/models/t"], "file-not-mounted"),
    (["--cpu-offload-gb", "9999"], "memory-limit-too-small"),
    (["--seed", "$(SEED)"], "variable-not-defined"),
    (["--served-model-name", "$NAME"], "shell-variable-without-shell"),
    (["--served-model-name=${NAME}"], "shell-variable-without-shell"),
]  # fmt: skip

#: Arguments like those that vLLM takes.
TAKEN: list[Sequence[str]] = [
    ["--kv-transfer-config", ('{"kv_connector": "Mine", "kv_role": "kv_both", '
     '"kv_connector_module_path": "my.module"}')],
    ["--kv-transfer-config", '{"kv_connector": "NixlConnectorOfMine", "kv_role": "kv_both"}'],
    ["--enable-lora", "--lora-modules", "a=org/a", '{"name": "b", "path": "org/b"}'],
    ["--max-model-len", "-1"],
    ["--tokenizer", "/vllm-workspace/t"],
    ["--seed", "$(LWS_WORKER_INDEX)"],
    ["--served-model-name", "costs-$5"],
    ["--served-model-name", "a$$(B)"],
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "rule"), REFUSED)
def test_arguments_that_cannot_work_are_found(arguments: list[str], rule: str) -> None:
    limits = {f"{CONTAINER}.resources.limits": {"memory": "64Gi", "nvidia.com/gpu": 8}}
    assert rule in rules(limits, args=["--model", "m", *arguments])


@pytest.mark.parametrize("arguments", TAKEN)
def test_similar_arguments_are_taken(arguments: list[str]) -> None:
    found = rules(args=["--model", "m", *arguments])
    assert not found & {rule for _, rule in REFUSED}


MODELS = {
    "https://huggingface.co/a/b": True, '"a/b"': True, "a/b c": True, "a/b/c": True,
    "a": False, "a/b": False, "a/b-GGUF:Q4_K_M": False, "/m/My Model": False, "./m/a/b": False,
    "s3://bucket/a/b": False, "$(MODEL)": False,
}  # fmt: skip


@pytest.mark.parametrize(("model", "wrong"), MODELS.items())
def test_names_of_models_are_repositories_or_paths(model: str, wrong: bool) -> None:
    assert ("invalid-model-name" in rules(args=["--model", model])) is wrong


PROBES: list[tuple[dict[str, Any], Sequence[str], str]] = [
    ({"httpGet": {"path": "/health", "port": 8000}}, [], ""),
    ({"httpGet": {"path": "/v1/models", "port": 8000}}, [], ""),
    ({"httpGet": {"path": "/healthz", "port": 8000}}, [], "probe-not-answered"),
    ({"httpGet": {"path": "/healthz", "port": 8000}}, ["--middleware", "a.b"], ""),
    ({"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}}, [], "probe-not-answered"),
    ({"httpGet": {"path": "/health", "port": 8000}}, ["--ssl-certfile=/usr/c"],
     "probe-not-answered"),
    ({"httpGet": {"path": "/health", "port": 8000, "host": "127.0.0.1"}}, [], "probe-not-answered"),
    ({"grpc": {"port": 8000}}, [], "probe-not-answered"),
    ({"tcpSocket": {"port": 8000}}, [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("probe", "arguments", "rule"), PROBES)
def test_probes_ask_what_the_engine_answers(
    probe: dict[str, Any], arguments: list[str], rule: str
) -> None:
    found = rules(readinessProbe=probe, args=["--model", "m", *arguments])
    assert {each for each in found if each.startswith("probe-")} == ({rule} if rule else set())


def test_an_image_without_a_server_needs_a_command() -> None:
    image, arguments = SGLANG["image"], ["--model-path", "m", "--host", "0.0.0.0", "--port", "8000"]
    assert "engine-not-started" in rules(image=image, args=arguments)
    assert "engine-not-started" in rules(image=image, args=None)
    assert "engine-not-started" not in rules(**SGLANG, args=arguments)
    in_args = [*SGLANG["command"], *arguments]
    assert "engine-not-started" not in rules(image=image, args=in_args)
    assert "engine-not-started" not in rules(image="me/sglang:1", args=arguments)


NODES: list[tuple[list[str], bool]] = [
    (["vllm", "serve", "m"], True),
    (["vllm", "serve", "m", "--data-parallel-address", "$(LWS_LEADER_ADDRESS)"], True),
    (["python3", "-m", "sglang.launch_server", "--model-path", "m", "--nnodes", "2",
      "--node-rank", "0", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):5000"], True),
    (["python3", "-m", "sglang.launch_server", "--model-path", "m", "--nnodes", "2",
      "--node-rank", "$(LWS_WORKER_INDEX)"], False),
    (["sh", "-c", "vllm serve m -dpr $LWS_WORKER_INDEX"], False),
    (["sh", "-c", "ray start --head; vllm serve m"], False),
    (["/start.sh"], False),
]  # fmt: skip


@pytest.mark.parametrize(("command", "wrong"), NODES)
def test_nodes_know_their_rank(command: list[str], wrong: bool) -> None:
    fields = {"roles[0].multinode": {"nodeCount": 2, "launcher": "none"}}
    assert ("nodes-run-one-command" in rules(fields, command=command, args=None)) is wrong


def test_accelerators_are_those_of_the_image() -> None:
    limits = {f"{CONTAINER}.resources.limits": {"amd.com/gpu": 1}}
    assert "image-for-other-accelerator" in rules(limits)
    assert "image-for-other-accelerator" in rules(
        limits, image="docker.io/vllm/vllm-openai:v0.11.0"
    )
    for image in ("rocm/vllm:latest", "me/vllm:1", "lmsysorg/sglang:v0.5.5-rocm700-mi30x"):
        assert "image-for-other-accelerator" not in rules(limits, image=image)


@pytest.mark.parametrize(
    ("value", "size", "wrong"), [("", "1", True), ("0", "2", True), ("0,1", "2", False)]
)
def test_variables_leave_enough_accelerators(value: str, size: str, wrong: bool) -> None:
    limits = {f"{CONTAINER}.resources.limits": {"nvidia.com/gpu": int(size)}}
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": value}]
    found = rules(limits, env=env, args=["--model", "m", "-tp", size])
    assert ("accelerators-hidden" in found) is wrong


def test_variables_are_defined_before_they_are_named() -> None:
    one, other = {"name": "A", "value": "$(B)"}, {"name": "B", "value": "b"}
    assert "variable-not-defined" in rules(env=[one, other])
    assert "variable-not-defined" not in rules(env=[other, one])
    arguments = ["--model", "m", "--seed", "$(A)"]
    assert "variable-not-defined" not in rules(args=arguments, env=[other, one])
    source = [{"configMapRef": {"name": "c"}}]
    assert "variable-not-defined" not in rules(args=arguments, envFrom=source)


def test_arguments_have_the_values_of_their_variables() -> None:
    env = [{"name": "TP", "value": "8"}]
    limits = {f"{CONTAINER}.resources.limits": {"nvidia.com/gpu": 1}}
    found = rules(limits, env=env, args=["--model", "m", "--tensor-parallel-size=$(TP)"])
    assert "accelerators-too-few" in found


def test_script_ignores_arguments_it_does_not_read() -> None:
    behind = {"command": ["sh", "-c", "vllm serve m"], "args": ["--port", "8000"]}
    assert "arguments-not-read" in rules(**behind)
    assert "arguments-not-read" not in rules(
        command=["sh", "-c", 'vllm serve m "$@"', "x"], args=["--port", "8000"]
    )
