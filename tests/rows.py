"""Run one test for all rows of a table, which is faster than one pytest parameter per row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Any], Any]:
    """Run a test for every row, and report all rows that fail.

    The arguments are those of `pytest.mark.parametrize`, which creates a test for every row. That
    is slow: each xdist worker collects and reports all tests, which takes milliseconds per test.
    """
    keys = (names,) if isinstance(names, str) else names
    cases = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # all are listed
                    failures.append((f"{case}: {type(error).__name__}: {error}", error))
            if failures:
                texts, errors = zip(*failures, strict=True)
                text = "\n\n".join((f"{len(texts)} of {len(cases)} rows fail", *texts))
                raise AssertionError(text) from errors[0]

        signature = inspect.signature(test)
        remaining = [item for name, item in signature.parameters.items() if name not in keys]
        # Pytest finds the fixtures by the signature; mypy does not know the attribute.
        run.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]
        return run

    return decorate
