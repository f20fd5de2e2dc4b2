"""Splits and sequence lengths that engines reject, regardless of memory."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from capacity.tests.fit.test_roles import H100, plan_role
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.service_plan import ServicePlan


def list_errors(plan: ServicePlan) -> list[Finding]:
    rules = ("model-not-divisible", "length-above-model")
    return [finding for finding in plan.findings if finding.rule in rules]


def plan_split(
    model: str, tensor: int, *extra: str, gpus: int | None = None, **fields: Any
) -> ServicePlan:
    words = ("--model", model, "--tensor-parallel-size", str(tensor), *extra)
    return plan_role(*words, gpus=gpus or tensor, **fields)


@each_row(
    ("model", "tensor", "message"),
    [
        ("Qwen/Qwen3-32B", 3, "64 attention heads cannot be split 3 ways; use 1, 2, 4, 8 or 16"),
        ("Qwen/Qwen3-32B", 6, "64 attention heads"),
        ("Qwen/Qwen2.5-7B-Instruct", 8, "28 attention heads cannot be split 8 ways; use 1, 2 or 4"),
        ("Qwen/Qwen2.5-7B-Instruct", 7, "4 key-value heads cannot be split 7 ways"),
    ],
)
def test_heads_must_be_divisible_by_ranks(model: str, tensor: int, message: str) -> None:
    (finding,) = list_errors(plan_split(model, tensor))
    assert finding.severity.value == "error"
    assert message in finding.text


@pytest.mark.parametrize(
    ("model", "tensor"),
    [("Qwen/Qwen3-32B", 8), ("Qwen/Qwen2.5-7B-Instruct", 4), ("deepseek-ai/DeepSeek-R1", 16)],
)
def test_head_finding_names_valid_sizes(model: str, tensor: int) -> None:
    assert list_errors(plan_split(model, tensor)) == []


def test_data_parallel_attention_is_split_fewer_ways() -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen2.5-7B-Instruct",
             "--tp-size", "8")  # fmt: skip
    image = "lmsysorg/sglang:v0.5.9"
    assert len(list_errors(plan_role(*words, image=image, gpus=8))) == 1
    copied = (*words, "--enable-dp-attention", "--dp-size", "8")
    assert list_errors(plan_role(*copied, image=image, gpus=8)) == []


def test_more_stages_than_layers_are_rejected() -> None:
    words = ("--model", "Qwen/Qwen3-8B", "--pipeline-parallel-size")
    (finding,) = list_errors(plan_role(*words, "37", gpus=37))
    assert "37 pipeline stages are more than the model's 36 layers" in finding.text
    assert list_errors(plan_role(*words, "36", gpus=36)) == []


LONG = ("--model", "Qwen/Qwen3-8B", "--max-model-len")


@pytest.mark.parametrize("length", ["40961", "64k", "1M"])
def test_sequence_above_model_limit_is_rejected(length: str) -> None:
    (finding,) = list_errors(plan_role(*LONG, length))
    assert (finding.rule, finding.severity.value) == ("length-above-model", "error")
    assert "40960 tokens of the model" in finding.text
    assert "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1" in finding.text


@each_row("length", ["40960", "-1", "auto", "$(LENGTH)"])
def test_accepted_lengths_have_no_finding(length: str) -> None:
    assert list_errors(plan_role(*LONG, length)) == []


@each_row(
    ("container", "count"),
    [
        ({"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]}, 0),
        ({"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "0"}]}, 1),
        ({"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "valueFrom": {
            "configMapKeyRef": {"name": "a", "key": "b"}}}]}, 0),
        ({"env": [{"name": "HF_TOKEN", "value": "1"}]}, 1),
        ({"envFrom": [{"configMapRef": {"name": "a"}}]}, 0),
    ],
)  # fmt: skip
def test_variable_allows_longer_sequences(container: dict[str, Any], count: int) -> None:
    fields = {
        "name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": [*LONG, "65536"],
        "resources": {"limits": {"nvidia.com/gpu": 1}}, **container,
    }  # fmt: skip
    assert len(list_errors(plan_role(pod={"containers": [fields]}))) == count


def test_another_image_may_set_the_variable() -> None:
    (finding,) = list_errors(plan_role(*LONG, "65536", image="registry.example.com/vllm:1"))
    assert finding.severity.value == "warning"


def test_model_config_takes_precedence() -> None:
    overridden = ("--hf-overrides", '{"max_position_embeddings": 131072}')
    assert list_errors(plan_role(*LONG, "65536", *overridden)) == []


EXPERTS = [
    ("Qwen/Qwen3-235B-A22B-FP8", 8, 192),
    ("MiniMaxAI/MiniMax-M2.5", 8, 192),
    ("Qwen/Qwen3-30B-A3B-FP8", 4, 192),
    ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 8, 320),
]


@each_row(("model", "tensor", "share"), EXPERTS)
def test_experts_must_be_whole_fp8_blocks(model: str, tensor: int, share: int) -> None:
    for image in ("vllm/vllm-openai:v0.24.0", "vllm/vllm-openai:v0.28.0"):
        (finding,) = list_errors(plan_split(model, tensor, image=image))
        assert f"are {share} wide, not a multiple of the FP8 block size 128" in finding.text
        assert "or spread experts with --enable-expert-parallel" in finding.text
        spread = plan_split(model, tensor, "--enable-expert-parallel", image=image)
        assert list_errors(spread) == []
    assert list_errors(plan_split(model, tensor // 2, image="vllm/vllm-openai:v0.24.0")) == []


@each_row(("model", "tensor", "share"), EXPERTS)
def test_newer_releases_use_smaller_blocks(model: str, tensor: int, share: int) -> None:
    image = "vllm/vllm-openai:v0.29.0"
    assert list_errors(plan_split(model, tensor, image=image)) == []
    (finding,) = list_errors(plan_split(model, tensor, "--moe-backend", "deep_gemm", image=image))
    assert finding.severity.value == "warning"
    assert "deep_gemm may use smaller blocks, or pad the experts" in finding.text


def test_blocks_of_an_unknown_release_are_a_warning() -> None:
    (finding,) = list_errors(
        plan_split("Qwen/Qwen3-235B-A22B-FP8", 8, image="vllm/vllm-openai:latest")
    )
    assert finding.severity.value == "warning"
    assert "vLLM before 0.29.0" in finding.text


def test_blocks_across_nodes_are_a_warning() -> None:
    """The engines' documentation has such an example."""
    model, image = "deepseek-ai/DeepSeek-R1", "vllm/vllm-openai:v0.24.0"
    nodes = {"multinode": {"nodeCount": 4}}
    (finding,) = list_errors(plan_split(model, 32, gpus=8, image=image, role=nodes))
    assert finding.severity.value == "warning"
    assert "feed-forward layers of width 18432 split 32 ways are 576 wide" in finding.text


