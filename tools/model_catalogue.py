"""Writes `fusioninfer_pulumi/presets/models.json`: the models that presets know.

`tools/model_catalogue.py RECIPES` reads a clone of github.com/vllm-project/recipes. Without the
clone, as in `make regenerate`, it only computes the numbers of GPUs again. A model's arguments are
the recipe's base arguments, and those for tool calls and reasoning. Its `note` lists omitted ones.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import find_architecture
from fusioninfer_capacity.smallest import count_model_bytes, find_smallest_layout
from fusioninfer_pulumi.api.model import ModelArgs

TARGET = Path(__file__).resolve().parent.parent / "fusioninfer_pulumi" / "presets" / "models.json"
ENGINE = "vllm"

#: Paths of the models' recipes, with the kinds of the models.
CHOSEN = {
    "Qwen/Qwen3-4B": "dense",
    "Qwen/Qwen3-8B": "dense",
    "Qwen/Qwen3-32B": "dense",
    "meta-llama/Llama-3.1-8B-Instruct": "dense",
    "meta-llama/Llama-3.3-70B-Instruct": "dense",
    "microsoft/Phi-4-mini-instruct": "dense",
    "ByteDance-Seed/Seed-OSS-36B-Instruct": "dense",
    "openai/gpt-oss-20b": "experts",
    "openai/gpt-oss-120b": "experts",
    "Qwen/Qwen3-30B-A3B": "experts",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "experts",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": "experts",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "experts",
    "deepseek-ai/DeepSeek-R1": "experts",
    "deepseek-ai/DeepSeek-V3.1": "experts",
    "deepseek-ai/DeepSeek-V3.2": "experts",
    "moonshotai/Kimi-K2.5": "experts, multimodal",
    "zai-org/GLM-4.6": "experts",
    "zai-org/GLM-5.2": "experts",
    "MiniMaxAI/MiniMax-M2.5": "experts",
    "Qwen/Qwen3.5-27B": "dense, multimodal",
    "Qwen/Qwen3.5-122B-A10B": "experts, multimodal",
    "Google/gemma-4-31B-it": "dense, multimodal",
    "Qwen/Qwen2.5-VL-7B-Instruct": "dense, multimodal",
    "Qwen/Qwen3-VL-235B-A22B-Instruct": "experts, multimodal",
    "jinaai/jina-embeddings-v5-text-small": "embedding",
    "jinaai/jina-reranker-m0": "reranking",
}
#: GPU types for which the number of GPUs is computed.
GPU_TYPES = ("H100", "H200", "B200", "A100", "L40S", "L4")
#: Arguments of recipes that the catalogue omits, with the reason.
OMITTED = {
    "--enable-expert-parallel": "`parallelism.expert` decides it",
    "--chat-template": "its file is not known to be in the image",
    "--kernel-config.enable_flashinfer_autotune": "a workaround for startup time",
}
#: Keys of a recipe's `hardware_overrides`.
_TUNED = {"nvidia": "NVIDIA", "hopper": "Hopper", "blackwell": "Blackwell"}
_QUANTIZED = ("fp8", "fp4", "awq", "gptq", "int4", "int8", "w8a8", "w4a16")
#: Models whose number of GPUs is from the recipe's memory, although the capacity package knows them
#: now: another number, or other arguments, would restart services that users have deployed.
_BY_RECIPE = {"Qwen/Qwen2.5-VL-7B-Instruct"}


def main() -> int:
    """Write the catalogue."""
    write(read(Path(sys.argv[1])) if len(sys.argv) > 1 else read_committed())
    return 0


def read_committed() -> dict[str, Any]:
    """Return the committed catalogue."""
    document: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return document


def write(document: dict[str, Any]) -> None:
    """Write the file, with the numbers of GPUs computed again."""
    for model in document["models"]:
        model["accelerators"] = sizes(model)
        known = model["name"] not in _BY_RECIPE
        weights = count_model_bytes(ModelArgs(uri=f"hf://{model['name']}")) if known else None
        # A recipe's memory includes the cache, so a startup timeout derived from it is long enough.
        model["bytes"] = weights if weights is not None else model["memory"] * 10**9
    TARGET.write_text(text(document), encoding="utf-8")


def text(document: dict[str, Any]) -> str:
    """Return the file's text, a model on each line."""
    lines = ",\n".join(json.dumps(model, ensure_ascii=False) for model in document["models"])
    head = {key: value for key, value in document.items() if key != "models"}
    return f'{json.dumps(head)[:-1]}, "models": [\n{lines}\n]}}\n'


