"""Random choices that are the same for a seed on every Python and every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices. Each feature has a stream of its own (`of`), so that a new feature does
    not change what the others draw.

    Attributes:
        features: Names of the options that were chosen by `option`, for the coverage count.
    """

    def __init__(self, name: str, features: set[str]) -> None:
        self._name = name
        # Only `random()`: Python keeps its sequence for a seed, not that of the other methods.
        self._next = Random(name).random
        self.features = features

    def of(self, name: str) -> Draw:
        """Return the stream of a feature."""
        return Draw(f"{self._name}/{name}", self.features)

    def chance(self, share: float) -> bool:
        return self._next() < share

    def whole(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def one(self, *options: T) -> T:
        return options[self.whole(0, len(options) - 1)]

    def some(self, options: Iterable[T], share: float = 0.5) -> list[T]:
        """Choose each option with the probability `share`, in their order."""
        return [option for option in options if self.chance(share)]

    def option(self, feature: str, options: Mapping[str, T]) -> T:
        """Choose a named option, and record it in `features` as `feature: name`."""
        name = self.one(*options)
        self.features.add(f"{feature}: {name}")
        return options[name]

    def fields(self, share: float = 0.4, **values: Any) -> dict[str, Any]:
        """Keep each field with the probability `share`; choose one value of a tuple."""
        return {
            key: self.one(*value) if isinstance(value, tuple) else value
            for key, value in values.items()
            if self.chance(share)
        }
