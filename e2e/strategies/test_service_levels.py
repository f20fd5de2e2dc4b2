"""Priorities, fairness between tenants, and eviction under overload.

Three simulated pods with four slots each serve a request in `SECONDS`, in order of arrival.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from e2e.harness import Cluster
from e2e.routers import OBJECTIVE, install_llm_d_kind, picker_versions
from e2e.strategies.fleet import Fleet, PickerClient

PODS, SLOTS, SECONDS = 3, 4, 0.3
#: Number of requests that the pods serve in two seconds.
BACKLOG = 2 * int(PODS * SLOTS / SECONDS)
LEVEL, TENANT = "x-llm-d-inference-objective", "x-llm-d-inference-fairness-id"
LEVELS = [{"name": "interactive", "priority": 10}, {"name": "batch", "priority": -10}]
PICKER: dict[str, Any] = {"tls": {"enabled": False}}
WITH_LEVELS = {**PICKER, "serviceLevels": {"levels": LEVELS, "maxConcurrency": SLOTS}}
WITH_EVICTION = {**PICKER, "serviceLevels": {**WITH_LEVELS["serviceLevels"], "evict": True}}
BODY = {"model": "m", "prompt": "Count."}


@pytest.fixture(autouse=True, scope="module")
def _install_llm_d_kind(cluster: Cluster) -> Iterator[None]:
    with install_llm_d_kind(cluster, OBJECTIVE):
        yield


class Overload:
    """Client that sends requests through a picker to pods with slots."""

    def __init__(self, client: PickerClient) -> None:
        self._client = client
        self._slots: dict[str, threading.Semaphore] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(4 * BACKLOG)

    def send(self, level: str, tenant: str = "", count: int = 1) -> list[Any]:
        """Send concurrent requests; return futures of their time to first token in seconds."""
        headers = {LEVEL: f"svc-{level}", **({TENANT: tenant} if tenant else {})}
        return [self._threads.submit(self._serve, headers) for _ in range(count)]

    def _serve(self, headers: dict[str, str]) -> float:
        start = time.monotonic()
        with self._client.processor.hold_request(BODY, headers) as (answer, _):
            assert answer.endpoint is not None, answer
            with self._lock:
                slots = self._slots.setdefault(answer.endpoint, threading.Semaphore(SLOTS))
            with slots:
                waited = time.monotonic() - start
                time.sleep(SECONDS)
        return waited


def measure_waits(client: PickerClient) -> list[float]:
    """Return sorted times to first token of interactive requests behind a batch backlog."""
    overload = Overload(client)
    # On a busy machine the measurement takes more than two seconds.
    batch = overload.send("batch", count=2 * BACKLOG)
    time.sleep(0.3)
    waits = []
    for _ in range(10):
        waits += overload.send("interactive")
        time.sleep(0.1)
    assert not batch[-1].done(), "the pods were not overloaded all the time"
    for request in batch:
        request.result()
    return sorted(request.result() for request in waits)


@picker_versions("Interactive requests keep their time to first token while batch waits", "llm-d")
def test_interactive_requests_pass_waiting_batch_requests(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="queue-size", endpointPicker=PICKER) as client:
        without = measure_waits(client)
    with fleet.run_picker(version, strategy="queue-size", endpointPicker=WITH_LEVELS) as client:
        levelled = measure_waits(client)
    print(f"interactive, median and worst: {without[5]:.2f} {without[-1]:.2f} s without levels, "
          f"{levelled[5]:.2f} {levelled[-1]:.2f} s with")  # fmt: skip
    assert levelled[-1] < 2 * SECONDS
    assert without[5] > 2 * SECONDS, "the backlog did not delay requests of equal priority"


@picker_versions("A tenant with many requests does not delay another one", "llm-d")
def test_tenants_of_one_level_are_served_fairly(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="queue-size", endpointPicker=WITH_LEVELS) as client:
        overload = Overload(client)
        loud = overload.send("batch", "loud", BACKLOG)
        time.sleep(0.3)
        quiet = sorted(request.result() for request in overload.send("batch", "quiet", 10))
        done = sum(request.done() for request in loud)
        print(f"quiet tenant, worst: {quiet[-1]:.2f} s; loud tenant had {done} of {BACKLOG} done")
        assert done < BACKLOG * 0.8
        assert quiet[-1] < 4 * SECONDS
        for request in loud:
            request.result()


@picker_versions("With evict, a waiting request ends a running one of negative priority", "llm-d")
def test_running_batch_request_is_evicted(fleet: Fleet, version: str) -> None:
    with (
        fleet.run_picker(version, strategy="queue-size", endpointPicker=WITH_EVICTION) as client,
        ThreadPoolExecutor(PODS * SLOTS) as threads,
    ):

        def run() -> int:
            with client.processor.hold_request(BODY, {LEVEL: "svc-batch"}) as (answer, messages):
                assert answer.endpoint is not None, answer
                return int(next(messages).immediate_response.status.code)

        running = [threads.submit(run) for _ in range(PODS * SLOTS)]
        time.sleep(1)
        start = time.monotonic()
        with client.processor.hold_request(BODY, {LEVEL: "svc-interactive"}) as (answer, _):
            assert answer.endpoint is not None, answer
            waited = time.monotonic() - start
        ended = [request for request in running if request.done()]
        print(f"waited {waited:.2f} s; ended: {[request.result() for request in ended]}")
        assert ended
        assert all(request.result() == 429 for request in ended)
