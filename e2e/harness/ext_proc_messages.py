"""Protobuf messages of Envoy's external processing, with only the fields that tests use.

Field numbers and types are those of `envoy/service/ext_proc/v3/external_processor.proto` and
`envoy/config/core/v3/base.proto`. Protobuf skips unknown fields when parsing. Envoy's complete API
would be a large dependency with several top-level packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "e2e.ext_proc"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bytes": _Field.TYPE_BYTES, "string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL,
            "int32": _Field.TYPE_INT32}  # fmt: skip

_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = yaml.safe_load(
    Path(__file__).with_name("ext_proc.yaml").read_text(encoding="utf-8")
)


def _describe_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="e2e/ext_proc.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = kind.startswith("*")
            descriptor = message.field.add(name=field, number=number)
            descriptor.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            scalar = _SCALARS.get(kind)
            if scalar is not None:
                descriptor.type = scalar
            else:
                descriptor.type = _Field.TYPE_MESSAGE
                descriptor.type_name = f".{_PACKAGE}.{kind.lstrip('*')}"
    return file


def _create_classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()  # Separate, so that names cannot clash with Envoy's.
    pool.AddSerializedFile(_describe_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _create_classes()

ProcessingRequest: Any = _CLASSES["ProcessingRequest"]
ProcessingResponse: Any = _CLASSES["ProcessingResponse"]
