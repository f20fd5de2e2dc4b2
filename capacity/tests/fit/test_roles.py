"""Findings about the memory of a service's roles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rows import each_row

from fusioninfer_capacity.fit.accelerators import ACCELERATORS, find_by_labels, find_by_name
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_plan import ServicePlan

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def plan_role(
    *arguments: str,
    image: str = "vllm/vllm-openai:v0.11.0",
    pod: dict[str, Any] | None = None,
    role: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    gpus: int = 1,
    container: dict[str, Any] | None = None,
) -> ServicePlan:
    limits = {"nvidia.com/gpu": gpus}
    container = {"name": "vllm", "image": image, "args": list(arguments),
                 "resources": {"limits": limits}, **(container or {})}  # fmt: skip
    spec: dict[str, Any] = {
        "roles": [
            {
                "name": "chat",
                "componentType": "worker",
                "template": {"spec": {"containers": [container], **(pod or {})}},
                **(role or {}),
            }
        ]
    }
    if model is not None:
        spec["model"] = model
    (service,) = load(
        {
            "apiVersion": "fusioninfer.io/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "chat"},
            "spec": spec,
        }
    )
    return plan_service(service)


def list_memory_findings(plan: ServicePlan) -> list[Finding]:
    rules = ("weights-exceed-memory", "cache-too-small", "memory-not-checked", "memory-estimated",
             "accelerator-not-known", "model-config-unreadable")  # fmt: skip
    return [finding for finding in plan.findings if finding.rule in rules]


def get_verdict(plan: ServicePlan) -> tuple[str, str]:
    (finding,) = list_memory_findings(plan)
    return finding.severity.value, finding.rule


MODEL = ("--model", "Qwen/Qwen3-32B")


def test_fitting_model_is_an_info() -> None:
    plan = plan_role(*MODEL, "--max-model-len", "16000", pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("info", "memory-estimated")
    chat = plan.memory["chat"]
    assert chat.accelerator.name == "H100"
    assert chat.requests == pytest.approx(1.11, abs=0.02)


def test_node_selector_of_other_accelerators_is_a_warning() -> None:
    arguments = (*MODEL, "--max-model-len", "16000")
    plan = plan_role(*arguments, pod={"nodeSelector": H100}, role={"accelerator": "H200"})
    (item,) = [finding for finding in plan.findings if finding.rule == "accelerator-not-selected"]
    assert "conflicts with the pods' node selector, which selects H100" in item.message
    plan = plan_role(*arguments, pod={"nodeSelector": H100}, role={"accelerator": "H100"})
    assert get_verdict(plan) == ("info", "memory-estimated")


def test_variant_of_the_accelerator_may_be_selected() -> None:
    product = "nvidia.com/gpu.product"
    for selected, is_variant in (("NVIDIA-H100-NVL", True), ("NVIDIA-A100-SXM4-80GB", False)):
        accelerator = "H100" if is_variant else "A10"
        pod = {"nodeSelector": {product: selected}}
        plan = plan_role(*MODEL, pod=pod, role={"accelerator": accelerator})
        rules = {finding.rule for finding in plan.findings}
        assert ("accelerator-not-selected" not in rules) is is_variant


def test_weights_above_memory_are_rejected() -> None:
    plan = plan_role("--model", "meta-llama/Llama-3.3-70B-Instruct", pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("error", "weights-exceed-memory")
    assert (
        "--tensor-parallel-size 4 with 4 accelerators per pod fits"
        in list_memory_findings(plan)[0].text
    )


def test_sequence_that_does_not_fit_is_rejected() -> None:
    """The length is the model's own."""
    plan = plan_role(*MODEL, pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("error", "cache-too-small")
    (finding,) = list_memory_findings(plan)
    assert "40960 tokens" in finding.text
    length = finding.text.partition("--max-model-len ")[2].split()[0]
    shorter = plan_role(*MODEL, "--max-model-len", length, pod={"nodeSelector": H100})
    assert get_verdict(shorter) == ("info", "memory-estimated")
    longer = plan_role(
        *MODEL, "--max-model-len", str(int(length) + 512), pod={"nodeSelector": H100}
    )
    assert get_verdict(longer)[1] == "cache-too-small"


def test_sequence_within_margin_is_a_warning() -> None:
    plan = plan_role(*MODEL, "--max-model-len", "19000", pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("warning", "cache-too-small")


def test_fp8_cache_is_suggested_if_it_suffices() -> None:
    plan = plan_role(*MODEL, "--max-model-len", "32000", pod={"nodeSelector": H100})
    assert "--kv-cache-dtype fp8 fits" in list_memory_findings(plan)[0].text


def test_sglang_accepts_cache_below_longest_sequence() -> None:
    plan = plan_role(
        "python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-32B",
        "--mem-fraction-static", "0.85",
        image="lmsysorg/sglang:v0.5.3", pod={"nodeSelector": H100},
    )  # fmt: skip
    assert get_verdict(plan) == ("warning", "cache-too-small")
    assert "--context-length" in list_memory_findings(plan)[0].text


def test_models_with_images_and_later_releases_have_wider_margin() -> None:
    model = "mistralai/Mistral-Small-3.2-24B-Instruct-2506"
    for fraction, severity in (("0.86", "warning"), ("0.78", "error")):
        plan = plan_role("--model", model, "--gpu-memory-utilization", fraction, "--max-model-len",
                       "131072", pod={"nodeSelector": H100})  # fmt: skip
        assert get_verdict(plan)[0] == severity, fraction
    later = "vllm/vllm-openai:v0.31.0"
    for length, severity in (("40960", "warning"), ("131072", "error")):
        longer = {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]}
        plan = plan_role(*MODEL, "--max-model-len", length, image=later, pod={"nodeSelector": H100},
                       container=longer)  # fmt: skip
        assert get_verdict(plan) == (severity, "cache-too-small")


def test_unsupported_releases_are_rejected_only_for_weights() -> None:
    newer = "vllm/vllm-openai:v0.40.0"
    longer = {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]}
    for image in (newer, "vllm/vllm-openai:latest"):
        plan = plan_role(*MODEL, "--max-model-len", "131072", image=image,
                       pod={"nodeSelector": H100}, container=longer)  # fmt: skip
        assert get_verdict(plan) == ("warning", "cache-too-small")
        assert "uncertain: " in list_memory_findings(plan)[0].text
    plan = plan_role(*MODEL, "--max-model-len", "4000", image=newer, pod={"nodeSelector": H100})
    assert "vLLM 0.40.0, estimated as 0.33.0" in list_memory_findings(plan)[0].text
    plan = plan_role("--model", "deepseek-ai/DeepSeek-R1", image=newer, pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("error", "weights-exceed-memory")


def test_above_16k_tokens_experts_are_uncertain() -> None:
    words = ("--model", "Qwen/Qwen3-235B-A22B-FP8", "--tensor-parallel-size", "4",
             "--max-model-len", "131072", "--max-num-batched-tokens")  # fmt: skip
    image = "vllm/vllm-openai:v0.20.0"
    longer = {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]}
    plan = plan_role(*words, "98304", image=image, pod={"nodeSelector": H100}, gpus=4,
                   container=longer)  # fmt: skip
    assert get_verdict(plan)[0] == "warning"
    assert (
        "uncertain: the experts process 98304 tokens per step" in list_memory_findings(plan)[0].text
    )


