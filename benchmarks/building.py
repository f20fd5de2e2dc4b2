"""Compares planning and building objects with the serialization of these objects as JSON."""

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
    """The cost of one call.

    Attributes:
        seconds: Processor time, the minimum of several calls.
        bytes: Peak memory, including the result.
    """

    seconds: float
    bytes: int


def measure_costs(args: InferenceServiceArgs, runs: int) -> tuple[Cost, Cost]:
    """Measure building and `json.dumps` in alternation.

    Args:
        args: The service.
        runs: Runs of each.

    Returns:
        The costs of planning and building, and of `json.dumps` of the objects.
    """

    def build() -> tuple[dict[str, Any], ...]:
        rendered: tuple[dict[str, Any], ...] = render(plan_service(args))
        return rendered

    objects = build()

    def serialize() -> str:
        return json.dumps(objects)

    times: dict[Callable[[], object], list[float]] = {build: [], serialize: []}
    for _ in range(runs):
        for call, used in times.items():
            used.append(_time(call))
    library, baseline = (Cost(min(used), _measure_peak(call)) for call, used in times.items())
    return library, baseline


def _time(call: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    result = call()
    used = time.process_time() - began
    del result
    return used


def _measure_peak(call: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        result = call()
        del result
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
