"""Copies of documents with one replaced value, as after a typo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]

#: Values of all types that few fields accept.
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 7, 10**40, 1.5, float("inf"), "", " ", "x", "x y", "ü", "--port", "100%",
    "a\n::error::b", "\x1b[31m", "9" * 400, [], [None], ["a"], [{}], [[]], [{"name": None}],
    [{"name": "x"}, {"name": "x"}], {}, {"a": 1}, {"a": None}, {"name": {}}, {"name": [1]},
)  # fmt: skip


def locations(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the location of every value in a structure."""
    inner: Sequence[Any] = ()
    if isinstance(value, dict):
        inner = tuple(value)
    elif isinstance(value, list):
        inner = range(len(value))
    for part in inner:
        yield (*at, part)
        yield from locations(value[part], (*at, part))


def replace_value(value: Any, at: Path, to: Any) -> Any:
    """Return a copy with another value at one location."""
    if not at:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replace_value(value[at[0]], at[1:], to)
    return copy


def mutants(value: Any, within: Path = ()) -> st.SearchStrategy[Any]:
    """Return copies with one value from JUNK.

    Args:
        value: Structure to copy.
        within: Location below which a value is replaced.
    """
    part = value
    for key in within:
        part = part[key]
    paths = [(*within, *location) for location in locations(part)]
    return st.builds(
        lambda at, to: replace_value(value, at, to), st.sampled_from(paths), st.sampled_from(JUNK)
    )