@pytest.mark.parametrize("backend", [(), ("--moe-backend", "deep_gemm_mega_moe")])
def test_expert_ranks_process_tokens_of_all_copies(backend: tuple[str, ...]) -> None:
    """This is the default (`allgather_reducescatter`); others send a rank only its tokens."""
    words = ("--model", "deepseek-ai/DeepSeek-R1", "--enable-expert-parallel", *backend)
    image = "vllm/vllm-openai:v0.32.0"

    def overhead(copies: str) -> float:
        plan = plan_role(*words, "--data-parallel-size", copies, image=image, gpus=int(copies),
                       role={"accelerator": "H200"})  # fmt: skip
        size: float = plan.memory["chat"].to_json()["overhead"]
        return size

    # For 4 more copies: 8192 tokens, 8 experts of each, 2 buffers, 7168 elements of 2 bytes.
    difference = 4 * 8192 * 8 * 2 * 7168 * 2
    assert overhead("8") - overhead("4") == (0 if backend else difference)


def test_automatic_length_is_not_a_warning() -> None:
    """Roles of the model catalogue have `--max-model-len auto`."""
    words = ("--model", "Qwen/Qwen2.5-VL-7B-Instruct", "--max-model-len")
    role = {"accelerator": "L4"}
    plan = plan_role(*words, "auto", image="vllm/vllm-openai:v0.32.0", role=role)
    (finding,) = list_memory_findings(plan)
    assert (finding.severity.value, finding.rule) == ("info", "memory-estimated")
    assert finding.text.endswith(", sequences of 53248 tokens")
    plan = plan_role(*words, "128000", image="vllm/vllm-openai:v0.32.0", role=role)
    assert get_verdict(plan)[1] == "cache-too-small"


