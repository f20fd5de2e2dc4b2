"""Requests while a component is replaced, fails or hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from e2e.harness.pods import LEADERS, is_ready
from e2e.serve.deploy import Deployed, apply_service, deploy_service
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, RequestResult, describe_failures, describe_latency
from e2e.serve.services import MODEL, role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

PICKERS = "app=svc-epp"
LONG_TOKENS = 3900
"""A CPU needs at least 20 s for so many tokens."""

CLIENT_TIMEOUT = 10.0
"""Client timeout in seconds."""

TWO_PICKERS = {"replicas": 2}

ENGINES = role(replicas=2, args=("--max-model-len", "4096"))


@pytest.fixture(scope="module")
def stack(running: Serving) -> Iterator[Deployed]:
    """Deploy two replicas behind an Envoy that cannot choose pods without the picker."""
    with deploy_service(running, router(), ENGINES) as service:
        yield service


@contextmanager
def freeze(processes: Sequence[int]) -> Iterator[float]:
    """Freeze processes until the context ends; yield the time."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def wait_replaced(service: Deployed, old: set[str], count: int, seconds: float) -> None:
    """Wait until this many endpoint pickers exist, and the old ones are gone."""
    cluster = service.running.cluster

    def are_replaced() -> bool:
        pods = cluster.pods(service.namespace, PICKERS)
        return len(pods) == count and not old & {pod["metadata"]["uid"] for pod in pods}

    cluster.wait(are_replaced, seconds)


def report(name: str, answers: Sequence[RequestResult], start: float) -> list[RequestResult]:
    later = [answer for answer in answers if answer.started + answer.seconds >= start]
    print(f"{name}: {describe_latency(later)}; {describe_failures(later)}")
    failed = [answer for answer in later if answer.error]
    if failed:
        last = max(answer.started + answer.seconds for answer in failed) - start
        print(f"{name}: the last request failed after {last:.1f} s")
    return failed


@pytest.mark.verifies("A new endpoint picker configuration loses no request")
def test_new_picker_configuration_loses_no_request(stack: Deployed) -> None:
    running = stack.running
    old = stack.uids(PICKERS)
    # This Envoy chooses a pod if the picker does not respond.
    fail_open = Gateway(running.cluster, stack.namespace, "svc-httproute", stack.pods())
    loads = {"closed": stack.load(), "open": Load(fail_open.url, MODEL, host=fail_open.host),
             "long": stack.load(tokens=LONG_TOKENS, clients=1)}  # fmt: skip

    with loads["closed"] as closed, loads["open"], loads["long"]:
        closed.wait(20)
        start = time.monotonic()
        scorers = {"queue": 1, "prefix-cache": 1}
        apply_service(running, stack.namespace, router(scorers=scorers), ENGINES)
        wait_replaced(stack, old, 1, 180)
        print(f"the old picker was gone after {time.monotonic() - start:.0f} s")
        closed.wait(20)
    fail_open.close()
    failed = [report(f"configuration, {name}", load.answers, start) for name, load in loads.items()]
    assert failed == [[], [], []]


@pytest.mark.verifies("A killed endpoint picker is back within 20 s")
def test_killed_picker_returns(stack: Deployed) -> None:
    running = stack.running
    (picker,) = stack.pods(PICKERS)
    # This Envoy chooses a pod if the picker does not respond.
    fail_open = Gateway(running.cluster, stack.namespace, "svc-httproute", stack.pods())
    loads = {"closed": stack.load(), "open": Load(fail_open.url, MODEL, host=fail_open.host)}
    with loads["closed"] as closed, loads["open"]:
        closed.wait(20)
        start = time.monotonic()
        for process in running.processes(picker):
            os.kill(process, signal.SIGKILL)
        time.sleep(20)
        recovered = time.monotonic()
        closed.wait(20)
    fail_open.close()
    failed = {name: report(f"killed, {name}", load.answers, start) for name, load in loads.items()}
    assert failed["closed"]
    assert not [a for answers in failed.values() for a in answers if a.started > recovered]


@pytest.mark.verifies("A frozen engine becomes unready within 45 s and gets no further requests")
def test_frozen_engine_gets_no_requests(stack: Deployed) -> None:
    pod, _ = stack.pods()
    name = pod["metadata"]["name"]
    processes = stack.running.processes(pod)
    cluster = stack.running.cluster
    with stack.load(timeout=CLIENT_TIMEOUT) as load:
        load.wait(20)
        with freeze(list(processes)) as start:
            cluster.wait(lambda: not is_ready(cluster.get("v1/Pod", name, stack.namespace)), 60)
            unready = time.monotonic()
            time.sleep(10)
        load.wait(20)
    print(f"stopped {processes}: not ready after {unready - start:.1f} s")
    failed = report("frozen engine", load.answers, start)
    assert unready - start < 45
    assert failed
    assert [answer for answer in failed if answer.started > unready + 2] == []
    stack.running.wait_ready(stack.namespace, 2, LEADERS)


@pytest.mark.verifies("An engine with a frozen core stays ready; vLLM's /health does not check it")
def test_frozen_engine_core_stays_ready(stack: Deployed) -> None:
    pod, _ = stack.pods()
    name = pod["metadata"]["name"]
    processes = stack.running.processes(pod)
    cores = [process for process, program in processes.items() if "Engine" in program]
    assert cores, processes
    with stack.load(timeout=CLIENT_TIMEOUT) as load:
        load.wait(20)
        with freeze(cores) as start:
            time.sleep(45)
            ready = is_ready(stack.running.cluster.get("v1/Pod", name, stack.namespace))
        load.wait(20)
    failed = report("frozen core", load.answers, start)
    assert ready
    assert failed


@pytest.fixture(scope="module")
def with_two_pickers(running: Serving) -> Iterator[Deployed]:
    """Deploy two replicas and two endpoint pickers that both serve."""
    with deploy_service(running, router(endpointPicker=TWO_PICKERS), ENGINES) as service:
        yield service


@pytest.mark.verifies(
    "With two serving endpoint pickers, planned changes of pickers fail no request"
)
def test_planned_changes_of_two_pickers_lose_no_request(with_two_pickers: Deployed) -> None:
    service = with_two_pickers
    old = service.uids(PICKERS)
    with service.load() as load:
        load.wait(20)
        start = time.monotonic()
        changed = router(endpointPicker=TWO_PICKERS, scorers={"queue": 1, "prefix-cache": 1})
        apply_service(service.running, service.namespace, changed, ENGINES)
        wait_replaced(service, old, 2, 300)
        old |= service.uids(PICKERS)
        for pod in service.pods(PICKERS):
            service.running.cluster.delete("v1/Pod", pod["metadata"]["name"], service.namespace)
            service.running.wait_ready(service.namespace, 2, PICKERS)
        wait_replaced(service, old, 2, 300)
        load.wait(20)
    assert report("planned changes", load.answers, start) == []


@pytest.mark.verifies(
    "With two serving endpoint pickers, a killed one costs requests for at most 3 s"
)
def test_killed_picker_of_two_costs_seconds(with_two_pickers: Deployed) -> None:
    service = with_two_pickers
    pod, _ = service.pods(PICKERS)
    with service.load() as load:
        load.wait(20)
        start = time.monotonic()
        for process in service.running.processes(pod):
            os.kill(process, signal.SIGKILL)
        load.wait(60)
    failed = report("one of two killed", load.answers, start)
    assert [answer for answer in failed if answer.started > start + 3] == []
