"""Command lines that `check` accepts or rejects, on vLLM's parsers and configurations."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from e2e.serve.engine import RELEASES, VLLM, explain_missing, vllm
from e2e.serve.parsers import (
    CommandLine,
    ParserResults,
    list_accepted,
    list_models,
    list_rejected,
    run_parsers,
)
from fusioninfer_pulumi.presets.model_catalogue import load_catalogue

pytestmark = [pytest.mark.serve, pytest.mark.long]

UNVALIDATED = ("--port", "--lora-modules", "--mm-", "--video-pruning-rate", "--max-lora-cls-labels")
"""Arguments that vLLM validates neither in the parser nor in a text model's configuration: ports,
adapters, and limits of multimodal models and classifiers."""

COUNTS = (
    "--gpu-memory-utilization", "--max-num-batched-tokens", "--max-num-seqs",
    "--pipeline-parallel-size", "-pp", "--tensor-parallel-size", "-tp",
)  # fmt: skip
"""Arguments for which old releases accept values below 1, which cannot work."""


@dataclass(frozen=True)
class Results:
    """Command lines for a release, and its results."""

    release: str
    accepted: list[CommandLine]
    catalogue: list[CommandLine]
    rejected: list[CommandLine]
    answers: ParserResults


@pytest.fixture(scope="module", params=RELEASES)
def results(request: pytest.FixtureRequest) -> Results:
    release = request.param
    reason = explain_missing(release)
    if reason is not None:
        pytest.skip(reason)
    lines, edges = list_accepted(release), list_rejected(release)
    models = list_models(release) if release == VLLM else []
    answers = run_parsers(vllm(release), [*lines, *models, *edges])
    return Results(release, lines, models, edges, answers)


@pytest.mark.verifies("vLLM 0.11.0 and 0.32.0 accept the command lines that `check` accepts")
def test_engine_accepts_checked_command_lines(results: Results) -> None:
    assert len(results.accepted) > 40
    assert results.answers.list_rejections(results.accepted) == []


@pytest.mark.verifies("vLLM 0.32.0 accepts the arguments of every catalogue model")
def test_engine_accepts_arguments_of_catalogue(results: Results) -> None:
    if results.release != VLLM:
        pytest.skip("the catalogue's models are newer than this release")
    assert len(results.catalogue) > len(load_catalogue())
    assert results.answers.list_rejections(results.catalogue) == []


@pytest.mark.verifies("vLLM rejects the arguments and combinations that the rules reject")
def test_engine_rejects_what_rules_reject(results: Results) -> None:
    assert len(results.rejected) > 500
    accepted = [line for line in results.rejected if not results.answers.errors[line]]
    unvalidated = (*UNVALIDATED, *(() if results.release == VLLM else COUNTS))
    assert [str(line) for line in accepted if not line.words[1].startswith(unvalidated)] == []
