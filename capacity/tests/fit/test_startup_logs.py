"""Memory estimates, compared with logs of engines that started or failed to."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from capacity.tests.startup_logs import GIB, LOGS, Log, accelerator_of, command_of
from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import find_architecture
from fusioninfer_capacity.fit.cache import make_cache_layout
from fusioninfer_capacity.fit.engines import SIZED_ENGINES, UnknownMemoryError
from fusioninfer_capacity.fit.findings import check_fit
from fusioninfer_capacity.fit.memory import Fit, fit, has_whole_encoders
from fusioninfer_capacity.fit.weights import Split, split_stages
from fusioninfer_pulumi.findings import Severity

#: Logs that name the accelerator and the release, so that the memory can be estimated.
ESTIMATED = [log for log in LOGS if "gpu" in log and "version" in log]
#: Logs with the cache of a model that keeps states, with the size of a sequence, with weights.
WITH_STATES = [log for log in LOGS if log["id"].startswith(("talos", "club", "r9700", "inferencex"))
         and "cache" in log]  # fmt: skip
WITH_SEQUENCE_SIZE = [log for log in LOGS if "needed" in log]
WITH_WEIGHTS = [log for log in LOGS if "weights" in log]


def estimate_log(log: Log) -> Fit | None:
    """Return the estimate for a log; None if it is unknown or uncertain."""
    model = find_architecture(log["model"])
    assert model is not None
    try:
        result = fit(command_of(log), model, accelerator_of(log))
    except UnknownMemoryError:
        return None
    return result if result.certain else None


def error_in_tokens(log: Log, estimate: Fit) -> float | None:
    """Return the relative error of the tokens, or of the cache's bytes if the log has no tokens."""
    if "tokens" in log:
        assert estimate.tokens is not None
        return abs(estimate.tokens / log["tokens"] - 1)
    return abs(estimate.cache / (log["cache"] * GIB) - 1) if log.get("cache", 0) > 0 else None


def test_there_are_enough_logs_of_both_engines() -> None:
    assert len(LOGS) >= 30
    assert {log["engine"] for log in LOGS} == {"vllm", "sglang"}
    assert len({log["source"] for log in LOGS}) >= 15
    assert len({log["id"] for log in LOGS}) == len(LOGS)


@pytest.mark.parametrize("log", WITH_WEIGHTS, ids=lambda log: str(log["id"]))
def test_weights_are_within_five_percent(log: Log) -> None:
    model, command = find_architecture(log["model"]), command_of({"version": "0.30.0", **log})
    sizes = command.parallelism
    assert model is not None
    assert sizes is not None
    whole = has_whole_encoders(command)
    split = Split(sizes.tensor, sizes.pipeline, whole_encoder=whole)
    heaviest = max(stage.weights for stage in split_stages(model, split))
    # `padded`: the logged figure probably includes more than the weights.
    allowed = 0.15 if log.get("padded") else 0.05
    assert heaviest / GIB == pytest.approx(log["weights"], rel=allowed)


def test_tokens_are_within_ten_percent_at_the_median_and_a_quarter_at_the_worst() -> None:
    errors = {}
    for log in ESTIMATED:
        if log.get("outcome") != "started":
            continue
        result = estimate_log(log)
        error = error_in_tokens(log, result) if result is not None else None
        if error is not None:
            errors[log["id"]] = error
    assert len(errors) >= 18
    assert median(errors.values()) < 0.02, errors
    assert max(errors.values()) < 0.25, errors


def is_rejected(log: Log) -> bool | None:
    """Return whether the check rejects the logged model; None if it is not checked."""
    model = find_architecture(log["model"])
    result = estimate_log(log)
    if result is None or model is None:
        return None
    findings = check_fit((), (), command_of(log), model, result, 1)
    return any(item.severity is Severity.ERROR for item in findings)


@pytest.mark.parametrize(
    "log", [log for log in ESTIMATED if "outcome" in log], ids=lambda log: str(log["id"])
)
def test_logged_failures_are_rejected_and_startups_accepted(log: Log) -> None:
    verdict = is_rejected(log)
    if verdict is None:
        pytest.skip("not checked")
    assert verdict is (log["outcome"] == "refused")


def test_few_logs_are_not_checked() -> None:
    with_outcome = [log for log in ESTIMATED if "outcome" in log]
    unchecked = [log["id"] for log in with_outcome if is_rejected(log) is None]
    assert len(with_outcome) - len(unchecked) >= 24
    old = {log["id"] for log in with_outcome if tuple(map(int, log["version"].split("."))) < (0, 9)}
    uncertain = {log["id"] for log in with_outcome
                 if log["gpu"].startswith("MI") or "DeepSeek-V4" in log["model"]}  # fmt: skip
    assert old | uncertain >= set(unchecked)


def test_sglang_uses_its_memory_fraction() -> None:
    log = next(log for log in LOGS if log["id"] == "xorbits-3481")
    model = find_architecture(log["model"])
    assert model is not None
    bytes_per_token = sum(layer.cache.count_bytes(1, 16) for layer in model.layers)
    remaining = log["free"] * 0.88 - log["weights"]
    assert remaining == pytest.approx(log["cache"], rel=0.01)
    assert int(remaining * GIB / bytes_per_token) == pytest.approx(log["tokens"], rel=0.01)


def test_latent_size_matches_sglang_log() -> None:
    log = next(log for log in LOGS if log["id"] == "zdszero")
    model = find_architecture(log["model"])
    assert model is not None
    bytes_per_token = sum(layer.cache.count_bytes(8, 16) for layer in model.layers)
    assert bytes_per_token == log["token"]
    assert int(log["cache"] * GIB / bytes_per_token) == pytest.approx(log["tokens"], rel=0.001)


