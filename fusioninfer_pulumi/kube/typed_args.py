"""Turns pulumi_kubernetes' typed args into plain Kubernetes structure, without importing them.

`PodTemplateSpecArgs` and the like hold their values under Python names; every property knows the
Kubernetes name that it stands for.
"""

from __future__ import annotations

from typing import Any

# The SDK's mark on every property of an input type: the property's Kubernetes name.
_MARK = "_pulumi_name"


def is_typed_args(value: object) -> bool:
    """Tells whether a value is an instance of a Pulumi input type."""
    return hasattr(type(value), "_pulumi_input_type") and not isinstance(value, dict)


def to_plain(value: Any) -> Any:
    """Replaces typed args at any depth by mappings with Kubernetes' keys.

    Args:
        value: Anything; Outputs and plain values stay as they are.

    Returns:
        The plain structure, without fields that were never set.
    """
    if is_typed_args(value):
        held = vars(value)
        return {
            kubernetes: to_plain(held[python])
            for python, kubernetes in _names(type(value)).items()
            if held.get(python) is not None
        }
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def _names(kind: type) -> dict[str, str]:
    return {
        python: getattr(member.fget, _MARK)
        for base in reversed(kind.__mro__)
        for python, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, _MARK)
    }
