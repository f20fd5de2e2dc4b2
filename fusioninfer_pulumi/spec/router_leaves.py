"""Which values of a router role may be Outputs: leaves that nothing here reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.findings import LIFT, Location
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.plain import plain_problems
from fusioninfer_pulumi.spec.problem import Problem


def leaf_problems(at: Location, value: Any, outputs: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Checks that a passed-through value is plain, apart from some leaves.

    Args:
        at: Where it stands.
        value: The value.
        outputs: Keys whose value (or whose mapping's values) may be Outputs.

    Yields:
        Every problem.
    """
    yield from plain_problems(at, value)
    yield from _outputs(at, value, outputs)


def _outputs(at: Location, value: Any, allowed: tuple[str, ...]) -> Iterator[Problem]:
    if is_output(value):
        yield Problem(at, LIFT, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in allowed:
                yield from _outputs((*at, str(key)), item, allowed)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _outputs((*at, index), item, allowed)
