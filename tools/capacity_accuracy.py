"""Writes `docs/reference/accuracy.md`: estimates beside recorded start-ups and throughputs.

From `capacity/tests/fit/startup_logs.yaml`, and `throughput.json` beside it, which
`tools/compare_throughput.py` writes: `python tools/capacity_accuracy.py`.
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
from fusioninfer_capacity.fit.architecture import Compressed, known_architecture  # noqa: E402  # likewise
from fusioninfer_capacity.fit.cache import CacheLayout, layout  # noqa: E402  # likewise
from fusioninfer_capacity.fit.compressed import CompressedLayout  # noqa: E402  # likewise
from fusioninfer_capacity.fit.engines import GIB, SIZED, Memory, Unclear  # noqa: E402  # likewise
from fusioninfer_capacity.fit.findings import fit_findings  # noqa: E402  # likewise
from fusioninfer_capacity.fit.memory import fit, has_whole_encoders  # noqa: E402  # likewise
from fusioninfer_capacity.fit.weights import Split, stages  # noqa: E402  # likewise
from fusioninfer_pulumi.findings import Severity  # noqa: E402  # likewise

THROUGHPUT = ROOT / "capacity" / "tests" / "fit" / "throughput.json"
PAGES = ROOT / "capacity" / "tests" / "fit" / "engine_pages.json"
TARGET = ROOT / "docs" / "reference" / "accuracy.md"
CLASSES = ("dense", "experts", "multi-head latent attention", "hybrid", "images", "AMD", "SGLang")


@dataclass(frozen=True)
class Comparison:
    """A log beside its estimate; shares are estimated over logged, less 1, None without figures.

    Attributes:
        weights: Of the weights of one accelerator.
        held: Of the tokens of a cache of the logged size, or of what a sequence takes of it.
        cache: Of the tokens of a start-up, or of its cache in bytes.
        verdict: Whether it is refused as the engine refused it; None where one is not known.
    """

    log: Log
    weights: float | None
    held: float | None
    cache: float | None
    verdict: bool | None


def class_of(log: Log) -> str:
    """The class of a log, the most special one first."""
    model = known_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    tests = {
        "SGLang": log["engine"] == "sglang",
        "AMD": str(log.get("gpu", "")).startswith("MI"),
        "hybrid": model.recurrent
        or any(isinstance(layer.cache, Compressed) for layer in model.layers),
        "images": bool(model.vision),
        "multi-head latent attention": model.latent,
        "experts": bool(model.experts_per_token),
    }
    return next((name for name, holds in tests.items() if holds), "dense")


def compared(log: Log) -> Comparison:
    """The log beside its estimate."""
    model = known_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    named = {"version": "0.26.0" if log["engine"] == "vllm" else "0.5.9", **log}
    command = command_of(named)
    sizes = command.parallelism
    assert sizes is not None, "logs have plain arguments"
    weights = held = cache = verdict = None
    if "weights" in log:
        whole = has_whole_encoders(command)
        split = Split(sizes.tensor, sizes.pipeline, whole_encoder=whole)
        weights = max(stage.weights for stage in stages(model, split)) / GIB / log["weights"] - 1
    if "tokens" in log and log.get("cache", 0) > 0:
        try:
            held = _held(log, named) / log["tokens"] - 1
        except Unclear:
            held = None
    if "needed" in log:
        held = _layout(log, named).sequence(_length(log, named)) / GIB / log["needed"] - 1
    if "gpu" in log and "version" in log:
        try:
            found = fit(command, model, accelerator_of(log))
        except Unclear:
            return Comparison(log, weights, held, None, None)
        if "tokens" in log and log.get("outcome") != "refused":
            cache = (found.tokens or 0) / log["tokens"] - 1
        elif log.get("cache", 0) > 0 and log.get("outcome") != "refused":
            cache = found.cache / GIB / log["cache"] - 1
        if "outcome" in log:
            findings = fit_findings((), (), command, model, found, 1)
            refused = any(finding.severity is Severity.ERROR for finding in findings)
            verdict = refused == (log["outcome"] == "refused")
    return Comparison(log, weights, held, cache, verdict)


def _held(log: Log, named: Log) -> float:
    """Tokens of a cache of the size that the log says."""
    length = _length(log, named)
    return _layout(log, named).requests(int(log["cache"] * GIB), length) * length


def _length(log: Log, named: Log) -> int:
    model = known_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    return _memory(log, named).length or model.longest or 0


def _layout(log: Log, named: Log) -> CacheLayout | CompressedLayout:
    """The cache of a log's model."""
    model, sizes = known_architecture(log["model"]), command_of(named).parallelism
    assert model is not None, "logs are of models of the table"
    assert sizes is not None, "logs have plain arguments"
    memory = _memory(log, named)
    return layout(model.layers, memory.cache_bits or model.bits, model.bits, sizes.tensor, memory)


