"""The table of models, and how configs are read."""

from __future__ import annotations

import re

import pytest
from rows import each_row

from fusioninfer_capacity.fit.architecture import (
    UnknownArchitectureError,
    find_architecture,
    load_models,
    read_config,
)
from fusioninfer_capacity.fit.quantization import Quantization, read_quantization
from fusioninfer_capacity.fit.weights import Split, split_stages

GIB = 2**30


def test_table_has_common_models() -> None:
    families = ("Llama-3.3-70B", "Qwen3-235B", "DeepSeek-R1", "Mistral-Small", "Mixtral-8x7B",
                "gemma-3", "gpt-oss-120b", "GLM-4.5", "Kimi-K2", "phi-4")  # fmt: skip
    for family in families:
        assert any(family in name for name in load_models()), family
    assert len(load_models()) >= 150
    assert len({str(model["config"]) for model in load_models().values()}) >= 80
    assert all(model["source"] for model in load_models().values())


@pytest.mark.slow
def test_every_model_has_weights() -> None:
    for name in load_models():
        model = find_architecture(name)
        assert model is not None, name
        assert sum(stage.weights for stage in split_stages(model, Split())) > 0, name


#: Billions of parameters in a model's name.
_BILLIONS = re.compile(r"-(\d+(?:\.\d+)?)[bB](?:-|$)")
#: Maximum error of a name: names are rounded, or exclude parts such as image encoders.
_ROUNDED = 0.12


def test_parameter_count_matches_model_name() -> None:
    # gpt-oss is padded, Llama 4 names active parameters, and names with x count experts.
    misleading = re.compile("gpt-oss|Llama-4|[xX]")
    named = {
        name: float(match[1])
        for name in load_models()
        if (match := _BILLIONS.search(name)) and not misleading.search(name)
    }
    assert len(named) > 100
    for name, billions in named.items():
        model = find_architecture(name)
        assert model is not None, name
        wanted = pytest.approx(billions * 1e9, rel=_ROUNDED)
        sizes = model.parameters, model.parameters - model.vision
        assert billions < 2 or wanted in sizes, name  # smaller ones are rounded too much


@each_row(
    ("name", "billions"),
    [
        ("XiaomiMiMo/MiMo-V2-Flash", 309),
        ("MiniMaxAI/MiniMax-M3", 427),
        ("nvidia/MiniMax-M3-NVFP4", 427),
        ("deepseek-ai/DeepSeek-V4-Flash", 284),
        ("deepseek-ai/DeepSeek-V4-Pro", 1573),
        ("stepfun-ai/Step-3.7-Flash", 196),
        ("moonshotai/Kimi-K3", 2800),
        ("tencent/Hy3", 295),
        ("zai-org/GLM-4.5V", 107),
        ("MiniMaxAI/MiniMax-M2", 230),
    ],
)
def test_parameter_count_matches_recipe(name: str, billions: int) -> None:
    """Numbers of vllm-project/recipes (`models/`), which rounds DeepSeek-V4-Pro to 1.6T."""
    model = find_architecture(name)
    assert model is not None
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert (model.doubt is None) is name.endswith(("GLM-4.5V", "MiniMax-M2"))


def test_step_config_has_different_names() -> None:
    """A config with the keys that `Step3p5Config` of vLLM 0.32.0 reads."""
    table = load_models()["stepfun-ai/Step-3.7-Flash"]["config"]
    names = {"num_key_value_heads": "num_attention_groups", "num_experts": "moe_num_experts",
             "num_experts_per_tok": "moe_top_k"}  # fmt: skip
    config = {names.get(key, key): value for key, value in table.items()}
    del config["first_k_dense_replace"]
    config["moe_layers_enum"] = ",".join(map(str, range(3, 45)))
    known = find_architecture("stepfun-ai/Step-3.7-Flash")
    assert read_config({"model_type": "step3p7", "text_config": config}) == known
    # The 33 layers with a window then have 96 heads instead of 64.
    config["attention_other_setting"] = {"num_attention_heads": 96}
    more_heads = read_config({"model_type": "step3p7", "text_config": config})
    assert known is not None
    assert more_heads.parameters - known.parameters == 33 * 2 * 32 * 128 * 4096


def test_modules_of_several_formats_have_separate_bits() -> None:
    """The model has 22 GB on disk, including a drafter (vLLM's recipe of Qwen3.6-27B)."""
    model = find_architecture("nvidia/Qwen3.6-27B-NVFP4")
    assert model is not None
    assert model.quantization is not None
    bits = model.quantization.get_bits
    assert bits(0, "mlp.up_proj") == bits(None, "lm_head") == 4.5
    assert bits(0, "linear_attn.in_proj_qkv") == bits(3, "self_attn.k_proj") == 8
    assert bits(0, "linear_attn.in_proj_ba") is None
    assert split_stages(model, Split())[0].weights == pytest.approx(22e9, rel=0.05)


