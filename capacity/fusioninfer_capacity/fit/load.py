"""Computes the replicas for a load from the times of an engine's steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class StepTimes(Protocol):
    """Durations in seconds of one replica's steps, through all of its pipeline stages."""

    @property
    def stages(self) -> int:
        """Pipeline stages, which run different steps concurrently."""
        ...

    def prefill(self, tokens: int) -> float:
        """Return the time of a prompt of `tokens` tokens."""
        ...

    def decode(self, sequences: int, tokens: int) -> float:
        """Return the time of a step that generates a token for each sequence."""
        ...


@dataclass(frozen=True)
class Load:
    """Requests of `input` and `output` tokens, `rate` per second, and their maximum latencies.

    Attributes:
        ttft: Maximum seconds until the first token, None without a limit.
        tpot: Maximum seconds for each further token, None without a limit.
    """

    rate: float
    input: int
    output: int
    ttft: float | None = None
    tpot: float | None = None


@dataclass(frozen=True)
class Served:
    """The load of one replica: `rate` requests per second.

    Attributes:
        sequences: Sequences that it decodes concurrently.
        ttft: Seconds until the first token, at least and at most.
        tpot: Seconds for each further token, at least and at most.
    """

    rate: float
    sequences: int
    ttft: tuple[float, float]
    tpot: tuple[float, float]

    def count_replicas(self, rate: float) -> int:
        """Return the number of replicas for a total rate."""
        return max(1, math.ceil(rate / self.rate - 1e-9))


#: Numbers of concurrent sequences to try.
_SEQUENCES: Sequence[int] = (
    1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
)  # fmt: skip


def estimate_combined(times: StepTimes, load: Load, max_requests: float) -> Served | None:
    """Return the maximum load of one replica; None if one request exceeds the latencies.

    The lower bounds are the steps' times alone. In the upper bounds each token also waits for
    prompts of other requests, and each prompt for earlier ones. `max_requests` is the maximum
    number of concurrent requests, which the pipeline stages share.
    """
    best = None
    prefill = times.prefill(load.input)
    stage = prefill / times.stages
    for sequences in _SEQUENCES:
        if sequences > max_requests:
            break
        step = _estimate_step(times, load, sequences)
        rate = sequences / (load.output * step + sequences * stage)
        busy = rate * stage
        ttft = prefill + stage * busy / (2 * (1 - busy)) + step
        tpot = step / (1 - busy)
        is_late = load.ttft is not None and ttft > load.ttft
        if is_late or (load.tpot is not None and tpot > load.tpot):
            break
        best = Served(rate, sequences, (prefill, ttft), (step, tpot))
    return best


def _estimate_step(times: StepTimes, load: Load, sequences: int) -> float:
    """Return the time of one token for all sequences, which are divided among the stages."""
    return times.decode(-(-sequences // times.stages), load.input + load.output // 2)


#: Maximum fraction of busy time: near 1 the queue of prompts grows without bound.
_MAX_BUSY = 0.9


def estimate_prefill(times: StepTimes, load: Load) -> Served | None:
    """Return the maximum load of one prefiller within `ttft`; None if one prompt takes longer."""
    prefill = times.prefill(load.input)
    stage = prefill / times.stages
    busy = _MAX_BUSY
    if load.ttft is not None:
        if prefill > load.ttft:
            return None
        # ttft = prefill + stage busy / (2 (1 - busy)), which is the wait in an M/D/1 queue.
        slack = 2 * (load.ttft - prefill) / stage
        busy = min(_MAX_BUSY, slack / (1 + slack))
    if busy <= 0:
        return None
    latest = prefill + stage * busy / (2 * (1 - busy))
    return Served(busy / stage, 1, (prefill, latest), (0.0, 0.0))


def estimate_decode(times: StepTimes, load: Load, max_requests: float) -> Served | None:
    """Return the maximum load of one decoder within `tpot`; None if one request exceeds it."""
    best = None
    for sequences in _SEQUENCES:
        if sequences > max_requests:
            break
        step = _estimate_step(times, load, sequences)
        if load.tpot is not None and step > load.tpot:
            break
        rate = sequences / (load.output * step)
        best = Served(rate, sequences, (0.0, 0.0), (step, step))
    return best