def read(recipes: Path) -> dict[str, Any]:
    """Return the catalogue from the recipes."""
    git = ["git", "-C", str(recipes)]
    commit, day = _run_git([*git, "log", "-1", "--format=%h %cs"]).split()
    models = []
    for path, kind in CHOSEN.items():
        recipe = yaml.safe_load(_run_git([*git, "show", f"HEAD:models/{path}.yaml"]))
        models.append(_build_entry(path, kind, recipe))
    return {
        "engine": ENGINE,
        "recipes": f"vllm-project/recipes {commit} of {day}",
        "checked": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "models": models,
    }


def _run_git(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _build_entry(path: str, kind: str, recipe: dict[str, Any]) -> dict[str, Any]:
    model, features = recipe["model"], recipe.get("features") or {}
    variants = recipe["variants"]
    name = variants["default"].get("model_id") or model["model_id"]
    parts = [list(model.get("base_args") or ())]
    notes = []
    for feature in ("tool_calling", "reasoning"):
        arguments = list((features.get(feature) or {}).get("args") or ())
        if "--chat-template" in arguments or "--reasoning-parser-plugin" in arguments:
            notes.append(f"{feature.replace('_', ' ')}: needs a file that the image may not have")
        else:
            parts.append(arguments)
    arguments = []
    for words in _read_flags([word for part in parts for word in part]):
        flag = words[0].partition("=")[0]
        if flag in OMITTED:
            notes.append(f"`{flag}`: {OMITTED[flag]}")
        else:
            arguments += words
    overrides = recipe.get("hardware_overrides") or {}
    for hardware, title in _TUNED.items():
        override = overrides.get(hardware) or {}
        words = [*(override.get("extra_args") or ()), *_read_variables(override.get("extra_env"))]
        if words:
            notes.append(f"on {title} `{' '.join(words)}`: a tuning for one kind of GPU")
    if variables := _read_variables(model.get("base_env")):
        notes.append(f"`{' '.join(variables)}`: a tuning of kernels")
    siblings = [
        variant["model_id"]
        for key, variant in variants.items()
        if key != "default"
        and "model_id" in variant
        and any(mark in f"{key} {variant['model_id']}".lower() for mark in _QUANTIZED)
        and not variant["model_id"].startswith("amd/")
    ]
    return {
        "name": name,
        "kind": kind,
        "arguments": arguments,
        "siblings": siblings,
        "context": model["context_length"],
        "memory": variants["default"]["vram_minimum_gb"],
        "minimum": model["min_vllm_version"],
        "source": f"models/{path}.yaml, {recipe['meta']['date_updated']}",
        "note": "; ".join(notes),
    }


def _read_variables(environment: dict[str, Any] | None) -> list[str]:
    return [f"{key}={value}" for key, value in (environment or {}).items()]


def _read_flags(arguments: list[str]) -> list[list[str]]:
    flags: list[list[str]] = []
    for word in arguments:
        if word.startswith("--"):
            flags.append([word])
        else:
            flags[-1].append(word)
    return flags


def sizes(model: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest layout of a model on one node, by GPU type; none if it does not fit.

    The capacity package computes the layouts of models that it knows. For others, the recipe's
    memory determines the number of GPUs; it is unknown whether the longest sequence fits, so the
    engine chooses the length (`auto`).
    """
    layouts: dict[str, Any] = {}
    name = model["name"]
    known = find_architecture(name) is not None and name not in _BY_RECIPE
    for kind in GPU_TYPES:
        if known:
            layout = find_smallest_layout(
                ModelArgs(uri=f"hf://{name}"), kind, ENGINE, None, model["arguments"]
            )
            if not isinstance(layout, str) and layout.nodes == 1:
                layouts[kind] = {
                    "gpus": layout.tensor,
                    **({"expert": True} if layout.has_expert_parallelism else {}),
                }
            continue
        gigabytes = ACCELERATORS[kind].total / 10**9
        gpus = next((count for count in (1, 2, 4, 8) if count * gigabytes >= model["memory"]), None)
        if gpus is not None:
            layouts[kind] = {"gpus": gpus, "auto": True}
    return layouts


if __name__ == "__main__":
    sys.exit(main())