def test_layer_list_is_read_in_release_format() -> None:
    layers = {
        f"model.layers.{index}.{module}": {"quant_algo": algorithm}
        for index in range(2)
        for module, algorithm in (
            ("block_sparse_moe.experts.7.w1", "NVFP4"),
            ("mlp.shared_expert.up_proj", "FP8"),
        )
    }
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
    stored = read_quantization({**config, "quantized_layers": layers})
    assert isinstance(stored, Quantization)
    assert stored.get_bits(1, "mlp.experts.0.up_proj") == 4.5
    assert stored.get_bits(1, "mlp.shared_experts.up_proj") == 8
    assert stored.get_bits(None, "lm_head") is None
    layers["model.layers.1.mlp.shared_expert.up_proj"] = {"quant_algo": "NVFP4"}
    reason = read_quantization({**config, "quantized_layers": layers})
    assert reason == (
        "the checkpoint mixes quantization formats; "
        "the format of mlp.shared_experts.up_proj is unknown"
    )


def test_experts_that_ranks_divide_are_padded() -> None:
    """2,880 columns split 8 ways are 360 wide, padded to 384; whole experts are not padded."""
    model = find_architecture("openai/gpt-oss-120b")
    assert model is not None
    experts = 36 * 3 * 3072 * 2880 * 128 * 4.25 / 8 / 8
    divided, spread = (split_stages(model, Split(8, 1, ranks))[0].weights for ranks in (1, 8))
    assert divided - spread == pytest.approx(experts * (384 / 360 - 1), rel=0.001)


def test_indexer_of_sparse_layers_adds_memory() -> None:
    model = find_architecture("MiniMaxAI/MiniMax-M3")
    assert model is not None
    caches = [layer.cache for layer in model.layers]
    assert [cache.count_bytes(1, 16) for cache in caches[2:4]] == [2 * 4 * 256, 2 * 4 * 256 + 256]
    # Ranks divide keys and values, not the indexer's keys.
    assert caches[3].count_bytes(4, 16) == 2 * 256 + 256


def test_unknown_architecture_is_reported() -> None:
    with pytest.raises(UnknownArchitectureError, match=r"unknown architecture mamba$"):
        read_config({"model_type": "mamba"})
    with pytest.raises(UnknownArchitectureError, match="the same as in minimax_m3"):
        read_config({"model_type": "minimax_m4"})
    with pytest.raises(UnknownArchitectureError, match="num_hidden_layers"):
        read_config({"model_type": "llama"})
    with pytest.raises(UnknownArchitectureError, match="mixes quantization formats"):
        read_config({"model_type": "llama", "quantization_config": {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}})  # fmt: skip


def test_stages_divide_all_weights() -> None:
    model = find_architecture("meta-llama/Llama-3.3-70B-Instruct")
    assert model is not None
    whole = split_stages(model, Split())[0].weights
    for split in (Split(pipeline=3), Split(2), Split(4, 2)):
        parts = split_stages(model, split)
        total = sum(stage.weights for stage in parts) * split.tensor
        assert total == pytest.approx(whole, rel=0.001)
        assert sum(len(stage.layers) for stage in parts) == 80
    # As vLLM divides 80 layers into three stages.
    assert [len(stage.layers) for stage in split_stages(model, Split(pipeline=3))] == [27, 27, 26]


def test_ranks_share_heads_if_there_are_fewer_heads() -> None:
    model = find_architecture("Qwen/Qwen2.5-7B-Instruct")
    assert model is not None
    cache = model.layers[0].cache
    assert cache is not None
    assert cache.count_elements(4) == 2 * 128
    assert cache.count_elements(8) == 2 * 128
    assert split_stages(model, Split(8))[0].weights > split_stages(model, Split(4))[0].weights / 2


def test_experts_are_spread_over_all_copies() -> None:
    model = find_architecture("deepseek-ai/DeepSeek-R1")
    assert model is not None
    alone, spread = (split_stages(model, Split(1, 1, ranks))[0].weights for ranks in (1, 16))
    assert alone - spread == pytest.approx(15 / 16 * 656e9, rel=0.02)


@each_row(
    ("config", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8.0),
        ({"quantization": {"quant_algo": "NVFP4", "group_size": 16}}, 4.5),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4.15625),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8.0),
        ({"quant_method": "compressed-tensors", "config_groups": {
            "a": {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}}},
         4.5),
    ],
)  # fmt: skip
def test_bits_per_parameter_follow_from_config(config: dict[str, object], bits: float) -> None:
    result = read_quantization(config)
    assert isinstance(result, Quantization)
    assert result.bits == bits


@each_row(
    ("pattern", "module", "covered"),
    [
        ("model.layers.*.self_attn", "self_attn.q_proj", False),
        ("model.layers.*.self_attn*", "self_attn.q_proj", False),
        ("model.layers.3*", "mlp.up_proj", True),
        ("model.layers.5*", "mlp.up_proj", False),
        ("re:.*mlp\\.(gate|up)_proj.*", "mlp.up_proj", False),
        ("re:.*mlp\\.(gate|up)_proj.*", "mlp.experts.0.up_proj", True),
        ("gate", "mlp.gate", False),
        ("gate", "mlp.up_proj", True),
    ],
)
def test_unquantized_modules_are_recognized(pattern: str, module: str, *, covered: bool) -> None:
    assert Quantization("FP8", 8, (pattern,)).covers(5, module) is covered
