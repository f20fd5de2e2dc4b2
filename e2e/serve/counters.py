"""What engines count, read from the pods themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

import urllib3

from e2e.harness import Object

REQUESTS = "vllm:request_success_total"
RUNNING = "vllm:num_requests_running"
HIT_TOKENS = "vllm:prefix_cache_hits_total"
BY_SOURCE = "vllm:prompt_tokens_by_source_total"


def counter(text: str, name: str, **labels: str) -> float:
    """The sum of a metric's values with these labels, in Prometheus text form; 0 without any."""
    total = 0.0
    for line in text.splitlines():
        match = re.match(rf"{re.escape(name)}(?:\{{(.*)\}})? (\S+)$", line)
        if match and all(f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()):
            total += float(match[2])
    return total


def metrics(pod: Object, port: int = 8000) -> str:
    address = pod["status"]["podIP"]
    answer = urllib3.request("GET", f"http://{address}:{port}/metrics", timeout=30, retries=3)
    return answer.data.decode()


def by_pod(pods: Iterable[Object], name: str, port: int = 8000, **labels: str) -> dict[str, float]:
    return {pod["metadata"]["name"]: counter(metrics(pod, port), name, **labels) for pod in pods}
