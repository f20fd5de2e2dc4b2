"""Writes `docs/reference/accuracy.md`: estimates, compared with recorded startups and throughputs.

`python tools/capacity_accuracy.py` reads `capacity/tests/fit/startup_logs.yaml` and, next to it,
`throughput.json`, which `tools/compare_throughput.py` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "capacity"), str(ROOT / "tests")]

from capacity.tests.startup_logs import LOGS, Log, accelerator_of, command_of  # noqa: E402  # above
from fusioninfer_capacity.fit.accelerators import ACCELERATORS  # noqa: E402  # likewise
from fusioninfer_capacity.fit.architecture import Compressed, find_architecture  # noqa: E402  # likewise
from fusioninfer_capacity.fit.cache import CacheLayout, make_cache_layout  # noqa: E402  # likewise
from fusioninfer_capacity.fit.compressed import CompressedLayout  # noqa: E402  # likewise
from fusioninfer_capacity.fit.engines import GIB, SIZED_ENGINES, Memory, UnknownMemoryError  # noqa: E402  # likewise
from fusioninfer_capacity.fit.findings import check_fit  # noqa: E402  # likewise
from fusioninfer_capacity.fit.memory import fit, has_whole_encoders  # noqa: E402  # likewise
from fusioninfer_capacity.fit.weights import Split, split_stages  # noqa: E402  # likewise
from fusioninfer_pulumi.findings import Severity  # noqa: E402  # likewise

THROUGHPUT = ROOT / "capacity" / "tests" / "fit" / "throughput.json"
PAGES = ROOT / "capacity" / "tests" / "fit" / "engine_pages.json"
TARGET = ROOT / "docs" / "reference" / "accuracy.md"
CLASSES = (
    "dense",
    "mixture of experts",
    "multi-head latent attention",
    "hybrid",
    "images",
    "AMD",
    "SGLang",
)


@dataclass(frozen=True)
class Comparison:
    """A log and the relative errors of its estimate: estimated / logged - 1; None if unknown.

    Attributes:
        weights: Error of the weights of one accelerator.
        tokens: Error of the tokens in a cache of the logged size, or of the size of one sequence.
        cache: Error of the tokens in a cache of the estimated size, or of its bytes.
        is_correct: Whether the estimate rejects the model if the engine failed, and only then; None
            if the log has no outcome.
    """

    log: Log
    weights: float | None
    tokens: float | None
    cache: float | None
    is_correct: bool | None


def classify_log(log: Log) -> str:
    """Return the class of a log; the most specific one takes precedence."""
    model = find_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    tests = {
        "SGLang": log["engine"] == "sglang",
        "AMD": str(log.get("gpu", "")).startswith("MI"),
        "hybrid": model.recurrent
        or any(isinstance(layer.cache, Compressed) for layer in model.layers),
        "images": bool(model.vision),
        "multi-head latent attention": model.latent,
        "mixture of experts": bool(model.experts_per_token),
    }
    return next((name for name, holds in tests.items() if holds), "dense")


def compare_log(log: Log) -> Comparison:
    """Return the log with the errors of its estimate."""
    model = find_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    # `log` may have no release; `versioned` has one, for estimates that hardly depend on it.
    versioned = {"version": "0.26.0" if log["engine"] == "vllm" else "0.5.9", **log}
    command = command_of(versioned)
    sizes = command.parallelism
    assert sizes is not None, "logs have plain arguments"
    weights = tokens = cache = is_correct = None
    if "weights" in log:
        whole = has_whole_encoders(command)
        split = Split(sizes.tensor, sizes.pipeline, whole_encoder=whole)
        weights = (
            max(stage.weights for stage in split_stages(model, split)) / GIB / log["weights"] - 1
        )
    if "tokens" in log and log.get("cache", 0) > 0:
        try:
            tokens = _estimate_tokens(log, versioned) / log["tokens"] - 1
        except UnknownMemoryError:
            tokens = None
    if "needed" in log:
        layout, length = _make_layout(log, versioned), _get_length(log, versioned)
        tokens = layout.measure_sequence(length) / GIB / log["needed"] - 1
    if "gpu" in log and "version" in log:
        try:
            fitted = fit(command, model, accelerator_of(log))
        except UnknownMemoryError:
            return Comparison(log, weights, tokens, None, None)
        if "tokens" in log and log.get("outcome") != "refused":
            cache = (fitted.tokens or 0) / log["tokens"] - 1
        elif log.get("cache", 0) > 0 and log.get("outcome") != "refused":
            cache = fitted.cache / GIB / log["cache"] - 1
        if "outcome" in log:
            findings = check_fit((), (), command, model, fitted, 1)
            rejected = any(finding.severity is Severity.ERROR for finding in findings)
            is_correct = rejected == (log["outcome"] == "refused")
    return Comparison(log, weights, tokens, cache, is_correct)


def _estimate_tokens(log: Log, versioned: Log) -> float:
    """Return the estimated tokens in a cache of the logged size."""
    length = _get_length(log, versioned)
    return _make_layout(log, versioned).count_requests(int(log["cache"] * GIB), length) * length


def _get_length(log: Log, versioned: Log) -> int:
    model = find_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    return _divide_memory(log, versioned).length or model.longest or 0


def _make_layout(log: Log, versioned: Log) -> CacheLayout | CompressedLayout:
    """Return the cache layout of a log's model."""
    model, sizes = find_architecture(log["model"]), command_of(versioned).parallelism
    assert model is not None, "logs are of models of the table"
    assert sizes is not None, "logs have plain arguments"
    memory = _divide_memory(log, versioned)
    return make_cache_layout(
        model.layers, memory.cache_bits or model.bits, model.bits, sizes.tensor, memory
    )


