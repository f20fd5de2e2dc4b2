"""Turns the properties that the SDK sends to the engine into a Kubernetes object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.runtime import rpc

from fusioninfer_pulumi.cli.program.masks import Secrets
from fusioninfer_pulumi.cli.program.records import SECRET
from fusioninfer_pulumi.cli.program.wire import struct_pb2
from fusioninfer_pulumi.kube.outputs import UNKNOWN

#: Whole numbers up to here survive the trip through protobuf, whose numbers are all floats.
_EXACT = 2**53
_FIRST = ("apiVersion", "kind", "metadata")

Fields = Mapping[str, struct_pb2.Value]


def manifest(
    token: str, name: str, properties: struct_pb2.Struct, secrets: Secrets
) -> dict[str, Any]:
    """Builds the object that a registration describes.

    Args:
        token: The resource's Pulumi type.
        name: The resource's logical name; the provider names an object without `metadata.name`
            after it, with a suffix that only the deployment knows.
        properties: The resource's inputs.
        secrets: What stands in place of secrets.

    Returns:
        The object, with keys in the order that `Recorded` documents.
    """
    fields = properties.fields
    api_version, kind = type_of(token, fields)
    metadata = _metadata(fields.get("metadata"), secrets)
    if not {"name", "generateName"} & metadata.keys() and not kind.endswith("List"):
        metadata = {**metadata, "name": f"{name}-{UNKNOWN}"}
    rest = {key: fields[key] for key in sorted(fields) if key not in _FIRST}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        **{key: plain(value, secrets) for key, value in rest.items()},
    }


def type_of(token: str, fields: Fields) -> tuple[str, str]:
    """The `apiVersion` and `kind` of a resource: what it registers, else what its token says."""
    _, group_version, kind = token.split(":", 2)
    # The core group has no name in Kubernetes and is called "core" in tokens.
    api_version = group_version.removeprefix("core/")
    return _string(fields.get("apiVersion")) or api_version, _string(fields.get("kind")) or kind


def named(properties: struct_pb2.Struct) -> struct_pb2.Struct:
    """The outputs of a Kubernetes object at preview: its inputs, and an unknown generated name."""
    state = struct_pb2.Struct()
    state.CopyFrom(properties)
    metadata = state.fields["metadata"]
    if metadata.WhichOneof("kind") in (None, "struct_value"):
        keys = metadata.struct_value.fields
        if "name" not in keys and rpc._special_sig_key not in keys:  # noqa: SLF001  # no public name
            keys["name"].string_value = rpc.UNKNOWN
    return state


def plain(value: struct_pb2.Value, secrets: Secrets = Secrets.MASKED) -> Any:
    """A protobuf value as plain Python, with secrets and unknown values masked.

    Every leaf of a secret mapping or list is masked, its keys are not: the SDK makes all the data
    of a Secret secret, and the object must keep its shape.
    """
    return _plain(value, secrets, secret=False)


def _plain(value: struct_pb2.Value, secrets: Secrets, *, secret: bool) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _mapping(value.struct_value.fields, secrets, secret=secret)
    if kind == "list_value":
        return [_plain(item, secrets, secret=secret) for item in value.list_value.values]
    if secret and value.string_value == rpc.UNKNOWN:
        return SECRET  # the same as any other unknown one
    if secret:
        return secrets.mask(value.SerializeToString(deterministic=True))
    if kind == "string_value":
        return UNKNOWN if value.string_value == rpc.UNKNOWN else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _EXACT else number
    return value.bool_value if kind == "bool_value" else None


def _mapping(fields: Fields, secrets: Secrets, *, secret: bool) -> Any:
    signature = _string(fields.get(rpc._special_sig_key))  # noqa: SLF001  # no public name
    if signature is None:
        return {key: _plain(fields[key], secrets, secret=secret) for key in sorted(fields)}
    if signature == rpc._special_secret_sig:  # noqa: SLF001  # no public name
        return _plain(fields["value"], secrets, secret=secrets.hides())
    # Assets, archives and references to other resources have no place in a Kubernetes object.
    return UNKNOWN


def _metadata(value: struct_pb2.Value | None, secrets: Secrets) -> dict[str, Any]:
    """The metadata, always a mapping: who reads an object must find its name and namespace."""
    found = {} if value is None else plain(value, secrets)
    return found if isinstance(found, dict) else {"name": found}


def _string(value: struct_pb2.Value | None) -> str | None:
    text = value.string_value if value is not None else ""
    return text if text and text != rpc.UNKNOWN else None
