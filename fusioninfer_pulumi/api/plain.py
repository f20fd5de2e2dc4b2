"""Plain values: what YAML and JSON can hold, and how deep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.problem import Problem
from fusioninfer_pulumi.findings import Location, shown
from fusioninfer_pulumi.kube.outputs import is_output

MAX_DEPTH = 100
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


def plain_problems(at: Location, value: Any, depth: int = 0) -> Iterator[Problem]:
    """Checks a value and everything in it; Outputs stand for values that are plain later.

    Args:
        at: Where it stands.
        value: The value.
        depth: Levels above it.

    Yields:
        Every problem.
    """
    if depth > MAX_DEPTH:
        yield Problem(at, TOO_DEEP)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from plain_problems((*at, key), item, depth + 1)
            else:
                yield Problem(at, f"keys must be strings, got {shown(key)}; quote it in YAML")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from plain_problems((*at, index), item, depth + 1)
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            yield Problem(at, "holds half of a surrogate pair, which is no text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(at, f"must be a finite number, got {value}")
    elif not isinstance(value, (bool, int, type(None))) and not is_output(value):
        yield Problem(at, f"must be plain data, got {shown(value)}")