def _divide_memory(log: Log, versioned: Log) -> Memory:
    command, model = command_of(versioned), find_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    sizes = command.parallelism
    assert sizes is not None, "logs have plain arguments"
    device = ACCELERATORS[log.get("gpu", "H100")]
    return SIZED_ENGINES[log["engine"]].memory(command, device, model, sizes.tensor, sizes.tensor)


def text() -> str:
    """Return the page."""
    comparisons = [compare_log(log) for log in LOGS]
    pages = json.loads(PAGES.read_text(encoding="utf-8"))[1:]
    return _PAGE.format(
        classes="\n".join(_render_table(comparisons)),
        unused_logs="\n".join(_render_unused_logs(comparisons)),
        throughput="\n".join(_render_throughput()),
        engine_models=len({row["model"] for row in pages}),
        engine_rows=len(pages),
    )


_PAGE = """\
# How accurate are memory estimates?

The table compares [estimates](../models.md#does-it-fit) with what vLLM and SGLang logged when they
started or failed to start. `tools/capacity_accuracy.py` generates it from
`capacity/tests/fit/startup_logs.yaml`, which names the source of each log.

An error is the estimate divided by the logged value, minus 1. `21; 0.2%; -1.8%` means: in 21 logs
the median of the absolute errors is 0.2 %, and the worst error, in the named log, -1.8 %.

- **Weights**: memory of the weights on one accelerator ("Model loading took").
- **Cached tokens**: estimated number of tokens in a KV cache of the logged size.
- **Cache size**: size of the KV cache, estimated without the log.
- **Correct predictions**: successful starts that the estimate accepts, and failed ones that it
  rejects.

{classes}

Known causes of the worst errors:

- `cloudera-qwen2-7b-quarter`: FlashInfer's sampler uses 0.9 GiB less; no argument reveals whether
  it is used.
- `sim-scout-fp8`: the library's model data lack the image encoder.
- `vllm-51590`: the log probably includes memory outside PyTorch.

For SGLang after 0.5.9 there is one log, on AMD, and one report: on an H100, 9.5 GiB of KV cache
instead of the estimated 4.2 GiB, a difference of 7 % of the GPU's memory.
[The margin](../models.md#does-it-fit) of 8 % covers it. CUDA graphs of mixture-of-experts and
hybrid models take 0.4 to 33 GiB in logs, but are estimated as for dense models.

## Cache layouts

`tools/engine_pages.py` computes the cache sizes of {engine_models} models in {engine_rows}
configurations with vLLM 0.32.0's own code, on a CPU. In all of them the number of requests that fit
equals the estimate.
Estimates for model families whose activations no startup log shows (Kimi-K3, MiniMax-M3,
MiMo-V2-Flash, Step-3.7, Mistral-Small-4, DeepSeek-V4) are reported as uncertain.

## Logs not used for calibration

The constants of the estimate are fitted to logs of vLLM before 0.18 and SGLang up to 0.5.9, without
the logs in this table:

{unused_logs}

## Throughput

Throughput estimates have large errors, so only `size` prints them. The table shows the input and
output tokens per second of one replica. *Estimated* is computed by `size` from
aiconfigurator-core's times for the vLLM release in the last column. *Published* are [GPUStack's
measurements](https://github.com/gpustack/gpustack/tree/47277d79f4a5bae12a2d25e9ecbed2a2177a5f2d/docs/performance-lab)
of vLLM 0.11.0 with 500 concurrent requests.

{throughput}
"""


def _render_table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    yield "| Models | Logs | Weights | Cached tokens | Cache size | Correct predictions |"
    yield "|---|---|---|---|---|---|"
    for name in CLASSES:
        of_class = [
            comparison for comparison in comparisons if classify_log(comparison.log) == name
        ]
        outcomes = [item.is_correct for item in of_class if item.is_correct is not None]
        cells = [
            _render_cell([(item.log["id"], getattr(item, field)) for item in of_class])
            for field in ("weights", "tokens", "cache")
        ]
        correct = f"{sum(outcomes)} of {len(outcomes)}" if outcomes else "none"
        yield f"| {name} | {len(of_class)} | {' | '.join(cells)} | {correct} |"


def _render_cell(errors: Sequence[tuple[str, float | None]]) -> str:
    known = [(abs(error), error, name) for name, error in errors if error is not None]
    if not known:
        return "none"
    _, worst, name = max(known)
    return f"{len(known)}; {median(size for size, *_ in known):.1%}; {worst:+.1%} (`{name}`)"


def _render_unused_logs(comparisons: Sequence[Comparison]) -> Iterator[str]:
    yield "| Log | Release | Model | Weights | Cache size |"
    yield "|---|---|---|---|---|"
    for comparison in comparisons:
        if comparison.log.get("kept"):
            errors = [
                f"{error:+.1%}" if error is not None else ""
                for error in (comparison.weights, comparison.cache)
            ]
            version, model = comparison.log["version"], comparison.log["model"]
            yield f"| `{comparison.log['id']}` | {version} | {model} | {' | '.join(errors)} |"


def _render_throughput() -> Iterator[str]:
    rows = json.loads(THROUGHPUT.read_text(encoding="utf-8"))
    yield "| Model | GPUs | Input, output tokens | Published | Estimated | Error | vLLM release |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        error = row["estimated"] / row["measured"] - 1
        yield (
            f"| {row['model']} | {row['tensor']} {row['gpu']} | {row['input']}, {row['output']} "
            f"| {row['measured']:.0f} | {row['estimated']:.0f} | {error:+.0%} | {row['times']} |"
        )


def main() -> None:
    """Write the page."""
    TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
