"""Completion requests, load generation, and metrics of engines."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import urllib3

from e2e.harness import Object
from e2e.harness.processes import Lifetime


@dataclass(frozen=True)
class RequestResult:
    """The result of a request. Times are in seconds; `first` is the time to the first token."""

    started: float
    first: float
    error: str = ""
    tokens: int = 0
    seconds: float = 0.0


def complete(
    url: str,
    model: str,
    prompt: str,
    *,
    tokens: int = 8,
    host: str = "",
    timeout: float = 120,
    authority: Path | None = None,
) -> Any:
    """Return the response to a prompt.

    Raises:
        AssertionError: If the status is not 200; the message contains the response.
    """
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True}  # fmt: skip
    headers = {"Host": host} if host else {}
    trust: dict[str, Any] = {}
    if authority is not None:
        trust = {"ca_certs": str(authority), "server_hostname": host, "assert_hostname": host}
    with urllib3.PoolManager(timeout=timeout, retries=False, **trust) as pool:
        answer = pool.request("POST", f"{url}/v1/completions", json=body, headers=headers)
    assert answer.status == 200, f"{answer.status}: {answer.data.decode(errors='replace')}"
    return answer.json()


class Load(Lifetime):
    """Context manager for clients that each send one request after the other."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        host: str = "",
        clients: int = 3,
        tokens: int = 8,
        pause: float = 0.2,
        timeout: float = 180,
        prompts: Callable[[int], str] = lambda number: f"the quick brown fox {number}",
    ) -> None:
        self.answers: list[RequestResult] = []
        self._url = f"{url}/v1/completions"
        self.headers = {"Host": host} if host else {}
        # With random weights, responses would otherwise end early.
        self._body = {"model": model, "max_tokens": tokens, "temperature": 0, "stream": True,
                      "ignore_eos": True}  # fmt: skip
        self._pause = pause
        self._timeout = timeout
        self._prompts = prompts
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with urllib3.PoolManager(retries=False, timeout=self._timeout) as pool:
            while not self._stop.is_set():
                self.answers.append(self._send_request(pool))
                self._stop.wait(self._pause)

    def _send_request(self, pool: urllib3.PoolManager) -> RequestResult:
        body = {**self._body, "prompt": self._prompts(next(self._numbers))}
        started = time.monotonic()
        first, tokens, ending = 0.0, 0, "no finish_reason"
        try:
            answer = pool.request(
                "POST", self._url, json=body, headers=self.headers, preload_content=False
            )
            if answer.status != 200:
                text = answer.read().decode(errors="replace")
                return _make_failure(started, f"{answer.status}: {text}")
            for line in answer:
                if line.startswith(b"data: {"):
                    first = first or time.monotonic() - started
                    for choice in json.loads(line[6:]).get("choices") or ():
                        tokens += 1
                        ending = choice.get("finish_reason") or ending
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return _make_failure(started, repr(error), tokens)
        seconds = time.monotonic() - started
        # An engine that shuts down reports "abort" with status 200.
        problem = "" if ending in ("length", "stop") else f"the response ended with {ending}"
        return RequestResult(started, first, problem, tokens, seconds)

    def list_failed(self) -> list[RequestResult]:
        return [answer for answer in self.answers if answer.error]

    def wait(self, count: int, timeout: float = 120) -> None:
        target = len(self.answers) + count
        deadline = time.monotonic() + timeout
        while len(self.answers) < target:
            assert time.monotonic() < deadline, f"{len(self.answers)} answers of {target}"
            time.sleep(0.1)


def _make_failure(started: float, error: str, tokens: int = 0) -> RequestResult:
    seconds = time.monotonic() - started
    return RequestResult(started, seconds, error, tokens, seconds)


def describe_latency(answers: Sequence[RequestResult]) -> str:
    times = sorted(answer.first for answer in answers if not answer.error)
    if not times:
        return f"{len(answers)} requests, all failed"
    late = times[min(len(times) - 1, int(len(times) * 0.99))]
    return (
        f"{len(answers)} requests, {len(answers) - len(times)} failed; time to the first token: "
        f"median {median(times):.2f} s, 99th percentile {late:.2f} s, longest {times[-1]:.2f} s"
    )


def describe_failures(answers: Sequence[RequestResult]) -> str:
    failed = [answer for answer in answers if answer.error]
    if not failed:
        return "no request failed"
    seconds = max(a.started + a.seconds for a in failed) - min(a.started for a in failed)
    reasons = Counter(re.sub(r"0x[0-9a-f]+|\s+", " ", answer.error)[:120] for answer in failed)
    parts = [f"{count} x {reason}" for reason, count in reasons.most_common()]
    return f"{len(failed)} of {len(answers)} failed within {seconds:.1f} s: {'; '.join(parts)}"


REQUESTS = "vllm:request_success_total"
RUNNING = "vllm:num_requests_running"
HIT_TOKENS = "vllm:prefix_cache_hits_total"
BY_SOURCE = "vllm:prompt_tokens_by_source_total"


def sum_metric(text: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's values with these labels in Prometheus's text format."""
    total = 0.0
    for line in text.splitlines():
        match = re.match(rf"{re.escape(name)}(?:\{{(.*)\}})? (\S+)$", line)
        if match and all(f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()):
            total += float(match[2])
    return total


def read_metrics(pod: Object, port: int = 8000) -> str:
    address = pod["status"]["podIP"]
    answer = urllib3.request("GET", f"http://{address}:{port}/metrics", timeout=30, retries=3)
    return answer.data.decode()


def read_by_pod(
    pods: Iterable[Object], name: str, port: int = 8000, **labels: str
) -> dict[str, float]:
    texts = {pod["metadata"]["name"]: read_metrics(pod, port) for pod in pods}
    return {pod: sum_metric(text, name, **labels) for pod, text in texts.items()}
