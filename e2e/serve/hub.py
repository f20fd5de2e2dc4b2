"""A stand-in for a model hub: it serves the tiny model's files as Hugging Face's API does."""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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
