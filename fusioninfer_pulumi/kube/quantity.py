"""Kubernetes resource quantities: parse, add and write them.

The official client's parser imports the whole client, and the next lightest library costs more
than the rest of the command line together; the grammar (apimachinery, resource.Quantity) is small.
The tests hold this module to the official parser.
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
_LIMIT = 64


def parse(value: str | float | Decimal) -> Decimal:
    """Reads a quantity such as `8`, `500m`, `1.5Gi` or `1e3`.

    Args:
        value: Text or number, as Kubernetes accepts both.

    Returns:
        The exact amount.

    Raises:
        ValueError: The value is no quantity.
    """
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no Kubernetes quantity")
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LIMIT else None
    if match is None:
        raise ValueError(f"{text[:_LIMIT]!r} is no Kubernetes quantity")
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > _LIMIT:
            raise ValueError(f"{text!r} is no Kubernetes quantity")
        return number.scaleb(exponent)
    if match["suffix"] is not None:
        return number * _FACTORS[match["suffix"]]
    return number


def write(amount: Decimal) -> str:
    """Writes an amount the way Kubernetes stores it, exactly.

    Whole amounts are written as integers (with a binary suffix where one fits without a rest),
    others in thousandths, rounded up as Kubernetes does.
    """
    if amount != amount.to_integral_value():
        return f"{int((amount * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
    whole = int(amount)
    for suffix, factor in reversed(_BINARY.items()):
        # 1024 accelerators stay "1024": only memory is large enough for a binary suffix.
        if suffix != "Ki" and whole and whole % int(factor) == 0:
            return f"{whole // int(factor)}{suffix}"
    return str(whole)
