"""A problem that a rule of the spec found, before it is written out for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """What is wrong at one place of a spec.

    Attributes:
        location: Keys and list indexes from the spec's root, in camelCase.
        message: What is wrong and what is allowed.
        value: The offending value.
    """

    location: tuple[str | int, ...]
    message: str
    value: Any = None
