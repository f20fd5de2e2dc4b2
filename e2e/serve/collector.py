"""A collector of traces: it takes spans by OTLP over gRPC, and keeps them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True)
class Span:
    """What is kept of a span."""

    service: str
    name: str
    trace: str


class Collector:
    """A server; threads of this process."""

    def __init__(self, address: str) -> None:
        self.spans: list[Span] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=messages.ExportTraceServiceRequest.FromString,
            response_serializer=messages.ExportTraceServiceResponse.SerializeToString,
        )
        name, method = METHOD.strip("/").split("/")
        generic = grpc.method_handlers_generic_handler(name, {method: handler})
        self._server.add_generic_rpc_handlers((generic,))
        self.url = f"http://{address}:{self._server.add_insecure_port(f'{address}:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(grace=None)

    def _export(self, request: Any, _: Any) -> Any:
        for resource in request.resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            self.spans += [
                Span(names.get("service.name", ""), span.name, span.trace_id.hex())
                for scope in resource.scope_spans
                for span in scope.spans
            ]
        return messages.ExportTraceServiceResponse()
