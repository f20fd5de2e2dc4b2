"""A stand-in for an engine: its metrics and short completions."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.harness.stand_ins import HttpStandIn, Request, Response

MODEL = "m"


@dataclass(frozen=True)
class Load:
    """Load of an engine.

    Attributes:
        waiting: Number of waiting requests.
        running: Number of running requests.
        kv_cache: KV cache usage, from 0 to 1.
        adapters: LoRA adapters of running requests.
        queued_adapters: LoRA adapters of waiting requests.
        max_lora: Maximum number of loaded adapters.
        block_size: Tokens in a KV cache block; None omits the metric.
    """

    waiting: int = 0
    running: int = 0
    kv_cache: float = 0.0
    adapters: tuple[str, ...] = ()
    queued_adapters: tuple[str, ...] = ()
    max_lora: int = 2
    block_size: int | None = 16

    def metrics(self, engine: str = "vllm") -> str:
        """Return the metrics of `vllm` or `sglang`, and none for other engines."""
        if engine == "sglang":
            return self._sglang_metrics()
        return self._vllm_metrics() if engine == "vllm" else ""

    def _sglang_metrics(self) -> str:
        labels = f'engine_type="unified",model_name="{MODEL}",pp_rank="0",tp_rank="0"'
        gauges = [
            ("sglang:num_queue_reqs", labels, self.waiting),
            ("sglang:num_running_reqs", labels, self.running),
            ("sglang:token_usage", labels, self.kv_cache),
        ]
        return _format_metrics(gauges)

    def _vllm_metrics(self) -> str:
        # Current vLLM releases report the KV cache only under its new name.
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
        return _format_metrics(gauges)


def _format_metrics(gauges: Sequence[tuple[str, str, float]]) -> str:
    return "".join(
        f"# HELP {name} x\n# TYPE {name} gauge\n{name}{{{labels}}} {value}\n"
        for name, labels, value in gauges
    )


class Engine(HttpStandIn):
    """Context manager for a stand-in at a pod's address."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address, port)
        self.endpoint = f"{address}:{port}"
        self.load = Load()
        self.name = "vllm"
        self.scrapes = 0
        self.completions = 0

    def respond(self, request: Request) -> Response:
        if request.path == "/v1/completions":
            self.completions += 1
            model = json.loads(request.body)["model"]
            answered = {"object": "text_completion", "model": model, "choices": [{"text": model}]}
            return Response(body=json.dumps(answered).encode())
        if request.path != "/metrics":
            return Response(404)
        self.scrapes += 1
        text = {"Content-Type": "text/plain; version=0.0.4"}
        return Response(body=self.load.metrics(self.name).encode(), headers=text)
