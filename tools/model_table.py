"""Writes the table of models: `capacity/fusioninfer_capacity/fit/models.json`.

It is built from the configs in aiconfigurator-core (Apache-2.0), reduced to the keys that determine
a model's memory, and from `tools/models.yaml`. It reads the package, installed or unpacked:

    python tools/model_table.py SITE-PACKAGES/aiconfigurator_core
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "capacity" / "fusioninfer_capacity" / "fit" / "models.json"
SOURCE = "aiconfigurator-core 0.12.0 model_configs"

sys.path[:0] = [str(ROOT), str(ROOT / "capacity")]

from fusioninfer_capacity.fit.architecture import (  # noqa: E402  # found by the line above
    UnknownArchitectureError,
    read_config,
)
from fusioninfer_capacity.fit.quantization import (  # noqa: E402  # likewise
    list_formats,
)

_KEYS = """
    model_type hidden_size intermediate_size intermediate_size_mlp num_hidden_layers
    num_attention_heads num_key_value_heads head_dim vocab_size tie_word_embeddings
    max_position_embeddings rope_scaling sliding_window use_sliding_window sliding_window_pattern
    layer_types full_attention_interval num_experts num_local_experts n_routed_experts
    n_shared_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size
    first_k_dense_replace moe_layer_freq mlp_only_layers decoder_sparse_step
    interleave_moe_layer_step kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim
    v_head_dim index_topk index_head_dim index_n_heads linear_key_head_dim linear_value_head_dim
    linear_num_key_heads linear_num_value_heads linear_conv_kernel_dim mamba_ssm_dtype
    hybrid_override_pattern layers_block_type mamba_num_heads mamba_head_dim ssm_state_size
    n_groups conv_kernel mamba_ssm_cache_dtype attention_head_dim moe_latent_size
    moe_shared_expert_intermediate_size
    attention_k_eq_v global_head_dim num_global_key_value_heads enable_moe_block top_k_experts
    hidden_size_per_layer_input num_kv_shared_layers torch_dtype dtype
    hybrid_layer_pattern swa_num_attention_heads swa_num_key_value_heads swa_head_dim swa_v_head_dim
    share_expert_dim dense_intermediate_size
    mla_use_output_gate routed_expert_hidden_size num_experts_per_token num_shared_experts
    o_lora_rank o_groups hc_mult compress_ratios expert_dtype
"""
KEYS = set(_KEYS.split())
NESTED = {
    "sparse_attention_config": ("sparse_attention_freq", "sparse_num_index_heads",
                                "sparse_index_dim"),
    "linear_attn_config": ("full_attn_layers", "num_heads", "head_dim", "short_conv_kernel_size"),
}  # fmt: skip
VISION = ("hidden_size", "vt_hidden_size", "depth", "num_hidden_layers", "vt_num_hidden_layers",
          "intermediate_size", "vt_intermediate_size")  # fmt: skip
QUANTIZATION = ("quant_method", "quant_algo", "bits", "group_size", "weight_block_size",
                "config_groups", "moe_quant_algo")  # fmt: skip
EXCLUDED = ("modules_to_not_convert", "ignore", "exclude_modules")


def main() -> None:
    """Write the table, and print the models that were left out."""
    directory = Path(sys.argv[1]) / "model_configs"
    table: dict[str, Any] = {}
    for path in sorted(directory.glob("*_config.json")):
        if path.name.endswith("_hf_quant_config.json"):
            continue
        name = path.name.removesuffix("_config.json").replace("--", "/")
        config = json.loads(path.read_text(encoding="utf-8"))
        quantized = path.with_name(path.name.replace("_config.json", "_hf_quant_config.json"))
        if quantized.exists() and not config.get("quantization_config"):
            config["quantization_config"] = json.loads(quantized.read_text(encoding="utf-8"))
        add(table, name, SOURCE, trim_config(config))
    extra = yaml.safe_load((ROOT / "tools" / "models.yaml").read_text(encoding="utf-8"))
    for name, model in extra["configs"].items():
        add(table, name, model["source"], model["config"])
    for base, releases in extra["releases"].items():
        for entry in releases:
            release = {"name": entry} if isinstance(entry, str) else entry
            changed = dict(release.get("config") or {})
            if "format" in release:
                changed["quantization_config"] = extra["formats"][release["format"]]
            config = {**table[base]["config"], **changed}
            add(table, release["name"], f"{table[base]['source']} ({base})", config)
            if "format" not in release:
                # aiconfigurator-core estimates times of the base model only.
                table[release["name"]]["base"] = base
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(table)} models")


def add(table: dict[str, Any], name: str, source: str, config: Mapping[str, Any]) -> None:
    """Add a model if its config is supported."""
    try:
        read_config(config)
    except UnknownArchitectureError as exc:
        print(f"left out: {name}: {exc}")
        return
    table[name] = {"source": source, "config": config}


def trim_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a config that determine the model's memory."""
    trimmed_config: dict[str, Any] = {}
    for key, value in config.items():
        if key in ("text_config", "llm_config", "language_config"):
            trimmed_config["text_config"] = trim_config(value)
        elif key == "vision_config":
            trimmed_config[key] = {name: value[name] for name in VISION if name in value}
        elif key == "quantization_config":
            trimmed_config[key] = shorten_quantization(
                {**value, **(value.get("quantization") or {})}
            )
        elif key in NESTED:
            trimmed_config[key] = {name: value[name] for name in NESTED[key] if name in value}
        elif key in KEYS and value is not None:
            trimmed_config[key] = value
    return trimmed_config


def shorten_quantization(quantization: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that determine the format, with joined patterns; see `join_patterns`."""
    kept = {key: quantization[key] for key in QUANTIZATION if quantization.get(key)}
    for group in (kept.get("config_groups") or {}).values():
        for key in [key for key in group if key != "weights"]:
            del group[key]
    layers = list_formats(quantization.get("quantized_layers") or {})
    if layers and kept.get("quant_method") != "fp8":
        kept.pop("config_groups", None)
        kept["quantized_layers"] = {
            module: {"quant_algo": "/".join(sorted(formats))} for module, formats in layers.items()
        }
        return kept
    for key in EXCLUDED:
        if quantization.get(key):
            kept["ignore"] = sorted(join_patterns(quantization[key]))
    return kept


def join_patterns(patterns: list[str]) -> Iterator[str]:
    """Yield one pattern with `layers.*` for more than 16 that differ only in the layer."""
    families: dict[str, list[str]] = defaultdict(list)
    for pattern in patterns:
        if not re.search("norm|bias|embed", pattern):
            families[re.sub(r"layers\.\d+", "layers.*", pattern)].append(pattern)
    for joined, members in families.items():
        # With so many, all layers that have the module are listed; others are not affected.
        yield from [joined] if len(members) > 16 else members


if __name__ == "__main__":
    main()