def test_sglang_groups_experts() -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "MiniMaxAI/MiniMax-M2.5",
             "--tp-size", "8")  # fmt: skip
    image = "lmsysorg/sglang:v0.5.9"
    (finding,) = list_errors(plan_role(*words, image=image, gpus=8))
    assert "or spread experts with --ep-size 8" in finding.text
    assert list_errors(plan_role(*words, "--ep-size", "8", image=image, gpus=8)) == []
    assert list_errors(plan_role(*words, "--ep-size", "2", image=image, gpus=8)) == []


def test_copies_of_vllm_split_experts_further() -> None:
    copied = ("--data-parallel-size", "2")
    model = "Qwen/Qwen3-235B-A22B-FP8"
    image = "vllm/vllm-openai:v0.24.0"
    assert list_errors(plan_split(model, 4, image=image)) == []
    assert len(list_errors(plan_split(model, 4, *copied, image=image, gpus=8))) == 1


def test_feed_forward_layers_must_be_whole_fp8_blocks() -> None:
    for image in ("vllm/vllm-openai:v0.24.0", "vllm/vllm-openai:v0.33.0"):
        (finding,) = list_errors(plan_split("Qwen/Qwen3-4B-FP8", 8, image=image))
        assert "feed-forward layers of width 9728 split 8 ways are 1216 wide" in finding.text


def test_rejected_layouts_are_not_proposed() -> None:
    """TP 8 alone would fit, but its engine rejects the experts."""
    model = "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"
    plan = plan_split(model, 2, image="vllm/vllm-openai:v0.24.0", pod={"nodeSelector": H100})
    (finding,) = [item for item in plan.findings if item.rule == "weights-exceed-memory"]
    expected = "--tensor-parallel-size 8 --enable-expert-parallel with 8 accelerators per pod fits"
    assert expected in finding.text
