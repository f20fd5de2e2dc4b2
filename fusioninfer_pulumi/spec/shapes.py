"""Shapes that parts of a pod have to have, and what is wrong where they have not.

A shape looks at one value and yields every problem in it. Nothing is wrong with null, which the
API server reads as a field that is not given, but where a field is required.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import LIFT, Location, shown
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.base import key_problem, label_problem
from fusioninfer_pulumi.spec.problem import Problem

Shape = Callable[[Location, Any], Iterator[Problem]]

#: What is said of a field that has to be there.
MISSING = "is required"
_MAX_INT32 = 2**31 - 1


def wanted(value: Any, kind: str) -> str:
    """What is wrong with a value that is not of the kind that it must be."""
    if value is None:
        return f"is required: {kind}"
    return LIFT if is_output(value) else f"must be {kind}, got {shown(value)}"


def text(
    kind: str = "a string",
    pattern: str = r"(?s:.*)",
    longest: int | None = None,
    *,
    plain: bool = False,
) -> Shape:
    """A string that matches a pattern; not `plain`, it may be an Output that is one later."""
    form = re.compile(pattern)

    def check(at: Location, value: Any) -> Iterator[Problem]:
        if value is None or (is_output(value) and not plain):
            return
        right = isinstance(value, str) and form.fullmatch(value) is not None
        if not right or (longest is not None and len(value) > longest):
            yield Problem(at, wanted(value, kind), value)

    return check


def choice(*allowed: str, plain: bool = False) -> Shape:
    """One of a few words; the empty one is the API server's default."""

    def check(at: Location, value: Any) -> Iterator[Problem]:
        if value is None or (is_output(value) and not plain) or value == "":
            return
        if not isinstance(value, str) or value not in allowed:
            yield Problem(at, wanted(value, f"one of {', '.join(allowed)}"), value)

    return check


def whole(least: int = -_MAX_INT32 - 1, most: int = _MAX_INT32) -> Shape:
    """A whole number within bounds."""
    kind = "an integer" if least < 0 else f"an integer of at least {least}"
    if most < _MAX_INT32:
        kind = f"an integer from {least} to {most}"

    def check(at: Location, value: Any) -> Iterator[Problem]:
        if value is None or is_output(value):
            return
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            yield Problem(at, wanted(value, kind), value)

    return check


def flag(at: Location, value: Any) -> Iterator[Problem]:
    """True or false."""
    if value is not None and not isinstance(value, bool) and not is_output(value):
        yield Problem(at, wanted(value, "true or false"), value)


#: Name of a port (IANA_SVC_NAME).
port_name = text(
    "a port name: at most 15 of a-z 0-9 -, with a letter, - only between others",
    r"|(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    15,
)


def port(at: Location, value: Any) -> Iterator[Problem]:
    """A port's number, or the name of one of the container's ports."""
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536
    named = isinstance(value, str) and value and not any(port_name(at, value))
    if value is not None and not is_output(value) and not number and not named:
        yield Problem(at, wanted(value, "an integer from 1 to 65535 or the name of a port"), value)


def items(of: Shape, *, open_to_outputs: bool = False) -> Shape:
    """A list; only one that nothing is added to may be an Output as a whole."""

    def check(at: Location, value: Any) -> Iterator[Problem]:
        if value is None or (open_to_outputs and is_output(value)):
            return
        if not isinstance(value, (list, tuple)):
            yield Problem(at, wanted(value, "a list"), value)
            return
        for index, item in enumerate(value):
            if item is None:
                yield Problem((*at, index), "must not be null")
            elif not (open_to_outputs and is_output(item)):
                yield from of((*at, index), item)

    return check


def mapping(fields: Mapping[str, Shape], *required: str, open_to_outputs: bool = False) -> Shape:
    """A mapping; keys that it does not name are passed on."""

    def check(at: Location, value: Any) -> Iterator[Problem]:
        if value is None or (open_to_outputs and is_output(value)):
            return
        if not isinstance(value, Mapping):
            yield Problem(at, wanted(value, "a mapping"), value)
            return
        for key in required:
            if value.get(key) is None or value[key] == "":
                yield Problem((*at, key), MISSING)
        for key, shape in fields.items():
            if value.get(key) is not None and not (key in required and value[key] == ""):
                yield from shape((*at, key), value[key])

    return check


def label_key(at: Location, value: Any) -> Iterator[Problem]:
    """The key of a label."""
    problem = None if is_output(value) else key_problem(value)
    if problem is not None:
        yield Problem(at, problem, value)


def label_map(at: Location, value: Any) -> Iterator[Problem]:
    """Labels with their values."""
    if value is None or is_output(value):
        return
    if not isinstance(value, Mapping):
        yield Problem(at, wanted(value, "a mapping"), value)
        return
    for key, item in value.items():
        problem = key_problem(key) if is_output(item) else label_problem(key, item)
        if problem is not None:
            yield Problem((*at, str(key)), problem, item)
