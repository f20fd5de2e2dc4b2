"""Run most Hypothesis examples and most rows of long tables only in `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# CI runs the same examples every time, so that only code changes can change the result.
if os.environ.get("CI"):
    _COMMON |= {"derandomize": True, "database": None}


def load() -> None:
    """Run few examples by default, and many with `pytest --hypothesis-profile=long`."""
    settings.register_profile("few", max_examples=3, **_COMMON)
    settings.register_profile("long", max_examples=200, **_COMMON)
    settings.load_profile("few")


def examples(times: float) -> settings:
    """Return a multiple of the profile's examples, for properties that need more or fewer."""
    return settings(max_examples=max(1, round(settings().max_examples * times)))


def slow_unless(is_fast: Callable[[Any], bool], rows: Iterable[Any]) -> list[Any]:
    """Return a test's parameters; rows that `is_fast` does not select are marked slow."""
    return [
        row
        if is_fast(row)
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
        for row in rows
    ]
