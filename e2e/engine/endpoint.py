"""Plays what a client reaches: answers `/v1/models` as a model server would, after a while."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class EndpointStandIn:
    """Listens on loopback; use it as a context manager.

    Attributes:
        port: Where it listens.
        asked: When it was asked, and the status that it answered.
    """

    def __init__(self, *, unready: float = 0.0) -> None:
        """Starts to listen.

        Args:
            unready: Seconds from the first request until it serves; before, it answers 503.
        """
        self.asked: list[tuple[float, int]] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                now = time.monotonic()
                first = stand_in.asked[0][0] if stand_in.asked else now
                there = self.path == "/v1/models" and now - first >= unready
                status = 200 if there else 503
                stand_in.asked.append((now, status))
                self.send_response(status)
                self.end_headers()
                if there:
                    self.wfile.write(json.dumps({"object": "list", "data": []}).encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> EndpointStandIn:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
