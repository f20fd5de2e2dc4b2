"""Durations as Kubernetes and Go write them: `90s`, `10m`, `1h30m`."""

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
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"({_PART.pattern})+")

#: Go's largest duration: nanoseconds in 63 bits, about 292 years.
_LIMIT = Fraction(2**63 - 1, 10**9)


def parse_duration(text: str) -> Fraction | None:
    """Return a duration in seconds, or None if it has a sign or if Go cannot parse it."""
    if _DURATION.fullmatch(text) is None:
        return None
    parts = _PART.findall(text)
    total = sum((Fraction(number) * _UNITS[unit] for number, unit in parts), Fraction(0))
    return total if total <= _LIMIT else None


def multiply_duration(text: str, factor: int) -> str:
    """Multiply a duration and round it up to seconds; return it unchanged if the factor is 1."""
    seconds = parse_duration(text)
    if factor == 1 or seconds is None:
        return text
    return f"{math.ceil(min(seconds * factor, _LIMIT))}s"


def format_duration(seconds: float) -> str:
    """Return seconds as a duration such as `2h15m`, rounded up to whole seconds."""
    whole = math.ceil(seconds)
    parts = zip((whole // 3600, whole % 3600 // 60, whole % 60), "hms", strict=True)
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
