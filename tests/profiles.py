"""Number of Hypothesis examples: few by default, many with the profile `long`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in every run of CI, so that only a change of the code changes the result.
if os.environ.get("CI"):
    _COMMON |= {"derandomize": True, "database": None}


def load() -> None:
    """Makes few examples the default; `pytest --hypothesis-profile=long` takes many."""
    settings.register_profile("few", max_examples=10, **_COMMON)
    settings.register_profile("long", max_examples=200, **_COMMON)
    settings.load_profile("few")


def examples(times: float) -> settings:
    """Returns a multiple of the profile's examples, for properties that need more or fewer."""
    return settings(max_examples=max(1, round(settings().max_examples * times)))
