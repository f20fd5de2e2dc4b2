"""Stand-ins for programs that do not run here, each in its own thread."""

from __future__ import annotations

import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", bound="StandIn")


class StandIn(ABC):
    """Base class of stand-ins, which run while their context is active.

    An exception in the thread is raised at the end of the context, unless the context raises.
    """

    _thread: threading.Thread
    _broken: BaseException | None = None

    @abstractmethod
    def work(self) -> None:
        """Run in the thread until `stop` is called."""

    @abstractmethod
    def stop(self) -> None:
        """Make `work` return."""

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised by __exit__
            self._broken = error

    def __enter__(self: _Kind) -> _Kind:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._thread.join()
        if self._broken is not None and error is None:
            raise self._broken


@dataclass(frozen=True)
class Request:
    """A client's request."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True)
class Response:
    """The response to a request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpStandIn(StandIn):
    """An HTTP server that listens once constructed and responds while its context is active."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        """Listen on the port; 0 selects a free one."""
        self._http = _Http((address, port), _Handler)
        self._http.owner = self
        self.port: int = self._http.server_port

    @abstractmethod
    def respond(self, request: Request) -> Response:
        """Return the response; called concurrently."""

    def work(self) -> None:
        self._http.serve_forever(0.05)

    def stop(self) -> None:
        """Stop listening, and close open connections."""
        self._http.end()


class _Http(ThreadingHTTPServer):
    owner: HttpStandIn
    daemon_threads = False  # server_close() joins them, so that none responds after the end.

    def __init__(self, *arguments: Any) -> None:
        self._open: set[socket.socket] = set()
        self._ending = False
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end(self) -> None:
        self._ending = True
        self.shutdown()
        for connection in tuple(self._open):
            with suppress(OSError):  # The client may have disconnected.
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnecting clients, because programs can be killed at any time."""
        if not self._ending and not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Pickers keep connections alive.
    server: _Http

    def _respond(self) -> None:
        answer = self.server.owner.respond(Request(self.command, self.path, self._body()))
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers}
        for name, value in {**headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _body(self) -> bytes:
        """Return the body, which is chunked if a gateway lets a filter change it."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_HEAD = do_POST = _respond  # noqa: N815 - the base class's names

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""