def test_experts_on_amd_are_uncertain() -> None:
    words = ("--model", "Qwen/Qwen3-235B-A22B-FP8")
    node = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    image = "vllm/vllm-openai:v0.20.0"
    plan = plan_role(*words, image=image, pod={"nodeSelector": node})
    assert get_verdict(plan) == ("error", "weights-exceed-memory")
    plan = plan_role(*words, "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.6",
                   image=image, pod={"nodeSelector": node}, gpus=2)  # fmt: skip
    assert get_verdict(plan)[0] == "warning"
    assert "uncertain: estimates for experts on AMD" in list_memory_findings(plan)[0].text


@each_row(
    ("value", "severity"), [(None, "error"), ("0", "error"), ("1", "warning"), ("True", "warning")]
)
def test_sglang_sizing_after_graphs_is_uncertain(value: str | None, severity: str) -> None:
    """61 GiB of weights exceed the default fraction of 66 GiB, which the variable replaces."""
    name = "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"
    plan = plan_role(
        "python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-32B",
        image="lmsysorg/sglang:v0.5.19", role={"accelerator": "66Gi"},
        container={"env": [{"name": name, "value": value}] if value is not None else []},
    )  # fmt: skip
    assert get_verdict(plan) == (severity, "weights-exceed-memory")
    assert (name in list_memory_findings(plan)[0].text) is (severity == "warning")


@pytest.mark.parametrize(("value", "severity"), [("1", "error"), ("0", "warning")])
def test_vllm_cache_without_graph_reserve_is_uncertain(value: str, severity: str) -> None:
    name = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
    plan = plan_role(
        "--model", "Qwen/Qwen3-32B", image="vllm/vllm-openai:v0.24.0",
        role={"accelerator": "66Gi"}, container={"env": [{"name": name, "value": value}]},
    )  # fmt: skip
    assert get_verdict(plan) == (severity, "weights-exceed-memory")
    assert (name in list_memory_findings(plan)[0].text) is (severity == "warning")


@pytest.mark.parametrize(
    ("words", "image", "known"),
    [
        (("--model", "deepseek-ai/DeepSeek-V4-Flash"), "vllm/vllm-openai:v0.28.0", True),
        (("python3", "-m", "sglang.launch_server", "--model-path",
          "deepseek-ai/DeepSeek-V4-Flash"), "lmsysorg/sglang:v0.5.19", False),
    ],
)  # fmt: skip
def test_compressed_cache_is_estimated_only_for_vllm(
    words: tuple[str, ...], image: str, *, known: bool
) -> None:
    plan = plan_role(*words, "--tensor-parallel-size" if known else "--tp-size", "4", image=image,
                   role={"accelerator": "H200"}, gpus=4)  # fmt: skip
    fitted = plan.memory["chat"]
    assert (fitted.tokens is not None) is known
    assert fitted.doubt is not None


def test_newer_sglang_has_wider_margin() -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-32B",
             "--mem-fraction-static")  # fmt: skip
    for release, fraction, severity in (
        ("0.5.17", "0.78", "warning"), ("0.5.9", "0.78", "error"), ("0.5.17", "0.7", "error"),
    ):  # fmt: skip
        image = f"lmsysorg/sglang:v{release}"
        plan = plan_role(*words, fraction, image=image, role={"accelerator": "78Gi"})
        assert get_verdict(plan) == (severity, "weights-exceed-memory"), (release, fraction)


def test_role_without_accelerator_has_no_finding() -> None:
    plan = plan_role(*MODEL)
    assert list_memory_findings(plan) == []
    assert plan.memory == {}