def test_amd_memory_fraction_matches_sglang_log() -> None:
    """On AMD the 8-bit latents have no scales, but the keys of the indexer have."""
    log = next(log for log in LOGS if log["id"] == "jacob0226-glm51-mi355x")
    model = find_architecture(log["model"])
    assert model is not None
    assert 79.62 - log["free"] * (1 - 0.85) == pytest.approx(log["cache"], abs=0.02)
    result = {}
    for gpu in ("MI355X", "H200"):
        command = command_of({"version": "0.5.12", **log})
        memory = SIZED_ENGINES["sglang"].memory(command, ACCELERATORS[gpu], model, 2, 2)
        assert (memory.doubt is None) is (gpu == "H200")
        layout = make_cache_layout(model.layers, 8, 16, 2, memory)
        result[gpu] = layout.count_requests(int(log["cache"] * GIB), 64) * 64
    assert result["MI355X"] == pytest.approx(log["tokens"], rel=0.001)
    assert result["H200"] < 0.91 * log["tokens"]
    assert memory_of_amd(log) == pytest.approx(0.85 * log["free"], rel=0.001)


def memory_of_amd(log: Log) -> float:
    """Return the GiB that SGLang uses for weights and cache on AMD."""
    model = find_architecture(log["model"])
    assert model is not None
    command = command_of({"version": "0.5.12", **log})
    return SIZED_ENGINES["sglang"].memory(command, ACCELERATORS["MI355X"], model, 2, 2).usable / GIB


def test_fp8_cache_is_half_of_vllm_log() -> None:
    log = next(log for log in LOGS if log["id"] == "vllm-25350")
    model = find_architecture(log["model"])
    assert model is not None
    device = replace(accelerator_of({"gpu": "RTX-A6000"}), name="48 GB")
    result = fit(command_of(log), model, device)
    assert result.tokens is not None
    assert result.cache / result.tokens == pytest.approx(
        log["cache"] * GIB / log["tokens"], rel=0.01
    )


@pytest.mark.parametrize("log", WITH_STATES, ids=lambda log: str(log["id"]))
def test_state_pages_match_vllm_log(log: Log) -> None:
    """Pages, groups and the two states of each sequence are the same as in the engine."""
    command = command_of({"version": "0.26.0", **log})
    model = find_architecture(log["model"])
    sizes = command.parallelism
    assert model is not None
    assert sizes is not None
    memory = SIZED_ENGINES["vllm"].memory(command, ACCELERATORS["RTX-5090"], model, sizes.tensor, 1)
    layout = make_cache_layout(model.layers, 8, 16, sizes.tensor, memory)
    length = memory.length or model.longest or 0
    # The log rounds GiB to two digits, so several cache sizes are possible.
    sizes_of_cache = [log["cache"] + hundredth / 1000 for hundredth in range(-5, 6)]
    requests = [layout.count_requests(int(size * GIB), length) for size in sizes_of_cache]
    assert any(int(request * length) == log["tokens"] for request in requests)


@pytest.mark.parametrize("log", WITH_SEQUENCE_SIZE, ids=lambda log: str(log["id"]))
def test_sequence_size_matches_vllm_log(log: Log) -> None:
    command = command_of(log)
    model, sizes = find_architecture(log["model"]), command.parallelism
    assert model is not None
    assert sizes is not None
    device = ACCELERATORS["H200"]
    memory = SIZED_ENGINES["vllm"].memory(command, device, model, sizes.tensor, sizes.tensor)
    layout = make_cache_layout(model.layers, memory.cache_bits or 16, 16, sizes.tensor, memory)
    length = memory.length or model.longest or 0
    assert round(layout.measure_sequence(length) / GIB, 2) == log["needed"]


def test_experts_process_whole_step_since_0_18() -> None:
    """A step of 65,536 tokens leaves a cache of 4.15 GiB on an H100."""
    words = ["--tensor-parallel-size", "4", "--max-num-batched-tokens", "65536"]
    model = find_architecture("Qwen/Qwen3-235B-A22B-FP8")
    assert model is not None
    caches = {}
    for version in ("0.17.1", "0.20.0"):
        log = {"engine": "vllm", "model": "m", "version": version, "arguments": words}
        result = fit(command_of(log), model, ACCELERATORS["H100"])
        caches[version] = result.cache / GIB
        assert result.certain is (version == "0.17.1")
    assert caches["0.17.1"] > caches["0.20.0"] + 4
    assert caches["0.20.0"] == pytest.approx(4.15, abs=0.5)


def test_graphs_are_counted_if_model_runner_counts_them() -> None:
    model = find_architecture("Qwen/Qwen3-32B")
    assert model is not None
    overheads = {}
    for version in ("0.20.0", "0.24.0", "0.28.0", "0.29.0"):
        log = {"engine": "vllm", "model": "m", "version": version, "arguments": []}
        overheads[version] = fit(command_of(log), model, ACCELERATORS["H100"]).overhead / GIB
    assert overheads["0.24.0"] - overheads["0.20.0"] == pytest.approx(1.06, abs=0.01)
    # The sampler of Model Runner V2 needs fewer tensors; it reserves graph memory since 0.29.
    assert overheads["0.28.0"] < overheads["0.20.0"] - 1
    assert overheads["0.29.0"] - overheads["0.28.0"] == pytest.approx(1.06, abs=0.01)
