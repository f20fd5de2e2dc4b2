"""Replicas for a load, compared with trying all numbers of sequences."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fusioninfer_capacity.fit.load import Load, estimate_combined, estimate_decode, estimate_prefill


@dataclass(frozen=True)
class Steps:
    """Steps that take a fixed time, plus a time for each token and sequence."""

    per_prompt_token: float = 0.00005
    step: float = 0.01
    per_sequence: float = 0.0002
    stages: int = 1

    def prefill(self, tokens: int) -> float:
        return self.per_prompt_token * tokens

    def decode(self, sequences: int, tokens: int) -> float:
        return self.step + self.per_sequence * sequences + 1e-9 * sequences * tokens


LOAD = Load(5, 2000, 300, 2.0, 0.04)


def test_load_of_replica_meets_latency_limits() -> None:
    result = estimate_combined(Steps(), LOAD, 1000)
    assert result is not None
    assert result.ttft[1] <= 2.0
    assert result.tpot[1] <= 0.04
    # Little's law: the sequences in progress are the rate times the time to decode one.
    assert result.rate * LOAD.output * result.tpot[1] == pytest.approx(result.sequences)
    assert result.count_replicas(5) == -(-5 // result.rate)


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_load_of_replica_fits_its_cache(limit: int) -> None:
    result = estimate_combined(Steps(), LOAD, limit)
    assert result is not None
    assert result.sequences <= limit


def test_best_number_of_sequences_is_chosen() -> None:
    times = Steps()
    best = 0.0
    prefill = times.prefill(LOAD.input)
    for sequences in range(1, 257):
        step = times.decode(sequences, 2150)
        rate = sequences / (LOAD.output * step + sequences * prefill)
        busy = rate * prefill
        ttft = prefill * (1 + busy / (2 * (1 - busy))) + step
        if ttft <= 2.0 and step / (1 - busy) <= 0.04:
            best = max(best, rate)
    result = estimate_combined(times, LOAD, 256)
    assert result is not None
    # The numbers of sequences that are tried differ by up to a third.
    assert 0.75 * best <= result.rate <= best


def test_unreachable_latency_has_no_proposal() -> None:
    assert estimate_combined(Steps(), Load(1, 2000, 300, ttft=0.05), 100) is None
    assert estimate_combined(Steps(), Load(1, 2000, 300, tpot=0.001), 100) is None
    assert estimate_prefill(Steps(), Load(1, 2000, 300, ttft=0.05)) is None
    assert estimate_decode(Steps(), Load(1, 2000, 300, tpot=0.001), 100) is None


def test_separate_prefill_and_decode_do_not_delay_each_other() -> None:
    combined, decode = estimate_combined(Steps(), LOAD, 256), estimate_decode(Steps(), LOAD, 256)
    prefill = estimate_prefill(Steps(), LOAD)
    assert combined is not None
    assert decode is not None
    assert prefill is not None
    assert decode.rate > combined.rate
    assert prefill.ttft[1] <= 2.0
    assert prefill.rate * Steps().prefill(2000) <= 0.9


def test_stages_run_concurrently() -> None:
    """Two stages have twice the rate of one if their cache holds twice the sequences."""
    for rates in (
        [estimate_combined(Steps(stages=stages), LOAD, 64 * stages) for stages in (1, 2)],
        [estimate_decode(Steps(stages=stages), LOAD, 64 * stages) for stages in (1, 2)],
        [estimate_prefill(Steps(stages=stages), Load(5, 2000, 300)) for stages in (1, 2)],
    ):
        one, two = rates
        assert one is not None
        assert two is not None
        assert two.rate == pytest.approx(2 * one.rate)
        # A request passes through both stages.
        assert two.ttft[0] == one.ttft[0]
        assert two.tpot == pytest.approx(one.tpot)
