"""Protobuf messages of Envoy's external processing, with only the fields that tests use.

Field numbers and types are those of `envoy/service/ext_proc/v3/external_processor.proto` and
`envoy/config/core/v3/base.proto`. Protobuf skips unknown fields when parsing. Envoy's complete API
would be a large dependency with several top-level packages.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "e2e.ext_proc"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bytes": _Field.TYPE_BYTES, "string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL,
            "int32": _Field.TYPE_INT32}  # fmt: skip

# Numbers and types of the fields of each message; "*" means repeated. An embedded
# google.protobuf.Struct is declared as bytes and an enum as int32, as they are on the wire.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ProcessingRequest": {
        "request_headers": (2, "HttpHeaders"),
        "request_body": (4, "HttpBody"),
    },
    "HttpHeaders": {"headers": (1, "HeaderMap"), "end_of_stream": (3, "bool")},
    "HttpBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HeaderMap": {"headers": (1, "*HeaderValue")},
    "HeaderValue": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "ProcessingResponse": {
        "request_headers": (1, "HeadersResponse"),
        "request_body": (3, "BodyResponse"),
        "immediate_response": (7, "ImmediateResponse"),
        "dynamic_metadata": (8, "bytes"),
    },
    "HeadersResponse": {"response": (1, "CommonResponse")},
    "BodyResponse": {"response": (1, "CommonResponse")},
    "CommonResponse": {
        "header_mutation": (2, "HeaderMutation"),
        "body_mutation": (3, "BodyMutation"),
        "clear_route_cache": (5, "bool"),
    },
    "HeaderMutation": {"set_headers": (1, "*HeaderValueOption")},
    "HeaderValueOption": {"header": (1, "HeaderValue")},
    "BodyMutation": {"body": (1, "bytes"), "streamed_response": (3, "StreamedBodyResponse")},
    "StreamedBodyResponse": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "ImmediateResponse": {"status": (1, "HttpStatus"), "body": (3, "bytes")},
    "HttpStatus": {"code": (1, "int32")},
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="e2e/ext_proc.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = kind.startswith("*")
            made = message.field.add(name=field, number=number)
            made.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            scalar = _SCALARS.get(kind)
            if scalar is not None:
                made.type = scalar
            else:
                made.type = _Field.TYPE_MESSAGE
                made.type_name = f".{_PACKAGE}.{kind.lstrip('*')}"
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()  # Separate, so that names cannot clash with Envoy's.
    pool.AddSerializedFile(_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _classes()

ProcessingRequest: Any = _CLASSES["ProcessingRequest"]
ProcessingResponse: Any = _CLASSES["ProcessingResponse"]
