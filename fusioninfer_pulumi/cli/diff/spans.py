"""Lists of numbered names, written short: `decode-0..decode-19`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# Two names are as short as a range, and plainer.
_SHORTEST_RUN = 3
# Longer ones count nothing, and reading huge ones takes long.
_LONGEST_NUMBER = 9


def compressed(names: Iterable[str]) -> str:
    """Joins names with commas, consecutive ones as a range."""
    return ", ".join(_ranges(names))


def in_order(names: Sequence[str]) -> str:
    """Joins names in the order given, a whole run that counts down as `decode-19..decode-0`."""
    upwards = compressed(reversed(names))
    first, dots, last = upwards.partition("..")
    return f"{last}..{first}" if dots and "," not in upwards else ", ".join(names)


def size(names: Iterable[str]) -> int:
    """Counts names, of which some may be ranges already."""
    return sum(_size(name) for name in names)


def _size(name: str) -> int:
    first, dots, last = name.partition("..")
    numbers = [part.rpartition("-")[2] for part in (first, last)]
    if not dots or not all(number.isdecimal() for number in numbers):
        return 1
    return int(numbers[1]) - int(numbers[0]) + 1


def _ranges(names: Iterable[str]) -> Iterator[str]:
    run: list[str] = []
    for name in names:
        if run and _follows(run[-1], name):
            run.append(name)
        else:
            yield from _written(run)
            run = [name]
    yield from _written(run)


def _follows(one: str, other: str) -> bool:
    prefix, _, number = one.rpartition("-")
    if not number.isdecimal() or len(number) > _LONGEST_NUMBER:
        return False
    return other == f"{prefix}-{int(number) + 1}"


def _written(run: list[str]) -> list[str]:
    return run if len(run) < _SHORTEST_RUN else [f"{run[0]}..{run[-1]}"]
