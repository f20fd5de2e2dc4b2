"""Converts inputs of pulumi_kubernetes to plain Kubernetes structures, without importing it.

Args such as `PodTemplateSpecArgs` store values under Python names. The getter of each property has
the field's Kubernetes name as an attribute. The keys of dictionaries may also be Python names. Keys
of maps such as `labels` are not field names, so they are not converted.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import Any

#: Fields of pod templates whose Kubernetes name is not their Python name in camelCase
#: (pulumi-kubernetes 4.34.2; a test compares them).
_IRREGULAR = {
    "dataset_uuid": "datasetUUID", "disk_uri": "diskURI", "downward_api": "downwardAPI",
    "exec_": "exec", "host_ip": "hostIP", "host_ipc": "hostIPC", "host_pid": "hostPID",
    "pd_id": "pdID", "scale_io": "scaleIO", "set_hostname_as_fqdn": "setHostnameAsFQDN",
    "storage_policy_id": "storagePolicyID", "target_wwns": "targetWWNs", "volume_id": "volumeID",
}  # fmt: skip

#: Fields that are maps whose keys users choose.
USER_KEY_MAPS = frozenset({
    "annotations", "labels", "limits", "matchLabels", "nodeSelector", "options", "overhead",
    "requests", "userAnnotations", "volumeAttributes",
})  # fmt: skip

# Attribute with which the SDK records a property's Kubernetes name.
_MARK = "_pulumi_name"


@functools.cache
def kubernetes_name(key: str) -> str:
    """Return the Kubernetes name of a field, whose key may be its Python name."""
    first, *words = key.split("_")
    return _IRREGULAR.get(key) or first + "".join(word.capitalize() for word in words)


def is_typed_args(value: object) -> bool:
    """Return whether a value is an instance of a Pulumi input type."""
    return hasattr(type(value), "_pulumi_input_type") and not isinstance(value, dict)


class DuplicateFieldError(Exception):
    """A field has both its Kubernetes name and its Python name; the message contains both."""


def to_kubernetes(value: Any) -> Any:
    """Convert a pod template or a part of it to plain values with Kubernetes names as keys.

    Properties of typed args that are not set are omitted. Enum members become their values, and
    subclasses of `str` plain strings. Outputs and other values stay as they are.

    Raises:
        DuplicateFieldError: A field is set under both names.
    """
    if is_typed_args(value):
        attributes = vars(value)
        value = {
            kubernetes: attributes[python]
            for python, kubernetes in _get_kubernetes_names(type(value)).items()
            if attributes.get(python) is not None
        }
    if isinstance(value, dict):
        renamed: dict[Any, Any] = {}
        for key, item in value.items():
            name = kubernetes_name(key) if isinstance(key, str) else key
            if name != key and name in value:
                raise DuplicateFieldError(f"{name} and {key}")
            if name in USER_KEY_MAPS and isinstance(item, dict):
                renamed[name] = {user_key: to_kubernetes(text) for user_key, text in item.items()}
            else:
                renamed[name] = to_kubernetes(item)
        return renamed
    if isinstance(value, (list, tuple)):
        return [to_kubernetes(item) for item in value]
    if isinstance(value, Enum):
        return to_kubernetes(value.value)
    return str.__str__(value) if isinstance(value, str) else value


def _get_kubernetes_names(args_type: type) -> dict[str, str]:
    return {
        python: getattr(member.fget, _MARK)
        for base in reversed(args_type.__mro__)
        for python, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, _MARK)
    }
