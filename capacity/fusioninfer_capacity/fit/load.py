"""Computes the replicas for a load from the times of an engine's steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class StepTimes(Protocol):
    """Seconds that the steps of one replica take, through all of its pipeline stages."""

    @property
    def stages(self) -> int:
        """Pipeline stages, each of which runs another step at a time."""
        ...

    def prefill(self, tokens: int) -> float:
        """Return the time of a prompt of `tokens` tokens."""
        ...

    def decode(self, sequences: int, tokens: int) -> float:
        """Return the time of a step that generates a token for each sequence."""
        ...


@dataclass(frozen=True)
class Load:
    """Requests, and how long they may take.

    Attributes:
        ttft: Seconds until the first token at most, None for any.
        tpot: Seconds for each further token at most, None for any.
    """

    rate: float
    input: int
    output: int
    ttft: float | None = None
    tpot: float | None = None


@dataclass(frozen=True)
class Served:
    """What one replica serves.

    Attributes:
        sequences: Sequences that it decodes at a time.
        ttft: Seconds until the first token, at least and at most.
        tpot: Seconds for each further token, at least and at most.
    """

    rate: float
    sequences: int
    ttft: tuple[float, float]
    tpot: tuple[float, float]

    def replicas(self, rate: float) -> int:
        """Return replicas for a rate of all."""
        return max(1, math.ceil(rate / self.rate - 1e-9))


#: Numbers of concurrent sequences that are tried.
_SEQUENCES: Sequence[int] = (
    1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
)  # fmt: skip


def served(times: StepTimes, load: Load, most: float) -> Served | None:
    """Return the maximum load of one replica within the times; None if not even one request.

    The lower bounds are the steps' own times. The upper bounds hold prefill against decode: each
    token waits for prompts of other requests, and each prompt for those before it. `most` is the
    number of requests that it takes at a time. Stages share them: each has a step of its own.
    """
    best = None
    prefill = times.prefill(load.input)
    stage = prefill / times.stages
    for sequences in _SEQUENCES:
        if sequences > most:
            break
        step = _step(times, load, sequences)
        rate = sequences / (load.output * step + sequences * stage)
        busy = rate * stage
        ttft = prefill + stage * busy / (2 * (1 - busy)) + step
        tpot = step / (1 - busy)
        late = load.ttft is not None and ttft > load.ttft
        if late or (load.tpot is not None and tpot > load.tpot):
            break
        best = Served(rate, sequences, (prefill, ttft), (step, tpot))
    return best


def _step(times: StepTimes, load: Load, sequences: int) -> float:
    """Return the time of a token per sequence, with the sequences divided among stages."""
    return times.decode(-(-sequences // times.stages), load.input + load.output // 2)


#: Largest share of busy time: near 1 the queue before prefill grows without bound.
_BUSIEST = 0.9


def prefilled(times: StepTimes, load: Load) -> Served | None:
    """Return the most that one prefiller serves within the time to the first token."""
    prefill = times.prefill(load.input)
    stage = prefill / times.stages
    busy = _BUSIEST
    if load.ttft is not None:
        if prefill > load.ttft:
            return None
        # ttft = prefill + stage busy / (2 (1 - busy)), the wait in a queue with even work.
        spare = 2 * (load.ttft - prefill) / stage
        busy = min(_BUSIEST, spare / (1 + spare))
    if busy <= 0:
        return None
    latest = prefill + stage * busy / (2 * (1 - busy))
    return Served(busy / stage, 1, (prefill, latest), (0.0, 0.0))


def decoded(times: StepTimes, load: Load, most: float) -> Served | None:
    """Return the most that one decoder serves within the time for each token."""
    best = None
    for sequences in _SEQUENCES:
        if sequences > most:
            break
        step = _step(times, load, sequences)
        if load.tpot is not None and step > load.tpot:
            break
        rate = sequences / (load.output * step)
        best = Served(rate, sequences, (0.0, 0.0), (step, step))
    return best
