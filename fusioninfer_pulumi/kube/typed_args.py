"""Converts what pulumi_kubernetes takes to plain Kubernetes structures, without importing it.

Args such as `PodTemplateSpecArgs` hold values under Python names; each property has its Kubernetes
name as an attribute. In dictionaries, fields have their names in Python, which are converted here,
except for the keys of maps, such as labels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

#: Fields of pod templates whose name is not the one in Python in camelCase (pulumi-kubernetes
#: 4.34.2; a test compares them).
_IRREGULAR = {
    "dataset_uuid": "datasetUUID",
    "disk_uri": "diskURI",
    "downward_api": "downwardAPI",
    "exec_": "exec",
    "host_ip": "hostIP",
    "host_ipc": "hostIPC",
    "host_pid": "hostPID",
    "pd_id": "pdID",
    "scale_io": "scaleIO",
    "set_hostname_as_fqdn": "setHostnameAsFQDN",
    "storage_policy_id": "storagePolicyID",
    "target_wwns": "targetWWNs",
    "volume_id": "volumeID",
}

#: Fields whose keys are the user's.
MAPS = frozenset(
    (
        "annotations",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "userAnnotations",
        "volumeAttributes",
    )
)

# Attribute of the SDK with the Kubernetes name of a property.
_MARK = "_pulumi_name"


@functools.cache
def kubernetes_name(key: str) -> str:
    """Return the name in Kubernetes of a field, whose name may be that of Python."""
    first, *others = key.split("_")
    return _IRREGULAR.get(key) or first + "".join(word.capitalize() for word in others)


def is_typed_args(value: object) -> bool:
    """Return whether a value is an instance of a Pulumi input type."""
    return hasattr(type(value), "_pulumi_input_type") and not isinstance(value, dict)


def to_plain(value: Any) -> Any:
    """Return a value with typed args at any depth replaced by mappings with Kubernetes' keys.

    Outputs and other values stay as they are; properties that were not set are left out.
    """
    if is_typed_args(value):
        attributes = vars(value)
        return {
            kubernetes: to_plain(attributes[python])
            for python, kubernetes in _names(type(value)).items()
            if attributes.get(python) is not None
        }
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def use_kubernetes_names(value: Any) -> Any:
    """Return a pod template or a part of it with Kubernetes' names for the fields of Python.

    Keys of maps, such as labels, stay.
    """
    if isinstance(value, dict):
        return {
            (named := kubernetes_name(key) if isinstance(key, str) else key): item
            if named in MAPS and isinstance(item, dict)
            else use_kubernetes_names(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [use_kubernetes_names(item) for item in value]
    return value


def find_duplicate_fields(value: Any) -> Iterator[tuple[str, str]]:
    """Yield both names of each field that is given in Python's and in Kubernetes' spelling."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            named = kubernetes_name(key) if isinstance(key, str) else key
            if named != key and named in value:
                yield named, key
            if named not in MAPS:
                yield from find_duplicate_fields(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_duplicate_fields(item)


def _names(kind: type) -> dict[str, str]:
    return {
        python: getattr(member.fget, _MARK)
        for base in reversed(kind.__mro__)
        for python, member in vars(base).items()
        if isinstance(member, property) and hasattr(member.fget, _MARK)
    }
