"""Stand-ins for a model hub and for a collector of traces; threads of this process."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages

COMMIT = "0" * 40


PORT = 8088
"""Where images that fetch models look for it."""


class Hub:
    """A server for one repository; threads of this process."""

    def __init__(self, address: str, repository: str, folder: Path, port: int = 0) -> None:
        """Serve a folder's files, on a free port by default."""
        self.fetched: list[str] = []
        self._repository = repository
        self._folder = folder
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                hub.answer(self, send=False)

            def do_GET(self) -> None:
                hub.answer(self, send=True)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self.url = f"http://{address}:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, *, send: bool) -> None:
        path = request.path.partition("?")[0]
        files = [file.name for file in self._folder.iterdir()]
        headers = {"X-Repo-Commit": COMMIT}
        status, body = HTTPStatus.OK, b""
        if path.startswith(f"/api/models/{self._repository}/tree/"):
            sizes = [(name, (self._folder / name).stat().st_size) for name in files]
            body = json.dumps([{"type": "file", "path": n, "size": s, "oid": COMMIT}
                               for n, s in sizes]).encode()  # fmt: skip
        elif path.startswith(f"/api/models/{self._repository}"):
            siblings = [{"rfilename": name} for name in files]
            output = {"id": self._repository, "modelId": self._repository, "sha": COMMIT,
                    "private": False, "tags": [], "siblings": siblings}  # fmt: skip
            body = json.dumps(output).encode()
        elif path.startswith(f"/{self._repository}/resolve/") and Path(path).name in files:
            body = (self._folder / Path(path).name).read_bytes()
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()}"'
            if send:
                self.fetched.append(Path(path).name)
        else:
            status = HTTPStatus.NOT_FOUND
            headers["X-Error-Code"] = "EntryNotFound"
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        if send:
            request.wfile.write(body)


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
