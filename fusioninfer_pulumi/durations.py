"""Durations as Kubernetes and Go write them: `90s`, `10m`, `1h30m`.

The only owner of the notation: the spec checks with it, and Pulumi's timeouts read the same text.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+")
_NUMBER_AND_UNIT = re.compile(r"([0-9.]+)([a-zµμ]+)")

#: Go counts nanoseconds in 63 bits: 292 years. Nobody waits longer.
_LIMIT = Fraction(2**63 - 1, 10**9)


def seconds(text: str) -> Fraction | None:
    """Reads a duration.

    Args:
        text: One or more numbers, each with a unit out of ns, us, ms, s, m and h.

    Returns:
        Its seconds, exactly; None when Go would not read it, or when it has a sign.
    """
    if _DURATION.fullmatch(text) is None:
        return None
    parts = _NUMBER_AND_UNIT.findall(text)
    total = sum((Fraction(_number(number)) * _UNITS[unit] for number, unit in parts), Fraction(0))
    return total if total <= _LIMIT else None


def times(text: str, factor: int) -> str:
    """A duration several times as long, in whole seconds; the same text where it is taken once."""
    length = seconds(text)
    if factor == 1 or length is None:
        return text
    return f"{math.ceil(min(length * factor, _LIMIT))}s"


def _number(text: str) -> str:
    """A number as Python's Fraction reads it: digits on both sides of the point."""
    whole, _, part = text.partition(".")
    return f"{whole or '0'}.{part or '0'}"
