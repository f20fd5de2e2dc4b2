"""Random choices that are the same for a seed on every Python and every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class SeededRandom:
    """Random choices for one feature.

    Each feature has its own stream (`stream`), so a new feature does not change other choices.

    Attributes:
        features: Choices made by `option`, as `feature: name`, for the coverage count.
    """

    def __init__(self, name: str, features: set[str]) -> None:
        self._name = name
        # Python keeps the sequence of `random()` for a seed, but not of the other methods.
        self._next = Random(name).random
        self.features = features

    def stream(self, name: str) -> SeededRandom:
        """Return the stream of a feature, which depends only on the seed and the names."""
        return SeededRandom(f"{self._name}/{name}", self.features)

    def chance(self, probability: float) -> bool:
        return self._next() < probability

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, inclusive."""
        return low + int(self._next() * (high - low + 1))

    def choice(self, *options: T) -> T:
        return options[self.integer(0, len(options) - 1)]

    def subset(self, options: Iterable[T], share: float = 0.5) -> list[T]:
        """Keep each option with the probability `share`, in order."""
        return [option for option in options if self.chance(share)]

    def option(self, feature: str, options: Mapping[str, T]) -> T:
        """Choose a named option, and record the choice in `features`."""
        name = self.choice(*options)
        self.features.add(f"{feature}: {name}")
        return options[name]

    def fields(self, share: float = 0.4, **values: Any) -> dict[str, Any]:
        """Keep each field with the probability `share`; if its value is a tuple, choose an item."""
        return {
            key: self.choice(*value) if isinstance(value, tuple) else value
            for key, value in values.items()
            if self.chance(share)
        }
