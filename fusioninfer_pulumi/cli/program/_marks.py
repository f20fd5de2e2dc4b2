"""Secrets of a transformed resource, marked where its program marked them.

The SDK hands a transform each property that holds a secret as one secret, and marks the whole of it
when the transform returns it: one variable of a container makes a secret of the `spec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.runtime import rpc


def marked_as_before(value: Any, before: Any) -> Any:
    """A transformed value with secrets where they were; what is new among them is secret.

    Args:
        value: Plain properties after the transform, with the SDK's marks.
        before: The same before it.
    """
    if rpc.is_rpc_secret(value):
        return _narrowed(revealed(value), before)
    if isinstance(value, dict):
        fields = before if isinstance(before, Mapping) else {}
        return {key: marked_as_before(item, fields.get(key)) for key, item in value.items()}
    return value


def _narrowed(value: Any, before: Any) -> Any:
    """A value of a secret without marks inside of it; plain as far as it was plain before."""
    if rpc.is_rpc_secret(before):
        return rpc.wrap_rpc_secret(value)
    if isinstance(value, dict) and isinstance(before, Mapping):
        return {
            key: _narrowed(item, before[key]) if key in before else rpc.wrap_rpc_secret(item)
            for key, item in value.items()
        }
    if isinstance(value, list) and isinstance(before, list):
        known = value[: len(before)]
        return [
            *(_narrowed(item, other) for item, other in zip(known, before, strict=False)),
            *map(rpc.wrap_rpc_secret, value[len(before) :]),
        ]
    same = type(value) is type(before) and value == before
    return value if same else rpc.wrap_rpc_secret(value)


def revealed(value: Any) -> Any:
    """A value without the marks of secrets inside of it."""
    if isinstance(value, list):
        return [revealed(item) for item in value]
    if isinstance(value, dict):
        if rpc.is_rpc_secret(value):
            return revealed(value["value"])
        return {key: revealed(item) for key, item in value.items()}
    return value
