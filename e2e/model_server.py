"""A stand-in for a model server: it answers completions, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class ModelServer:
    """One stand-in; use it as a context manager.

    Attributes:
        requests: The bodies of the completions that it was asked for, in order.
    """

    def __init__(self, address: str, port: int, answer: Mapping[str, Any]) -> None:
        """Decide where it listens, and what it adds to every answer."""
        self.requests: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                asked = json.loads(self.rfile.read(length))
                server.requests.append(asked)
                self._answer({"object": "text_completion", "choices": [], **answer})

            def do_GET(self) -> None:
                self._answer({})

            def _answer(self, body: Mapping[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Nothing: what was asked is in `requests`."""

        self._http = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
