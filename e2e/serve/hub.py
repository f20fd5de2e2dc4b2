"""Stand-ins for a model hub and for a trace collector."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages

from e2e.harness.stand_ins import HttpStandIn, Request, Response

COMMIT = "0" * 40
PORT = 8088
"""Port of the hub in images that fetch models."""


class Hub(HttpStandIn):
    """A hub with one repository."""

    def __init__(self, address: str, repository: str, folder: Path, port: int = 0) -> None:
        """Serve a folder's files, on a free port by default."""
        super().__init__(address, port)
        self.url = f"http://{address}:{self.port}"
        self.fetched: list[str] = []
        self._repository = repository
        self._folder = folder

    def respond(self, request: Request) -> Response:
        path = request.path.partition("?")[0]
        files = {file.name: file for file in self._folder.iterdir()}
        model, name = f"/api/models/{self._repository}", Path(path).name
        headers = {"X-Repo-Commit": COMMIT}
        if path.startswith(f"{model}/tree/"):
            listed: Any = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": COMMIT}
                for name, file in files.items()
            ]
            return Response(body=json.dumps(listed).encode(), headers=headers)
        if path.startswith(model):
            listed = {"id": self._repository, "modelId": self._repository, "sha": COMMIT,
                      "private": False, "tags": [],
                      "siblings": [{"rfilename": name} for name in files]}  # fmt: skip
            return Response(body=json.dumps(listed).encode(), headers=headers)
        if not path.startswith(f"/{self._repository}/resolve/") or name not in files:
            return Response(404, headers={**headers, "X-Error-Code": "EntryNotFound"})
        body = files[name].read_bytes()
        if request.method == "GET":
            self.fetched.append(name)
        return Response(
            body=body, headers={**headers, "ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
        )


METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True)
class Span:
    """Fields of a span."""

    service: str
    name: str
    trace: str


class Collector:
    """An OTLP server that records spans."""

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