@each_row(
    ("arguments", "reason"),
    [
        (("--model", "team/unknown"), "not in the table"),
        ((), "the model is unknown; set model.uri"),
        (
            (*MODEL, "--speculative-config", "{}"),
            "--speculative-config is not supported by the estimate",
        ),
        ((*MODEL, "--max-model-len", "$(LENGTH)"), "is not a positive number"),
        ((*MODEL, "--tensor-parallel-size", "$(TP)"), "the engine's parallelism is unknown"),
        ((*MODEL, "--quantization", "fp8"), "quantizes weights while it loads them"),
    ],
)
def test_unknown_architecture_is_not_checked(arguments: tuple[str, ...], reason: str) -> None:
    plan = plan_role(*arguments, pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("info", "memory-not-checked")
    assert reason in list_memory_findings(plan)[0].text


def test_hybrid_model_has_token_estimate() -> None:
    plan = plan_role("--model", "Qwen/Qwen3-Next-80B-A3B-Instruct", pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("error", "weights-exceed-memory")
    large = plan_role(
        "--model", "Qwen/Qwen3-Next-80B-A3B-Instruct", "--max-model-len", "4096",
        "--tensor-parallel-size", "4", pod={"nodeSelector": H100}, gpus=4,
    )  # fmt: skip
    assert (large.memory["chat"].tokens or 0) > 500_000


@each_row(
    ("accelerator", "image", "dtype", "rejected"),
    [
        ("T4", "vllm/vllm-openai:v0.32.0", "bfloat16", True),
        ("V100", "vllm/vllm-openai:v0.32.0", "bfloat16", True),
        ("T4", "vllm/vllm-openai:v0.32.0", "half", False),
        ("T4", "vllm/vllm-openai:v0.32.0", "auto", False),
        ("A30", "vllm/vllm-openai:v0.32.0", "bfloat16", False),
        # SGLang then computes in float16.
        ("T4", "lmsysorg/sglang:v0.5.23", "bfloat16", False),
    ],
)
def test_bfloat16_is_rejected_on_accelerators_without_it(
    accelerator: str, image: str, dtype: str, *, rejected: bool
) -> None:
    program = {"command": ["python3", "-m", "sglang.launch_server"]} if "sglang" in image else {}
    plan = plan_role("--model-path" if program else "--model", "Qwen/Qwen3-0.6B", "--dtype", dtype,
                   image=image, role={"accelerator": accelerator}, container=program)  # fmt: skip
    result = [finding.message for finding in plan.findings if "bfloat16" in finding.message]
    message = f"--dtype: {accelerator} does not compute in bfloat16; use float16"
    assert result == ([message] if rejected else [])


@each_row("name", ["GB200", "GB300", "A10", "A30", "A40", "L40", "V100", "V100-16GB"])
def test_accelerator_name_is_known(name: str) -> None:
    assert find_by_name(name) is not None


@each_row(
    ("labels", "name"),
    [
        (H100, "H100"),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, None),
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, None),
        ({"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}, "H200"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "MI300X"),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "A100-40GB"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, "H100"),
        ({"node.kubernetes.io/instance-type": "p5en.48xlarge"}, "H200"),
        ({"node.kubernetes.io/instance-type": "g6e.12xlarge"}, "L40S"),
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_H200_v5"}, "H200"),
        ({"node.kubernetes.io/instance-type": "m5.large"}, None),
        ({"karpenter.k8s.aws/instance-gpu-name": "l4"}, "L4"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a100"}, None),
        ({"karpenter.azure.com/sku-gpu-name": "H100"}, "H100"),
        ({"nvidia.com/gpu.product": "NVIDIA-GB200"}, "GB200"),
        ({"node.kubernetes.io/instance-type": "p3dn.24xlarge"}, "V100-32GB"),
        ({"node.kubernetes.io/instance-type": "p3.8xlarge"}, "V100"),
        ({}, None),
    ],
)
def test_accelerator_follows_from_labels(labels: dict[str, str], name: str | None) -> None:
    result = find_by_labels(labels)
    assert (result.name if result is not None else None) == name


def test_memory_label_describes_unknown_accelerator() -> None:
    result = find_by_labels(
        {"nvidia.com/gpu.product": "NVIDIA-X1", "nvidia.com/gpu.memory": "81559"}
    )
    assert result is not None
    assert result.total == pytest.approx(ACCELERATORS["H100"].total, rel=0.01)


@each_row("name", ["H100", "h200", "NVIDIA H100 80GB HBM3", "A100-80GB", "nvidia-l4"])
def test_accelerator_names_are_found(name: str) -> None:
    assert find_by_name(name) is not None


def test_accelerator_follows_from_claims_affinity_and_role() -> None:
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H200"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    claim = {
        "name": "gpu",
        "deviceClassName": "gpu.nvidia.com",
        "selectors": ['device.attributes["gpu.nvidia.com"].productName == "NVIDIA H200"'],
    }
    for value in (
        {"pod": {"affinity": affinity}},
        {"role": {"resourceClaims": [claim]}, "gpus": 0},
        {"role": {"accelerator": "H200"}},
    ):
        plan = plan_role(*MODEL, **value)  # type: ignore[arg-type]  # each fits one parameter
        assert plan.memory["chat"].accelerator.name == "H200"


def test_role_accelerator_may_be_a_memory() -> None:
    plan = plan_role(*MODEL, "--max-model-len", "16000", role={"accelerator": "80Gi"})
    assert plan.memory["chat"].accelerator.name == "80Gi"
    plan = plan_role(*MODEL, role={"accelerator": "H9000"})
    assert get_verdict(plan) == ("warning", "accelerator-not-known")


CONFIG = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "vocab_size": 128256, "max_position_embeddings": 8192}  # fmt: skip


def test_config_may_be_mapping_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    weights = {
        plan_role(model={"uri": "s3://models/ours", "config": value},
                pod={"nodeSelector": H100}).memory["chat"].weights
        for value in (CONFIG, "config.json")
    }  # fmt: skip
    assert len(weights) == 1
    assert weights.pop() == pytest.approx(15.0 * 2**30, rel=0.01)


@each_row(
    "changed",
    [
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": "32"},
        {"layer_types": ["full_attention"], "sliding_window": 5},
        {"sliding_window": "five"},
        {"rope_scaling": {"rope_type": "yarn", "factor": "four"}},
        {"rope_scaling": "yarn"},
        {"quantization_config": []},
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"a": 1}}},
        {"text_config": {"model_type": 5}},
        {"model_type": "mixtral", "num_local_experts": {}},
    ],
)
def test_invalid_config_is_not_checked(changed: dict[str, Any]) -> None:
    model = {"uri": "s3://models/ours", "config": {**CONFIG, **changed}}
    plan = plan_role(model=model, pod={"nodeSelector": H100})
    assert get_verdict(plan)[0] == "info"


