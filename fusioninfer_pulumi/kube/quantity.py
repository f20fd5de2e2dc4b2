"""Parses and writes Kubernetes resource quantities (apimachinery, resource.Quantity).

The official client's parser would import the whole client. Tests compare the two.
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
}
_FACTORS = {**_BINARY, **_DECIMAL}
# Limits that keep exact arithmetic on quantities fast.
_MAX_LENGTH = 64
_MAX_EXPONENT = 64


def parse(value: str | float | Decimal) -> Decimal:
    """Return the exact amount of a quantity such as `8`, `500m`, `1.5Gi` or `1e3`.

    Raises:
        ValueError: The value is not a quantity.
    """
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a Kubernetes quantity")
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is not a Kubernetes quantity")
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > _MAX_EXPONENT:
            raise ValueError(f"{text!r} is not a Kubernetes quantity")
        return number.scaleb(exponent)
    if match["suffix"] is not None:
        return number * _FACTORS[match["suffix"]]
    return number


def is_oversized(value: str | float) -> bool:
    """Return whether a value looks like a quantity but is too long or too large to be one."""
    try:
        parse(value)
    except ValueError:
        # Only the start is matched, because the text may be huge.
        return _QUANTITY.fullmatch(str(value)[: 10 * _MAX_LENGTH]) is not None
    return False


def write(amount: Decimal) -> str:
    """Write an amount as a quantity.

    An integer gets the largest binary suffix, Mi or larger, that divides it, or no suffix. A
    fraction is rounded up to thousandths (`m`).
    """
    if amount != amount.to_integral_value():
        return f"{int((amount * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
    whole = int(amount)
    for suffix, factor in reversed(_BINARY.items()):
        # 1024 accelerators stay "1024": only memory is large enough for a binary suffix.
        if suffix != "Ki" and whole and whole % int(factor) == 0:
            return f"{whole // int(factor)}{suffix}"
    return str(whole)
