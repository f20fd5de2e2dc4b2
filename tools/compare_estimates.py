"""Writes `capacity/tests/fit/aiconfigurator.json`: estimates by aiconfigurator-core for tests.

They are results of `estimate_kv_cache` for models in its table and in ours, on three types of GPU.
Inputs are our memory per GPU, the defaults of vLLM 0.24.0, and a 16-bit cache. Tests read the file,
because the package (Apache-2.0; Python 3.11 to 3.13, Linux) is large. In a separate environment:

    pip install aiconfigurator-core==0.12.0 && python tools/compare_estimates.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from aiconfigurator_core.sdk.memory import estimate_kv_cache

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "capacity")]

from fusioninfer_capacity.fit.accelerators import ACCELERATORS  # noqa: E402  # by the line above

RELEASE = "0.24.0"
FRACTION = 0.92
SYSTEMS = {"H100": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm"}
DENSE = ("meta-llama/Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-70B",
         "meta-llama/Meta-Llama-3.1-405B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-8B",
         "Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8")  # fmt: skip
MIXTURES = ("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-FP8", "Qwen/Qwen3-235B-A22B",
            "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-Coder-480B-A35B-Instruct",
            "mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1",
            "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1", "moonshotai/Kimi-K2-Instruct",
            "MiniMaxAI/MiniMax-M2.5", "openai/gpt-oss-20b", "openai/gpt-oss-120b")  # fmt: skip
TENSOR_SIZES = (1, 2, 4, 8)


def main() -> None:
    """Write the combinations that aiconfigurator-core can estimate."""
    rows = []
    for model in (*DENSE, *MIXTURES):
        for accelerator, system in SYSTEMS.items():
            for tensor in TENSOR_SIZES:
                row = estimate_row(model, accelerator, system, tensor)
                if row is not None:
                    rows.append(row)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (ROOT / "capacity" / "tests" / "fit" / "aiconfigurator.json").write_text(
        f"[\n{lines}\n]\n", "utf-8"
    )
    print(f"{len(rows)} combinations")


def estimate_row(model: str, accelerator: str, system: str, tensor: int) -> dict[str, Any] | None:
    """Return one combination; None if it cannot be estimated or no memory is left."""
    split = {"moe_tp_size": tensor, "moe_ep_size": 1} if model in MIXTURES else {}
    try:
        estimate = estimate_kv_cache(
            model, system, "vllm", RELEASE,
            max_num_tokens=8192, max_batch_size=1024, memory_fraction_kind="of_total",
            memory_fraction_value=FRACTION, tp_size=tensor, kvcache_quant_mode="bfloat16",
            gpu_memory_capacity_bytes_override=ACCELERATORS[accelerator].total, **split,
        )  # fmt: skip
    except ValueError as exc:
        print(f"{model} on {tensor} {accelerator}: {str(exc)[:120]}")
        return None
    parts = estimate["memory_breakdown"] or {}
    return {
        "model": model,
        "accelerator": accelerator,
        "tensor": tensor,
        "weights": parts.get("weights_bytes"),
        "activations": parts.get("activations_bytes"),
        "runtime": parts.get("runtime_overhead_bytes", 0) + parts.get("comm_overhead_bytes", 0),
        "cache": estimate["total_kv_size_bytes"],
        "token": estimate["kv_size_per_token_bytes"],
        "tokens": estimate["total_kv_size_tokens"],
    }


if __name__ == "__main__":
    main()
