"""Ask an endpoint picker for a pod, as a gateway does: Envoy's external processing over gRPC.

The few fields that are needed are written by hand: the generated modules want a newer protobuf than
Pulumi's SDK allows. Field numbers: envoy/service/ext_proc/v3/external_processor.proto and
envoy/config/core/v3/base.proto.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from e2e.harness.processes import LOOPBACK

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
#: Header by which a picker names the pod.
DESTINATION = "x-gateway-destination-endpoint"

# ProcessingRequest
_REQUEST_HEADERS, _REQUEST_BODY = 2, 4
# ProcessingResponse
_HEADERS_RESPONSE, _IMMEDIATE_RESPONSE = 1, 7


class PickRefusedError(Exception):
    """The picker answered by itself, instead of naming a pod."""


def pick(
    port: int, body: Mapping[str, Any], *, path: str = "/v1/completions", timeout: float = 10
) -> dict[str, str]:
    """Send one request of a client to a picker.

    Args:
        port: The picker's port for external processing, without TLS.
        body: The client's JSON.
        path: The client's path.
        timeout: Seconds.

    Returns:
        The headers that the picker sets, names in lower case.

    Raises:
        PickRefusedError: If it names no pod.
    """
    headers = {":method": "POST", ":path": path, "content-type": "application/json"}
    listed = b"".join(_field(1, _header(name, value)) for name, value in headers.items())
    messages = [
        _field(_REQUEST_HEADERS, _field(1, listed)),
        _field(_REQUEST_BODY, _field(1, json.dumps(body).encode()) + _varint(2 << 3) + b"\x01"),
    ]
    with grpc.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        process: Any = channel.stream_stream(METHOD)
        for answer in process(iter(messages), timeout=timeout):
            fields = _fields(bytes(answer))
            if _IMMEDIATE_RESPONSE in fields:
                raise PickRefusedError(repr(fields[_IMMEDIATE_RESPONSE][0]))
            if _HEADERS_RESPONSE in fields:
                return dict(_set_headers(fields[_HEADERS_RESPONSE][0]))
    raise PickRefusedError("the stream ended without an answer")


def _set_headers(response: bytes) -> Iterator[tuple[str, str]]:
    for common in _fields(response).get(1, []):
        for mutation in _fields(common).get(2, []):
            for option in _fields(mutation).get(1, []):
                for header in _fields(option).get(1, []):
                    parts = _fields(header)
                    value = parts.get(3) or parts.get(2) or [b""]
                    yield parts[1][0].decode().lower(), value[0].decode()


def _header(name: str, value: str) -> bytes:
    return _field(1, name.encode()) + _field(3, value.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """The length-delimited fields of a message; others are passed over."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        if tag & 7 == 2:
            length, at = _read_varint(message, at)
            found.setdefault(tag >> 3, []).append(message[at : at + length])
            at += length
        elif tag & 7 == 0:
            _, at = _read_varint(message, at)
        else:
            at += 8 if tag & 7 == 1 else 4
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
