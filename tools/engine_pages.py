"""Writes `capacity/tests/fit/engine_pages.json`: the layout of KV caches by vLLM's own code.

The tests compare the capacity package's cache layouts with it. It runs on a CPU with the Python of
an environment that has vLLM, and needs no weights: `VENV/bin/python tools/engine_pages.py`.

vLLM's code computes pages, groups and blocks (`get_kv_cache_groups`), the blocks of a request, the
requests of maximum length that fit a cache, and the KVCacheSpecs of DeepSeek-V4's layers
(`get_kv_cache_spec`). The list of layers, and the KVCacheSpecs of all other models, are built here
from the model's config. So this verifies how many tokens fit a cache, not the size of the cache.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import vllm
from vllm.models.deepseek_v4.attention import DeepseekV4Attention, DeepseekV4IndexerCache
from vllm.models.deepseek_v4.compressor import CompressorStateCache
from vllm.v1.attention.backends.mla.sparse_swa import DeepseekV4SWACache
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "capacity" / "fusioninfer_capacity" / "fit" / "models.json"
TARGET = ROOT / "capacity" / "tests" / "fit" / "engine_pages.json"
GIB = 2**30
BATCHED, STEPS = 8192, 2

#: Model, tensor parallel size, tokens of a request, GiB of cache, bits of an element.
CASES = (
    ("openai/gpt-oss-20b", 1, 131072, 10, 16),
    ("openai/gpt-oss-120b", 1, 131072, 10, 16),
    ("nvidia/Gemma-4-31B-IT-NVFP4", 1, 262144, 38.85, 16),
    ("google/gemma-3-27b-it", 2, 131072, 30, 16),
    ("Qwen/Qwen3.8-27B-FP8", 2, 131072, 4.99, 8),
    ("Qwen/Qwen3.8-27B-FP8", 4, 262144, 20, 8),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4, 262144, 40, 16),
    ("Qwen/Qwen3.5-397B-A17B", 8, 262144, 40, 16),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 1, 262144, 15, 16),
    ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 4, 262144, 30, 16),
    ("XiaomiMiMo/MiMo-V2-Flash", 4, 262144, 50, 16),
    ("XiaomiMiMo/MiMo-V2-Flash", 8, 262144, 50, 16),
    ("stepfun-ai/Step-3.7-Flash", 8, 262144, 50, 16),
    ("MiniMaxAI/MiniMax-M3", 4, 131072, 50, 16),
    ("MiniMaxAI/MiniMax-M3", 8, 131072, 50, 16),
    ("moonshotai/Kimi-K3", 8, 1048576, 60, 16),
    ("moonshotai/Kimi-K3", 16, 1048576, 60, 16),
    ("mistralai/Mistral-Small-4-119B-2603", 2, 262144, 50, 16),
    ("deepseek-ai/DeepSeek-V3.2", 8, 163840, 30, 16),
    ("deepseek-ai/DeepSeek-V4-Flash", 4, 131072, 40, 8),
    ("deepseek-ai/DeepSeek-V4-Flash", 4, 1048576, 40, 8),
    ("deepseek-ai/DeepSeek-V4-Pro", 8, 1048576, 30, 8),
)


def make_engine_config(longest: int, layout: KVCacheLayout) -> Any:
    """Return an object with the fields of `VllmConfig` that the computation reads."""
    cache = SimpleNamespace(
        block_size=16,
        cache_dtype="fp8_ds_mla",
        mamba_cache_mode="align",  # with prefix caching, the default
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=None,
        get_resolved_kv_cache_layout=lambda: layout,
    )
    return SimpleNamespace(
        cache_config=cache,
        model_config=SimpleNamespace(max_model_len=longest),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        kv_transfer_config=None,
        max_in_flight_tokens=BATCHED * STEPS,
    )


def build_specs(
    name: str, text: Mapping[str, Any], ways: int, config: Any, bits: int
) -> Iterator[Any]:
    """Yield the KVCacheSpecs of all layers; a layer of DeepSeek-V4 has several."""
    kind = text["model_type"]
    if kind == "deepseek_v4":
        yield from _build_deepseek_v4(text, config)
        return
    block = config.cache_config.block_size
    dtype = torch.bfloat16 if bits == 16 else torch.float8_e4m3fn
    states = _compute_state(text, ways)
    widest = _build_attention(text, 0, ways, 1, dtype)
    if states is not None:
        # `_align_hybrid_block_size`: an attention page is large enough for a state.
        aligned = 128 if text.get("kv_lora_rank") else 16
        state = MambaSpec(shapes=states[0], dtypes=states[1], block_size=-1).page_size_bytes
        block = aligned * math.ceil(state / (aligned * widest.page_size_bytes))
        config.cache_config.block_size = block
    for index in range(_count_layers(text)):
        kind_of_layer = _find_kind(text, index)
        if kind_of_layer == "nothing":
            continue
        if kind_of_layer == "state":
            assert states is not None, name
            yield MambaSpec(
                shapes=states[0],
                dtypes=states[1],
                block_size=block,
                page_size_padded=block * widest.page_size_bytes,
                mamba_cache_mode="align",
            )
            continue
        yield _build_attention(text, index, ways, block, dtype)
        yield from _build_index(text, index, block)


def _count_layers(text: Mapping[str, Any]) -> int:
    return len(text.get("layers_block_type") or ()) or int(text["num_hidden_layers"])


def _find_kind(text: Mapping[str, Any], index: int) -> str:
    """Return the kind of a layer: attention, a state, or nothing."""
    pattern = text.get("layers_block_type") or text.get("hybrid_override_pattern")
    if pattern:
        kinds = {"M": "state", "mamba": "state", "*": "attention", "attention": "attention"}
        return kinds.get(pattern[index], "nothing")
    if linear := text.get("linear_attn_config"):
        return "attention" if index + 1 in linear["full_attn_layers"] else "state"
    if text.get("linear_num_key_heads"):
        kinds = text.get("layer_types")
        every = int(text.get("full_attention_interval") or 4)
        attends = kinds[index] == "full_attention" if kinds else (index + 1) % every == 0
        return "attention" if attends else "state"
    return "attention"


def _compute_state(text: Mapping[str, Any], ways: int) -> tuple[Any, Any] | None:
    """Return shapes and types of a state; None for models without (`MambaStateShapeCalculator`)."""
    if linear := text.get("linear_attn_config"):
        heads, head = linear["num_heads"], linear["head_dim"]
        convolution = (3 * heads * head // ways, linear["short_conv_kernel_size"] - 1)
        return (convolution, (heads // ways, head, head)), (torch.bfloat16, torch.float32)
    if text.get("linear_num_key_heads"):
        keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
        heads, value = text["linear_num_value_heads"], text["linear_value_head_dim"]
        kernel = text.get("linear_conv_kernel_dim") or 4
        convolution = ((2 * keys + heads * value) // ways, kernel - 1)
        stored = torch.float32 if text.get("mamba_ssm_dtype") == "float32" else torch.bfloat16
        recurrent = (heads // ways, value, text["linear_key_head_dim"])
        return (convolution, recurrent), (torch.bfloat16, stored)
    if text.get("mamba_num_heads"):
        heads, width = text["mamba_num_heads"], text["mamba_head_dim"]
        size, groups = text["ssm_state_size"], text["n_groups"]
        inner = heads * width
        convolution = ((inner + 2 * groups * size) // ways, (text.get("conv_kernel") or 4) - 1)
        types = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        stored = types.get(str(text.get("mamba_ssm_cache_dtype")), torch.float16)
        return (convolution, (heads // ways, width, size)), (torch.bfloat16, stored)
    return None


def _build_attention(
    text: Mapping[str, Any], index: int, ways: int, block: int, dtype: torch.dtype
) -> KVCacheSpec:
    """Return the spec of an attention layer."""
    if rank := text.get("kv_lora_rank"):
        return MLAAttentionSpec(
            block_size=block, num_kv_heads=1, max_tp_shards=1, dtype=dtype,
            head_size=rank + text["qk_rope_head_dim"],
        )  # fmt: skip
    heads = text.get("num_key_value_heads") or text.get("num_attention_groups")
    head = text.get("head_dim") or text.get("attention_head_dim")
    head = head or text["hidden_size"] // text["num_attention_heads"]
    value = head
    windowed = _has_window(text, index)
    if text["model_type"].startswith("gemma4") and not windowed:
        head = value = text.get("global_head_dim") or head
        heads = text.get("num_global_key_value_heads") or heads
    if text["model_type"].startswith("mimo_v2"):
        prefix = "swa_" if windowed else ""
        heads = text[f"{prefix}num_key_value_heads"]
        head, value = text[f"{prefix}head_dim"], text[f"{prefix}v_head_dim"]
    common = {
        "block_size": block, "num_kv_heads": max(1, heads // ways), "dtype": dtype,
        "head_size": head, "head_size_v": value,
    }  # fmt: skip
    window = text.get("sliding_window_size") or text.get("sliding_window")
    return (
        SlidingWindowSpec(**common, sliding_window=window, dcp_sharded=False)
        if windowed
        else FullAttentionSpec(**common)
    )


def _has_window(text: Mapping[str, Any], index: int) -> bool:
    if pattern := text.get("hybrid_layer_pattern"):
        return bool(pattern[index])
    if not text.get("sliding_window") or text.get("use_sliding_window") is False:
        return False
    if kinds := text.get("layer_types"):
        return str(kinds[index]) == "sliding_attention"
    every = {"gpt_oss": 2, "gemma3": 6, "gemma3_text": 6}.get(text["model_type"])
    every = text.get("sliding_window_pattern") or every
    return every is not None and (index + 1) % int(every) != 0


def _build_index(text: Mapping[str, Any], index: int, block: int) -> Iterator[KVCacheSpec]:
    """Yield the KVCacheSpec of the indexer of sparse attention."""
    sparse = text.get("sparse_attention_config") or {}
    if text.get("index_topk"):
        width = text["index_head_dim"] + 4
        dtype = torch.uint8
    elif (sparse.get("sparse_attention_freq") or [0] * (index + 1))[index]:
        width, dtype = sparse["sparse_index_dim"], torch.bfloat16
    else:
        return
    yield MLAAttentionSpec(
        block_size=block, num_kv_heads=1, max_tp_shards=1, head_size=width, dtype=dtype
    )


def _build_deepseek_v4(text: Mapping[str, Any], config: Any) -> Iterator[KVCacheSpec]:
    """Yield KVCacheSpecs of vLLM's classes, called with stand-ins for their instances."""
    config.cache_config.block_size = 256  # the only one that its backend accepts
    head, rope = text["head_dim"], text["qk_rope_head_dim"]
    assert (head, rope) == (512, 64), "the engine's format of 584 bytes"
    for ratio in text["compress_ratios"][: text["num_hidden_layers"]]:
        window = SimpleNamespace(
            cache_config=config.cache_config, bounded_replay=False, block_size=64, head_dim=head,
            dtype=torch.uint8, window_size=text["sliding_window"], packed_bytes_per_token=584,
            packed_page_alignment=576,
        )  # fmt: skip
        yield DeepseekV4SWACache.get_kv_cache_spec(window, config)
        if ratio <= 1:
            continue
        attention = SimpleNamespace(
            compress_ratio=ratio, kv_cache_dtype="fp8_ds_mla", head_dim=head,
            kv_cache_torch_dtype=torch.uint8,
        )  # fmt: skip
        spec = DeepseekV4Attention.get_kv_cache_spec(attention, config)
        assert spec is not None, "layers with a ratio keep latents"
        yield spec
        yield _build_compressor(head, ratio, config)
        if ratio == 4:
            width = text["index_head_dim"]
            cache = SimpleNamespace(
                cache_config=config.cache_config, head_dim=width + 4, dtype=torch.uint8,
                compress_ratio=ratio,
            )  # fmt: skip
            yield DeepseekV4IndexerCache.get_kv_cache_spec(cache, config)
            yield _build_compressor(width, ratio, config)


