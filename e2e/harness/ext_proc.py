"""Client of an endpoint picker that uses Envoy's external processing over gRPC, as gateways do.

The body mode is FULL_DUPLEX_STREAMED, the only one that pickers accept: the picker responds to
headers and body after the whole body. Responses of pods are not sent to the picker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

import grpc
from google.protobuf import struct_pb2

from e2e.harness.ext_proc_messages import ProcessingRequest, ProcessingResponse
from e2e.harness.processes import Lifetime

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
DESTINATION = "x-gateway-destination-endpoint"
METADATA = "envoy.lb"
CHUNK_BYTES = 100
TIMEOUT = 20


@dataclass(frozen=True)
class PickerResponse:
    """A picker's response to a request.

    Attributes:
        endpoint: `address:port` of the chosen pod; None for an immediate response.
        headers: Headers that the picker adds, with names in lower case.
        status: HTTP status of an immediate response; None if the picker chose a pod.
        body: The body for the pod, or of the immediate response.
    """

    endpoint: str | None
    headers: Mapping[str, str]
    status: int | None
    body: bytes


class ExternalProcessor(Lifetime):
    """Context manager for a gateway's connection to a picker."""

    def __init__(self, target: str, authority: bytes | None = None) -> None:
        if authority is None:
            self._channel = grpc.insecure_channel(target)
        else:
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(authority))
        self._process: Any = self._channel.stream_stream(
            METHOD,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=ProcessingResponse.FromString,
        )

    def close(self) -> None:
        self._channel.close()

    def send_request(
        self,
        body: Mapping[str, Any] | bytes | None,
        path: str = "/v1/completions",
        *,
        timeout: float = TIMEOUT,
        headers: Mapping[str, str] | None = None,
    ) -> PickerResponse:
        sent = json.dumps(body).encode() if isinstance(body, Mapping) else body
        requests = iter(_encode(sent, path, headers))
        return _read_response(self._process(requests, timeout=timeout), bodyless=body is None)

    @contextmanager
    def hold_request(
        self, body: Mapping[str, Any], headers: Mapping[str, str], timeout: float = 2 * TIMEOUT
    ) -> Iterator[tuple[PickerResponse, Any]]:
        """Send a request that runs until the context ends.

        Yields the response and the picker's further messages.
        """
        ended = Event()

        def send_requests() -> Iterator[Any]:
            yield from _encode(json.dumps(body).encode(), "/v1/completions", headers)
            ended.wait(timeout)

        messages = self._process(send_requests(), timeout=timeout)
        try:
            yield _read_response(_read_until_body_ends(messages), bodyless=False), messages
        finally:
            ended.set()
            messages.cancel()


def _read_until_body_ends(messages: Any) -> Iterator[Any]:
    for message in messages:
        yield message
        if message.request_body.response.body_mutation.streamed_response.end_of_stream:
            return


def _encode(body: bytes | None, path: str, headers: Mapping[str, str] | None = None) -> list[Any]:
    method = "GET" if body is None else "POST"
    head = {":method": method, ":path": path, "content-type": "application/json"}
    head.update(headers or {})
    start = {"headers": _make_headers(head), "end_of_stream": body is None}
    requests = [ProcessingRequest(request_headers=start)]
    if body is not None:
        requests += [ProcessingRequest(request_body=piece) for piece in _split_body(body)]
    return requests


def _make_headers(values: Mapping[str, str]) -> dict[str, Any]:
    return {"headers": [{"key": k, "raw_value": v.encode()} for k, v in values.items()]}


def _split_body(body: bytes) -> Iterator[dict[str, Any]]:
    starts = range(0, max(len(body), 1), CHUNK_BYTES)
    for start in starts:
        is_last = start == starts[-1]
        yield {"body": body[start : start + CHUNK_BYTES], "end_of_stream": is_last}


def _read_response(responses: Any, *, bodyless: bool) -> PickerResponse:
    headers: dict[str, str] = {}
    forwarded = b""
    for response in responses:
        if response.HasField("immediate_response"):
            immediate = response.immediate_response
            return PickerResponse(None, {}, immediate.status.code, immediate.body)
        if response.HasField("request_headers"):
            headers = _read_added_headers(response)
        elif response.HasField("request_body"):
            assert headers, "the picker responded to the body before the headers"
            forwarded += response.request_body.response.body_mutation.streamed_response.body
    assert headers, "the picker sent no response"
    assert bodyless or forwarded, "the picker returned no body"
    return PickerResponse(headers[DESTINATION], headers, None, forwarded)


def _read_added_headers(response: Any) -> dict[str, str]:
    """Return the added headers; assert that the metadata names the same endpoint."""
    mutation = response.request_headers.response.header_mutation
    headers = {
        option.header.key.lower(): (option.header.raw_value.decode() or option.header.value)
        for option in mutation.set_headers
    }
    metadata = struct_pb2.Struct.FromString(response.dynamic_metadata)
    values: Any = metadata[METADATA]
    assert values[DESTINATION] == headers[DESTINATION], f"{metadata} and {headers}"
    return headers
