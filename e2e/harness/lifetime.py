"""Context managers whose body has something that runs."""

from __future__ import annotations

from typing import TypeVar

_Kind = TypeVar("_Kind", bound="Lifetime")


class Lifetime:
    """Starts when its `with` begins, and stops when that ends."""

    def open(self) -> None:
        """Starts it; by default it runs already."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Kind) -> _Kind:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
