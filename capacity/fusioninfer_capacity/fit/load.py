"""Computes the load of a replica, and the replicas for a total load, from the times of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class StepTimes(Protocol):
    """Durations of one replica's steps, in seconds and through all pipeline stages."""

    @property
    def stages(self) -> int:
        """Number of pipeline stages, each of which runs a different step at a time."""
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
        ttft: Maximum seconds until the first token, or None for no limit.
        tpot: Maximum seconds for each further token, or None for no limit.
    """

    rate: float
    input: int
    output: int
    ttft: float | None = None
    tpot: float | None = None


@dataclass(frozen=True)
class ReplicaLoad:
    """The maximum load of one replica: `rate` requests per second.

    Attributes:
        sequences: Sequences that it decodes concurrently.
        ttft: Minimum and maximum seconds until the first token.
        tpot: Minimum and maximum seconds for each further token.
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


def estimate_combined(times: StepTimes, load: Load, max_requests: float) -> ReplicaLoad | None:
    """Return the maximum load of a replica with both phases; None if one request is too slow.

    Minimum latencies are the steps' times alone. In the maximum, each token also waits for the
    prompts of other requests, and each prompt for earlier prompts. `max_requests` is the maximum
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
        busy = rate * stage  # fraction of time in which a stage processes prompts
        ttft = prefill + stage * busy / (2 * (1 - busy)) + step
        tpot = step / (1 - busy)
        is_late = load.ttft is not None and ttft > load.ttft
        if is_late or (load.tpot is not None and tpot > load.tpot):
            break
        best = ReplicaLoad(rate, sequences, (prefill, ttft), (step, tpot))
    return best


def _estimate_step(times: StepTimes, load: Load, sequences: int) -> float:
    """Return the time of one token of each sequence; the stages divide the sequences."""
    return times.decode(-(-sequences // times.stages), load.input + load.output // 2)


#: Maximum fraction of time in prompts: near 1 the queue of prompts grows without bound.
_MAX_BUSY = 0.9


def estimate_prefill(times: StepTimes, load: Load) -> ReplicaLoad | None:
    """Return the maximum load of one prefiller; None if one prompt takes longer than `ttft`."""
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
    return ReplicaLoad(busy / stage, 1, (prefill, latest), (0.0, 0.0))


def estimate_decode(times: StepTimes, load: Load, max_requests: float) -> ReplicaLoad | None:
    """Return the maximum load of one decoder; None if one token takes longer than `tpot`."""
    best = None
    for sequences in _SEQUENCES:
        if sequences > max_requests:
            break
        step = _estimate_step(times, load, sequences)
        if load.tpot is not None and step > load.tpot:
            break
        rate = sequences / (load.output * step)
        best = ReplicaLoad(rate, sequences, (0.0, 0.0), (step, step))
    return best
