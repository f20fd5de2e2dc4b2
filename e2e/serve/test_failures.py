"""Serves: what clients see when something under them is replaced, fails or hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.harness import Object
from e2e.harness.pods import LEADERS, is_ready
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Answer, Load, figures, outage
from e2e.serve.services import MODEL, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

PICKERS = "app=svc-epp"
LONG_TOKENS = 3900
"""Take an engine at least 20 s on a processor."""

PATIENCE = 10.0
"""Seconds after which a client gives up."""


class Stack:
    """A service of two replicas behind two Envoys.

    Attributes:
        running: The cluster.
        namespace: Of the service.
        closed: An Envoy that has no pods of its own: without the picker it knows no pod.
        opened: An Envoy that chooses a pod itself where the picker does not answer.
    """

    def __init__(self, running: Serving) -> None:
        self.running = running
        self.namespace = running.cluster.new_namespace()
        self.deploy()
        self.closed = Gateway(running.cluster, self.namespace, "svc-httproute")
        self.opened = Gateway(running.cluster, self.namespace, "svc-httproute", self.pods())

    def deploy(self, **routing: Any) -> None:
        engines = role(replicas=2, args=("--max-model-len", "4096"))
        objects = objects_of(service(self.namespace, router(**routing), engines))
        self.running.apply(objects)
        wait_serving(self.running, objects, self.namespace)

    def pods(self) -> list[Object]:
        return self.running.pods(self.namespace, LEADERS)

    def picker(self) -> Object:
        (pod,) = self.running.pods(self.namespace, PICKERS)
        return pod

    def load(
        self, gateway: Gateway, tokens: int = 8, clients: int = 2, timeout: float = 180
    ) -> Load:
        return Load(gateway.url, MODEL, host=gateway.host, clients=clients, tokens=tokens,
                    timeout=timeout)  # fmt: skip


@pytest.fixture(scope="module")
def stack(running: Serving) -> Iterator[Stack]:
    made = Stack(running)
    yield made
    made.closed.close()
    made.opened.close()
    running.cluster.delete_namespace(made.namespace)


@contextmanager
def stopped(processes: Sequence[int]) -> Iterator[float]:
    """Stop processes for a while; yield when that was."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def tell(name: str, answers: Sequence[Answer], since: float) -> list[Answer]:
    later = [answer for answer in answers if answer.started + answer.seconds >= since]
    print(f"{name}: {figures(later)}; {outage(later)}")
    failed = [answer for answer in later if answer.error]
    if failed:
        last = max(answer.started + answer.seconds for answer in failed) - since
        print(f"{name}: the last one failed {last:.1f} s after that")
    return failed


@pytest.mark.proves("A new endpoint picker configuration loses no request")
def test_new_picker_configuration_loses_no_request(stack: Stack) -> None:
    old = stack.picker()["metadata"]["uid"]
    loads = {"closed": stack.load(stack.closed), "open": stack.load(stack.opened),
             "long": stack.load(stack.closed, LONG_TOKENS, clients=1)}  # fmt: skip

    def is_gone() -> bool:
        pods = stack.running.cluster.pods(stack.namespace, PICKERS)
        return len(pods) == 1 and pods[0]["metadata"]["uid"] != old

    with loads["closed"] as closed, loads["open"], loads["long"]:
        closed.wait(20)
        since = time.monotonic()
        stack.deploy(scorers={"queue": 1, "prefix-cache": 1})
        stack.running.cluster.wait(is_gone, 180)
        print(f"the old picker was gone after {time.monotonic() - since:.0f} s")
        closed.wait(20)
    failed = [tell(f"configuration, {way}", load.answers, since) for way, load in loads.items()]
    assert failed == [[], [], []]


@pytest.mark.proves("A frozen engine becomes unready within 45 s and gets no further requests")
def test_frozen_engine_gets_no_requests(stack: Stack) -> None:
    victim, _ = stack.pods()
    name = victim["metadata"]["name"]
    processes = stack.running.processes(victim)
    cluster = stack.running.cluster
    with stack.load(stack.closed, timeout=PATIENCE) as load:
        load.wait(20)
        with stopped(list(processes)) as since:
            cluster.wait(lambda: not is_ready(cluster.get("v1/Pod", name, stack.namespace)), 60)
            out = time.monotonic()
            time.sleep(10)
        load.wait(20)
    print(f"stopped {processes}: not ready after {out - since:.1f} s")
    failed = tell("stands still", load.answers, since)
    assert out - since < 45
    assert failed
    assert [answer for answer in failed if answer.started > out + 2] == []
    stack.running.wait_ready(stack.namespace, 2, LEADERS)
