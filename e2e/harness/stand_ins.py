"""What plays a program that does not run here: each in a thread of its own while a `with` lasts."""

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
    """Base of all stand-ins; use them as context managers.

    What breaks in the thread is raised at the end of the `with`, unless that ends by another error.
    """

    _thread: threading.Thread
    _broken: BaseException | None = None

    @abstractmethod
    def work(self) -> None:
        """Do what is to be done until `stop` is called; runs in the thread."""

    @abstractmethod
    def stop(self) -> None:
        """Let `work` return."""

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - a thread's errors are lost, unless kept
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
    """What a client asked."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What it is told."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpStandIn(StandIn):
    """Listens from its construction on, and answers while the `with` lasts."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        """Start to listen; port 0 is any that is free."""
        self._http = _Http((address, port), _Handler)
        self._http.owner = self
        self.port: int = self._http.server_port

    @abstractmethod
    def answer(self, request: Request) -> Answer:
        """Answer one request; several may be asked at a time."""

    def work(self) -> None:
        self._http.serve_forever(0.05)

    def stop(self) -> None:
        """Stop listening, and end the connections that clients keep."""
        self._http.end()


class _Http(ThreadingHTTPServer):
    owner: HttpStandIn
    daemon_threads = False  # they are awaited, so that nothing answers after the end

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
        for kept in tuple(self._open):
            with suppress(OSError):  # its client may just have left
                kept.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave: a program that is ended does so at any moment."""
        if not self._ending and not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # pickers keep their connections
    server: _Http

    def _respond(self) -> None:
        answer = self.server.owner.answer(Request(self.command, self.path, self._body()))
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers}
        for name, value in {**headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _body(self) -> bytes:
        """The body, also in pieces: gateways that let it be changed do not know its length."""
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
