"""Converts pulumi_kubernetes' typed args to plain Kubernetes structures, without importing them.

Args such as `PodTemplateSpecArgs` hold values under Python names; each property has its Kubernetes
name as an attribute.
"""

from __future__ import annotations

from typing import Any

# Attribute of the SDK with the Kubernetes name of a property.
_MARK = "_pulumi_name"


def is_typed_args(value: object) -> bool:
    """Returns whether a value is an instance of a Pulumi input type."""
    return hasattr(type(value), "_pulumi_input_type") and not isinstance(value, dict)


def to_plain(value: Any) -> Any:
    """Returns a value with typed args at any depth replaced by mappings with Kubernetes' keys.

    Outputs and other values stay as they are; properties that were not set are left out.
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
