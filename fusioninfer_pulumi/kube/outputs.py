"""Recognises Pulumi Outputs without importing pulumi.

The pure rooms (spec, plan, manifests) let an Output through where a value is a leaf that they do
not read, and refuse it elsewhere; importing pulumi for that would cost the command line its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def contains_output(value: object) -> bool:
    """Tells whether an Output stands anywhere inside plain mappings and lists."""
    if isinstance(value, Mapping):
        return any(contains_output(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(contains_output(item) for item in value)
    return is_output(value)


def output_locations(value: object) -> Iterator[tuple[str | int, ...]]:
    """Yields the keys and indexes that lead to each Output inside plain mappings and lists."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, Mapping):
        items = ((str(key), item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif is_output(value):
        yield ()
    for key, item in items:
        for below in output_locations(item):
            yield key, *below


def output_paths(value: object, path: str = "") -> Iterator[str]:
    """Yields the path of every Output inside plain mappings and lists."""
    for location in output_locations(value):
        text = path
        for part in location:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        yield text


def with_placeholders(value: Any) -> Any:
    """Copies plain structure with `PLACEHOLDER` in place of each Output."""
    if isinstance(value, Mapping):
        return {key: with_placeholders(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_placeholders(item) for item in value]
    return PLACEHOLDER if is_output(value) else value
