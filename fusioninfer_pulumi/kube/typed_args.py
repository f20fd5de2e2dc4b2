"""Converts what pulumi_kubernetes takes to plain Kubernetes structures, without importing it.

Args such as `PodTemplateSpecArgs` hold values under Python names; each property has its Kubernetes
name as an attribute. In their dictionaries the names of fields are known by `pod_fields`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.kube.pod_fields import KUBERNETES_NAMES, MAPS

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


def with_kubernetes_names(value: Any) -> Any:
    """Returns a pod template or a part of it with Kubernetes' names for the fields of Python.

    Keys that are no field's name in Python stay, and so do those of maps, such as labels.
    """
    if isinstance(value, dict):
        return {
            (named := KUBERNETES_NAMES.get(key, key)): item
            if named in MAPS and isinstance(item, dict)
            else with_kubernetes_names(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_kubernetes_names(item) for item in value]
    return value


def fields_given_twice(value: Any) -> Iterator[tuple[str, str]]:
    """Yields both names of each field that is given in Python's and in Kubernetes' spelling."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            named = KUBERNETES_NAMES.get(key, key) if isinstance(key, str) else key
            if named != key and named in value:
                yield named, key
            if named not in MAPS:
                yield from fields_given_twice(item)
    elif isinstance(value, list):
        for item in value:
            yield from fields_given_twice(item)


def _names(kind: type) -> dict[str, str]:
    return {
        python: getattr(member.fget, _MARK)
        for base in reversed(kind.__mro__)
        for python, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, _MARK)
    }
