"""A stand-in for the engine in a pod: it serves the metrics of vLLM that pickers read."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any

MODEL = "m"


@dataclass(frozen=True)
class Load:
    """How busy an engine is.

    Attributes:
        waiting: Requests that wait.
        running: Requests that run.
        kv_cache: Share of the KV cache that is used, from 0 to 1.
        adapters: LoRA adapters of the requests that run.
        queued_adapters: LoRA adapters of the requests that wait.
        max_lora: Adapters that fit at a time.
        block_size: Tokens in a block of the KV cache; None for an engine that does not say.
    """

    waiting: int = 0
    running: int = 0
    kv_cache: float = 0.0
    adapters: tuple[str, ...] = ()
    queued_adapters: tuple[str, ...] = ()
    max_lora: int = 2
    block_size: int | None = 16

    def metrics(self) -> str:
        """As vLLM writes them today: the KV cache under its new name only."""
        engine = f'engine="0",model_name="{MODEL}"'
        lora = (
            f'max_lora="{self.max_lora}",'
            f'running_lora_adapters="{",".join(self.adapters)}",'
            f'waiting_lora_adapters="{",".join(self.queued_adapters)}"'
        )
        gauges = [
            ("vllm:num_requests_waiting", engine, self.waiting),
            ("vllm:num_requests_running", engine, self.running),
            ("vllm:kv_cache_usage_perc", engine, self.kv_cache),
            ("vllm:lora_requests_info", lora, time.time()),
        ]
        if self.block_size is not None:
            cache = f'block_size="{self.block_size}",engine="0",num_gpu_blocks="1000"'
            gauges.append(("vllm:cache_config_info", cache, 1))
        return "".join(
            f"# HELP {name} x\n# TYPE {name} gauge\n{name}{{{labels}}} {value}\n"
            for name, labels, value in gauges
        )


class Engine:
    """One stand-in at a pod's address; use it as a context manager.

    Attributes:
        endpoint: `address:port`, as pickers name it.
        load: What its metrics say; may be set at any time.
        scrapes: How often its metrics were read.
    """

    def __init__(self, address: str, port: int) -> None:
        self.endpoint = f"{address}:{port}"
        self.load = Load()
        self.scrapes = 0
        self._http = _Http((address, port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.ending = True
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingMixIn, HTTPServer):
    owner: Engine
    ending = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a picker that is ended leaves its connections at any moment."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # pickers keep their connections
    timeout = 5
    server: _Http

    def do_GET(self) -> None:
        owner = self.server.owner
        found = self.path == "/metrics"
        body = owner.load.metrics().encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        if self.server.ending:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        owner.scrapes += found

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep the output of the tests clean."""