def _build_compressor(width: int, ratio: int, config: Any) -> KVCacheSpec:
    overlap = 2 if ratio == 4 else 1
    state = SimpleNamespace(
        block_size=4 if ratio == 4 else 8, state_dim=2 * overlap * width, dtype=torch.float32,
        sliding_window=overlap * ratio,
    )  # fmt: skip
    return CompressorStateCache.get_kv_cache_spec(state, config)


def compute_layout(name: str, ways: int, longest: int, gib: float, bits: int) -> dict[str, Any]:
    """Return the layout that the engine's code computes for a model's layers."""
    model = json.loads(TABLE.read_text(encoding="utf-8"))[name]["config"]
    text = next((model[key] for key in ("text_config", "llm_config") if key in model), model)
    # DeepSeek-V4 requires a layout with blocks outermost; by default layers are outermost.
    has_outer_blocks = text["model_type"] == "deepseek_v4"
    config = make_engine_config(
        longest, KVCacheLayout.BLNHC if has_outer_blocks else KVCacheLayout.LBNHC
    )
    layers = {str(at): spec for at, spec in enumerate(build_specs(name, text, ways, config, bits))}
    groups = kv_cache_utils.get_kv_cache_groups(config, layers)
    plan = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, int(gib * GIB))
    return {
        "model": name,
        "tensor": ways,
        "bits": bits,
        "length": longest,
        "gib": gib,
        "groups": len(groups),
        "blocks": plan.num_blocks,
        "requests": kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, plan),
    }


def main() -> None:
    """Write the file."""
    rows = [json.dumps(compute_layout(*case)) for case in CASES]
    header = json.dumps({"vllm": vllm.__version__.partition("+")[0], "batched": BATCHED,
                         "steps": STEPS})  # fmt: skip
    text = "[\n" + ",\n".join([header, *rows]) + "\n]\n"
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