def _memory(log: Log, named: Log) -> Memory:
    command, model = command_of(named), known_architecture(log["model"])
    assert model is not None, "logs are of models of the table"
    sizes = command.parallelism
    assert sizes is not None, "logs have plain arguments"
    device = ACCELERATORS[log.get("gpu", "H100")]
    return SIZED[log["engine"]].memory(command, device, model, sizes.tensor, sizes.tensor)


def text() -> str:
    """The page."""
    comparisons = [compared(log) for log in LOGS]
    pages = json.loads(PAGES.read_text(encoding="utf-8"))[1:]
    return _PAGE.format(
        classes="\n".join(_table(comparisons)),
        kept="\n".join(_kept(comparisons)),
        throughput="\n".join(_throughput()),
        engine_models=len({row["model"] for row in pages}),
        engine_rows=len(pages),
    )


_PAGE = """\
# Accuracy of memory estimates

What [the check of memory](../models.md#does-it-fit) estimates beside what vLLM and SGLang logged
when they started, or refused to. Written by `tools/capacity_accuracy.py` from
`capacity/tests/fit/startup_logs.yaml`, which has the address of each log.

{classes}

A share is estimated over logged, less 1: below 0 % the estimate is too small. Each cell has the
number of logs, the median of the size of errors, and the worst case.

- **Weights**: of one accelerator, as "Model loading took" says.
- **Tokens of a cache**: what a cache of the logged bytes holds, however it came by that size, or
  the bytes that one sequence takes.
- **Cache**: tokens, or bytes where no tokens are logged, from the arguments alone: all errors
  together.
- **Verdicts**: starts that are not refused, and refusals that are, of those that can be judged.
- A class without logs has no known accuracy. Experts on AMD's accelerators are called uncertain,
  and refused for their weights alone.
- `cloudera-qwen2-7b-quarter` and the four beside it: FlashInfer was installed beside vLLM 0.10.1,
  whose sampler then takes 0.9 GiB less. No argument says so, and a quarter of an A100 is little.
- `r9700-qwen38-two` started with 9.87 GiB of cache where 12.4 are estimated: 8,192 tokens in a
  step, encoders of images whole on each rank, and attention without a kernel of its own on RDNA.
- `sim-scout-fp8` encodes images, which its table entry leaves out.
- `vllm-51590`: a report has 9.98 GiB for the weights of gpt-oss-120b on 8 accelerators. vLLM's own
  rounding of shapes gives at most 8.58 GiB with any of its kernels, and weights and overhead
  together are right within 0.2 GiB. So the figure probably has memory outside of PyTorch in it.
- SGLang after 0.5.9 has one log here, of 0.5.12 on MI355X: its cache is what the fraction leaves of
  the free memory, of which 8.8 GiB are gone before any weight. SGLang on AMD's accelerators is
  uncertain.
- One report of SGLang 0.5.19 has 39,078 tokens for Qwen3-32B on an H100, where the default fraction
  of its sources, 0.829, leaves 17,000. A fraction of 0.9 leaves 40,000, so `--mem-fraction-static
  0.9` would explain it, and the report does not say what was set. Until a complete log says more,
  the margin is 8 %.
- CUDA graphs of experts and hybrid models: vLLM 0.21 and later measures two graphs and multiplies
  (vllm-project/vllm#45178, #50780, #51590). Reports have estimates from 0.4 to 33 GiB. What is
  kept free here is that of dense models; `VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0` makes a role
  uncertain.

## The engine's own code

`tools/engine_pages.py` runs the arithmetic of vLLM 0.32.0 for pages, groups and requests on a
processor, without weights, for {engine_models} models: experts, windows, latents, states,
indexes, and DeepSeek-V4's compressed latents, whose classes are asked themselves. Requests of a
cache of a given size are the same in all {engine_rows} cases
(`capacity/tests/fit/engine_pages.json`). It says nothing of the bytes that a start-up leaves for
the cache: activations and graphs need the accelerator.

Families whose tokens are checked in this way, or against a log, but whose start-ups are not
(Kimi-K3, MiniMax-M3, MiMo-V2-Flash, Step-3.7, Mistral-Small-4), stay uncertain. So does
DeepSeek-V4, of which one start-up is on record, with data parallel attention.

## Logs without a part in the constants

Constants are fitted to logs of vLLM before 0.18 and SGLang up to 0.5.9, and that of CUDA graphs to
three later ones. Workspaces of experts, pages and states are those of the engines' sources. These
logs had no part in either:

{kept}

## Throughput

What `size` computes from the times of aiconfigurator-core beside throughputs that
[GPUStack published](https://github.com/gpustack/gpustack/tree/47277d79f4a5bae12a2d25e9ecbed2a2177a5f2d/docs/performance-lab)
for vLLM 0.11.0, with 500 requests sent at once: input and output tokens of a second of one replica.
The times are those of another release, which the last column names. So `plan` and `diff` say
nothing of throughput: only `size` does, with its source.

{throughput}
"""


