"""Planning and building objects against serialising the same objects as JSON."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi import InferenceServiceArgs, plan_service, render


@dataclass(frozen=True)
class Cost:
    """What one call took.

    Attributes:
        seconds: Processor time, the least of several calls.
        bytes: Most memory that it held at once, its result included.
    """

    seconds: float
    bytes: int


def costs(args: InferenceServiceArgs, runs: int) -> tuple[Cost, Cost]:
    """Measures both sides, which take turns.

    Args:
        args: The service.
        runs: Runs of each side.

    Returns:
        The costs of planning and building, and of `json.dumps` of what was built.
    """

    def build() -> tuple[dict[str, Any], ...]:
        rendered: tuple[dict[str, Any], ...] = render(plan_service(args))
        return rendered

    objects = build()

    def serialise() -> str:
        return json.dumps(objects)

    times: dict[Callable[[], object], list[float]] = {build: [], serialise: []}
    for _ in range(runs):
        for call, taken in times.items():
            taken.append(_seconds(call))
    ours, theirs = (Cost(min(taken), _peak(call)) for call, taken in times.items())
    return ours, theirs


def _seconds(call: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    result = call()
    taken = time.process_time() - began
    del result
    return taken


def _peak(call: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        result = call()
        del result
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
