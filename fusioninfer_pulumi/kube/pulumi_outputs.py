"""Recognizes Pulumi Outputs without importing pulumi, which would slow down the command line.

Fields that are only passed through may be Outputs; code that needs the value rejects them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

#: Replaces Outputs in hashes, because a plan does not know their values.
PLACEHOLDER = "<output>"
#: Printed in place of a value that is known only after deployment.
UNKNOWN = "<unknown>"


class UnknownOutput:
    """Placeholder for an Output of a program that ran in another process; equals only itself."""


def is_output(value: object) -> bool:
    """Return whether a value is a `pulumi.Output` or an `UnknownOutput`."""
    if isinstance(value, (str, int, float, dict, list, type(None))):
        return False
    if isinstance(value, UnknownOutput):
        return True
    return any(
        base.__name__ == "Output" and base.__module__.partition(".")[0] == "pulumi"
        for base in type(value).__mro__
    )


def is_known_equal(first: object, second: object) -> bool:
    """Return whether two values are known to be equal: an Output equals only itself."""
    return first is second or (not is_output(first) and not is_output(second) and first == second)


def has_output(value: object) -> bool:
    """Return whether plain mappings and lists contain an Output at any depth."""
    return next(output_paths(value), None) is not None


def output_paths(
    value: object, location: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the location of every Output inside plain mappings and lists."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from output_paths(item, (*location, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from output_paths(item, (*location, index))
    elif is_output(value):
        yield location


def content_digest(value: Any, length: int) -> str:
    """Return the first characters of a hash of a value, with `PLACEHOLDER` for Outputs."""
    text = json.dumps(replace_outputs(value), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def replace_outputs(value: Any) -> Any:
    """Return a copy with `PLACEHOLDER` in place of each Output."""
    if isinstance(value, Mapping):
        return {key: replace_outputs(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_outputs(item) for item in value]
    return PLACEHOLDER if is_output(value) else value