def _table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    yield "| Class | Logs | Weights | Tokens of a cache | Cache | Verdicts |"
    yield "|---|---|---|---|---|---|"
    for name in CLASSES:
        of_class = [comparison for comparison in comparisons if class_of(comparison.log) == name]
        verdicts = [each.verdict for each in of_class if each.verdict is not None]
        cells = [
            _cell([(each.log["id"], getattr(each, field)) for each in of_class])
            for field in ("weights", "held", "cache")
        ]
        right = f"{sum(verdicts)} of {len(verdicts)}" if verdicts else "none"
        yield f"| {name} | {len(of_class)} | {' | '.join(cells)} | {right} |"


def _cell(errors: Sequence[tuple[str, float | None]]) -> str:
    known = [(abs(error), error, name) for name, error in errors if error is not None]
    if not known:
        return "none"
    _, worst, name = max(known)
    return f"{len(known)}; {median(size for size, *_ in known):.1%}; {worst:+.1%} (`{name}`)"


def _kept(comparisons: Sequence[Comparison]) -> Iterator[str]:
    yield "| Log | Release | Model | Weights | Cache |"
    yield "|---|---|---|---|---|"
    for comparison in comparisons:
        if comparison.log.get("kept"):
            errors = [
                f"{error:+.1%}" if error is not None else ""
                for error in (comparison.weights, comparison.cache)
            ]
            version, model = comparison.log["version"], comparison.log["model"]
            yield f"| `{comparison.log['id']}` | {version} | {model} | {' | '.join(errors)} |"


def _throughput() -> Iterator[str]:
    rows = json.loads(THROUGHPUT.read_text(encoding="utf-8"))
    yield "| Model | GPUs | Input, output | Published | Estimated | Error | Times of |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        error = row["estimated"] / row["measured"] - 1
        yield (
            f"| {row['model']} | {row['tensor']} {row['gpu']} | {row['input']}, {row['output']} "
            f"| {row['measured']:.0f} | {row['estimated']:.0f} | {error:+.0%} | {row['times']} |"
        )


def main() -> None:
    """Writes the page."""
    TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
