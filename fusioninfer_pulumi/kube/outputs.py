"""Recognises Pulumi Outputs without importing pulumi.

The pure rooms (spec, plan, manifests) let an Output through where a value is a leaf that they do
not read, and refuse it elsewhere; importing pulumi for that would cost the command line its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: What a revision hashes in place of an Output, whose value is unknown while the plan is made.
PLACEHOLDER = "<output>"
#: Printed in place of a value that only a deployment can know.
UNKNOWN = "<unknown>"


def is_output(value: object) -> bool:
    """Tells whether a value is a `pulumi.Output`."""
    if isinstance(value, (str, int, float, dict, list, type(None))):
        return False
    return any(
        base.__name__ == "Output" and base.__module__.partition(".")[0] == "pulumi"
        for base in type(value).__mro__
    )


def surely_equal(one: object, other: object) -> bool:
    """Tells whether two values are known to be equal: an Output equals only itself."""
    return one is other or (not is_output(one) and not is_output(other) and one == other)


def contains_output(value: object) -> bool:
    """Tells whether an Output stands anywhere inside plain mappings and lists."""
    if isinstance(value, Mapping):
        return any(contains_output(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(contains_output(item) for item in value)
    return is_output(value)


def output_paths(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the location of every Output inside plain mappings and lists."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from output_paths(item, (*at, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from output_paths(item, (*at, index))
    elif is_output(value):
        yield at


def with_placeholders(value: Any) -> Any:
    """Copies plain structure with `PLACEHOLDER` in place of each Output."""
    if isinstance(value, Mapping):
        return {key: with_placeholders(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_placeholders(item) for item in value]
    return PLACEHOLDER if is_output(value) else value