def test_partitioned_accelerators_are_unknown() -> None:
    limits = {"nvidia.com/mig-1g.10gb": 1}
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": list(MODEL),
                 "resources": {"limits": limits}}  # fmt: skip
    plan = plan_role(pod={"nodeSelector": H100, "containers": [container]})
    assert list_memory_findings(plan) == []


def test_config_in_a_program_is_read(tmp_path: Path) -> None:
    """Without a manifest's directory, any regular file is accepted."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    spec: dict[str, Any] = {
        "name": "chat",
        "model": {"uri": "s3://models/ours", "config": str(path)},
        "roles": [{"name": "chat", "componentType": "worker", "accelerator": "H100", "template": {
            "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0",
                                     "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}],
    }  # fmt: skip
    plan = plan_service(InferenceServiceArgs.model_validate(spec))
    assert plan.memory["chat"].weights == pytest.approx(15.0 * 2**30, rel=0.01)
    spec["model"]["config"] = "/dev/zero"
    plan = plan_service(InferenceServiceArgs.model_validate(spec))
    assert get_verdict(plan) == ("error", "model-config-unreadable")


def test_hub_model_is_found() -> None:
    plan = plan_role(model={"uri": "hf://Qwen/Qwen3-8B"}, pod={"nodeSelector": H100})
    assert get_verdict(plan) == ("info", "memory-estimated")


@pytest.mark.parametrize(
    ("release", "accelerator", "tokens"),
    [("0.27.0", "B200", 8192), ("0.28.0", "B200", 16384), ("0.28.0", "H200", 8192)],
)
def test_new_releases_use_larger_batches_on_largest_accelerators(
    release: str, accelerator: str, tokens: int
) -> None:
    image = f"vllm/vllm-openai:v{release}"
    plan = plan_role(*MODEL, image=image, role={"accelerator": accelerator})
    assert f"{tokens} tokens and 1024 sequences" in plan.memory["chat"].to_json()["basis"]
