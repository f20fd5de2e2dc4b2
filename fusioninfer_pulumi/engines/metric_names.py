"""Names of the engines' load metrics, and of all metrics of each engine release."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple

from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.generated import DIRECTORY


class LoadMetrics(NamedTuple):
    """Names of an engine's load metrics."""

    running: str  #: running requests
    waiting: str  #: waiting requests
    kv_cache: str  #: KV cache usage, from 0 to 1
    lora: str = ""  #: LoRA adapters, in vLLM's format; empty if there is no such metric
    cache: str = ""  #: block size and number of blocks, in vLLM's labels; empty if there is none
    ttft: str = ""  #: histogram of the time to first token, in seconds
    itl: str = ""  #: histogram of the time between two tokens, in seconds


#: vLLM's metrics: the defaults of the inference extension from v1.3 on and of all llm-d pickers.
VLLM_METRICS = LoadMetrics(
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv_cache="vllm:kv_cache_usage_perc",
    lora="vllm:lora_requests_info",
    cache="vllm:cache_config_info",
    ttft="vllm:time_to_first_token_seconds",
    itl="vllm:inter_token_latency_seconds",
)

#: Written by `tools/engine_metrics.py`.
FILE = DIRECTORY / "engine_metrics.json"
METRICS_SOURCE = "sources of each release, tools/engine_metrics.py"
#: A metric in a query, a flag or a dashboard.
METRIC = re.compile(r"\b(?P<engine>vllm|sglang):(?P<name>[a-z][a-z0-9_]*)")

_SUFFIXES = re.compile(r"_(total|bucket|sum|count|created)$")


def strip_suffix(metric: str) -> str:
    """Return a metric's name without the suffix that Prometheus clients add for its type."""
    return _SUFFIXES.sub("", metric)


def has_metric(metric: str, engine: str, release: str | None) -> bool | None:
    """Return whether an engine's release has a metric, or None if that is unknown."""
    if not metric.startswith(f"{engine}:"):
        return False
    table = _load_tables()[engine]
    oldest, newest = map(parse_release, table["releases"])
    releases = table["metrics"].get(strip_suffix(metric))
    if release is None or releases is None or not oldest <= parse_release(release) <= newest:
        return None
    since, until = releases
    number = parse_release(release)
    return parse_release(since) <= number and (until is None or number < parse_release(until))


@cache
def _load_tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return tables
