"""The arithmetic against what engines logged when they started, or refused to."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from capacity.tests.startup_logs import GIB, LOGS, Log, accelerator_of, command_of
from fusioninfer_capacity.fit.architecture import known_architecture
from fusioninfer_capacity.fit.engines import Unclear
from fusioninfer_capacity.fit.findings import fit_findings
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.weights import Split, stages
from fusioninfer_pulumi.findings import Severity

#: Logs of releases that are followed, on accelerators that are known, whose overhead is certain.
JUDGED = [log for log in LOGS if "gpu" in log and "version" in log]
WEIGHED = [log for log in LOGS if "weights" in log and "version" in log]


def estimated(log: Log) -> Fit | None:
    """The estimate for a log; None where it is not checked."""
    model = known_architecture(log["model"])
    assert model is not None
    try:
        found = fit(command_of(log), model, accelerator_of(log))
    except Unclear:
        return None
    return found if found.certain else None


def error_in_tokens(log: Log, found: Fit) -> float | None:
    """By what share the tokens differ from the log's, or the memory where it has none."""
    if "tokens" in log:
        assert found.tokens is not None
        return abs(found.tokens / log["tokens"] - 1)
    return abs(found.cache / (log["cache"] * GIB) - 1) if log.get("cache", 0) > 0 else None


def test_there_are_enough_logs_of_both_engines() -> None:
    assert len(LOGS) >= 30
    assert {log["engine"] for log in LOGS} == {"vllm", "sglang"}
    assert len({log["source"] for log in LOGS}) >= 15
    assert len({log["id"] for log in LOGS}) == len(LOGS)


@pytest.mark.parametrize("log", WEIGHED, ids=lambda log: str(log["id"]))
def test_weights_are_within_five_percent(log: Log) -> None:
    model = known_architecture(log["model"])
    sizes = command_of(log).parallelism
    assert model is not None
    assert sizes is not None
    heaviest = max(each.weights for each in stages(model, Split(sizes.tensor, sizes.pipeline)))
    assert heaviest / GIB == pytest.approx(log["weights"], rel=0.05)


def test_tokens_are_within_ten_percent_at_the_median_and_a_quarter_at_the_worst() -> None:
    errors = {}
    for log in JUDGED:
        if log.get("outcome") != "started":
            continue
        found = estimated(log)
        error = error_in_tokens(log, found) if found is not None else None
        if error is not None:
            errors[log["id"]] = error
    assert len(errors) >= 18
    assert median(errors.values()) < 0.02, errors
    assert max(errors.values()) < 0.25, errors


def refused(log: Log) -> bool | None:
    """Whether the check refuses it; None where it is not checked."""
    model = known_architecture(log["model"])
    found = estimated(log)
    if found is None or model is None:
        return None
    told = fit_findings((), (), command_of(log), model, found, 1)
    return any(each.severity is Severity.ERROR for each in told)


@pytest.mark.parametrize(
    "log", [log for log in JUDGED if "outcome" in log], ids=lambda log: str(log["id"])
)
def test_what_was_refused_is_refused_and_what_started_is_not(log: Log) -> None:
    verdict = refused(log)
    if verdict is None:
        pytest.skip("not checked")
    assert verdict is (log["outcome"] == "refused")


def test_few_judged_logs_are_not_checked() -> None:
    judged = [log for log in JUDGED if "outcome" in log]
    unchecked = [log["id"] for log in judged if refused(log) is None]
    assert len(judged) - len(unchecked) >= 24
    # Releases before 0.9.0, and one of a model that encodes images.
    assert all(tuple(map(int, log["version"].split("."))) < (0, 9) for log in judged
               if log["id"] in unchecked and "Mistral-Small" not in log["model"])  # fmt: skip


def test_sglang_takes_what_its_fraction_leaves() -> None:
    """Figures of SGLang itself: free memory, that of the weights, and what it gave the cache."""
    log = next(log for log in LOGS if log["id"] == "xorbits-3481")
    model = known_architecture(log["model"])
    assert model is not None
    kept = sum(layer.cache.elements(1) * 2 for layer in model.layers if layer.cache is not None)
    left = log["free"] * 0.88 - log["weights"]
    assert left == pytest.approx(log["cache"], rel=0.01)
    assert int(left * GIB / kept) == pytest.approx(log["tokens"], rel=0.01)


def test_a_latent_takes_what_sglang_logged() -> None:
    log = next(log for log in LOGS if log["id"] == "zdszero")
    model = known_architecture(log["model"])
    assert model is not None
    kept = sum(layer.cache.elements(8) * 2 for layer in model.layers if layer.cache is not None)
    assert kept == log["token"]
    assert int(log["cache"] * GIB / kept) == pytest.approx(log["tokens"], rel=0.001)


def test_an_fp8_cache_takes_half_of_what_vllm_logged_for_it() -> None:
    log = next(log for log in LOGS if log["id"] == "vllm-25350")
    model = known_architecture(log["model"])
    assert model is not None
    on = replace(accelerator_of({"gpu": "RTX-A6000"}), name="48 GB")
    found = fit(command_of(log), model, on)
    assert found.tokens is not None
    assert found.cache / found.tokens == pytest.approx(log["cache"] * GIB / log["tokens"], rel=0.01)
