"""The table of models, and how configs are read."""

from __future__ import annotations

import re

import pytest

from fusioninfer_capacity.fit.architecture import (
    UnknownArchitectureError,
    known_architecture,
    models,
    read_config,
)
from fusioninfer_capacity.fit.quantization import Quantization, read_quantization
from fusioninfer_capacity.fit.weights import Split, stages

GIB = 2**30


def test_the_table_has_the_models_that_people_serve() -> None:
    families = ("Llama-3.3-70B", "Qwen3-235B", "DeepSeek-R1", "Mistral-Small", "Mixtral-8x7B",
                "gemma-3", "gpt-oss-120b", "GLM-4.5", "Kimi-K2", "phi-4")  # fmt: skip
    for family in families:
        assert any(family in name for name in models()), family
    assert len(models()) >= 150
    assert len({str(each["config"]) for each in models().values()}) >= 80
    assert all(each["source"] for each in models().values())


@pytest.mark.parametrize("name", sorted(models()))
def test_every_model_is_read(name: str) -> None:
    model = known_architecture(name)
    assert model is not None
    assert sum(stage.weights for stage in stages(model, Split())) > 0


#: Billions of parameters that a name states, where it states those of all.
_BILLIONS = re.compile(r"-(\d+(?:\.\d+)?)[bB](?:-|$)")
#: Names that round generously, or leave out what is not in the language model.
_ROUNDED = 0.12


@pytest.mark.parametrize(
    "name", [name for name in models() if _BILLIONS.search(name) and "x" not in name.lower()]
)
def test_parameters_are_those_of_the_name(name: str) -> None:
    model = known_architecture(name)
    match = _BILLIONS.search(name)
    assert model is not None
    assert match is not None
    stated = float(match[1])
    if "gpt-oss" in name or "Llama-4" in name or stated < 2:
        return  # padded for its kernels; active parameters; rounded too much
    assert model.parameters / 1e9 == pytest.approx(stated, rel=_ROUNDED)


def test_what_is_not_understood_is_said() -> None:
    with pytest.raises(UnknownArchitectureError, match="mamba"):
        read_config({"model_type": "mamba"})
    with pytest.raises(UnknownArchitectureError, match="num_hidden_layers"):
        read_config({"model_type": "llama"})
    with pytest.raises(UnknownArchitectureError, match="several formats"):
        read_config({"model_type": "llama", "quantization_config": {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}})  # fmt: skip


def test_stages_divide_all_weights() -> None:
    model = known_architecture("meta-llama/Llama-3.3-70B-Instruct")
    assert model is not None
    whole = stages(model, Split())[0].weights
    for split in (Split(pipeline=3), Split(2), Split(4, 2)):
        parts = stages(model, split)
        total = sum(stage.weights for stage in parts) * split.tensor
        assert total == pytest.approx(whole, rel=0.001)
        assert sum(len(stage.layers) for stage in parts) == 80
    # As vLLM divides 80 layers into three stages.
    assert [len(stage.layers) for stage in stages(model, Split(pipeline=3))] == [27, 27, 26]


def test_heads_that_are_fewer_than_ranks_are_kept_by_several() -> None:
    model = known_architecture("Qwen/Qwen2.5-7B-Instruct")
    assert model is not None
    kept = model.layers[0].cache
    assert kept is not None
    assert kept.elements(4) == 2 * 128
    assert kept.elements(8) == 2 * 128
    assert stages(model, Split(8))[0].weights > stages(model, Split(4))[0].weights / 2


def test_experts_are_spread_over_all_copies() -> None:
    model = known_architecture("deepseek-ai/DeepSeek-R1")
    assert model is not None
    alone, spread = (stages(model, Split(1, 1, ranks))[0].weights for ranks in (1, 16))
    assert alone - spread == pytest.approx(15 / 16 * 656e9, rel=0.02)


@pytest.mark.parametrize(
    ("stated", "bits"),
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
def test_bits_of_a_parameter(stated: dict[str, object], bits: float) -> None:
    found = read_quantization(stated)
    assert isinstance(found, Quantization)
    assert found.bits == bits


@pytest.mark.parametrize(
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
def test_what_is_not_quantized(pattern: str, module: str, *, covered: bool) -> None:
    assert Quantization("FP8", 8, (pattern,)).covers(5, module) is covered
