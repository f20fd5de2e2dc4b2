"""Serves: a role that goes from zero to two engines and back with its load."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from e2e import keda
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.repeated import repeated
from e2e.serve.deploy import wait_pickers
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, complete, figures, outage
from e2e.serve.prometheus import Prometheus
from e2e.serve.services import MODEL, objects_of, role, router, service
from e2e.serve.serving import START_SECONDS, Serving
from e2e.test_autoscaling import LWS as KIND

pytestmark = [pytest.mark.serve, pytest.mark.long]

LWS = "svc-inference"
SCALED = "keda.sh/v1alpha1/ScaledObject"
PATIENCE = 240
MOST = 2
"""More engines take long to start on two processors that are busy."""
BUSY = 20
"""Clients that keep so many engines busy, two requests at a time each."""


@pytest.fixture(scope="module")
def scaler(running: Serving) -> Iterator[None]:
    reason = keda.absent()
    if reason is not None:
        pytest.skip(reason)
    with keda.keda(running.cluster):
        yield


def scaled(namespace: str, address: str) -> list[Object]:
    """A service of `docs/how-to/autoscaling.md`, whose engines are soon full."""
    autoscaling = {
        "engine": "KEDA",
        "prometheus": address,
        "target": "throughput",
        "minReplicas": 0,
        "maxReplicas": MOST,
        "keda": {"pollingInterval": 2, "cooldownPeriod": 20},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 20}},
    }
    engines = role(args=("--max-num-seqs", "2"), autoscaling=autoscaling)
    (container,) = engines["template"]["spec"]["containers"]
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    picker = {"metrics": "Unauthenticated"}
    return objects_of(
        service(namespace, router(None, endpointPicker=picker), engines, monitoring={})
    )


@pytest.mark.proves("KEDA scales real engines from zero to two and back; no request fails")
def test_engines_follow_their_load(running: Serving, scaler: None) -> None:
    del scaler
    cluster = running.cluster
    namespace = cluster.new_namespace()
    (port,) = free_ports(1)
    objects = scaled(namespace, f"http://{LOOPBACK}:{port}")
    with ExitStack() as stack:
        stack.callback(cluster.delete_namespace, namespace)
        running.apply(objects)
        wait_pickers(running, objects, namespace)
        watcher = Prometheus(cluster, namespace, objects, port=port)
        stack.callback(watcher.close)
        stack.enter_context(watcher.discovering())
        seen: list[int] = []

        def replicas() -> int:
            return int(cluster.get(KIND, LWS, namespace)["spec"]["replicas"])

        def note() -> None:
            if seen[-1:] != [now := replicas()]:
                seen.append(now)

        stack.enter_context(repeated(note, 0.2))
        gateway = Gateway(cluster, namespace, "svc-httproute")
        stack.callback(gateway.close)

        def state() -> object:
            triggers = [item["spec"]["triggers"] for item in cluster.list(SCALED, namespace)]
            queries = [trigger["metadata"]["query"] for trigger in itertools.chain(*triggers)]
            values = {query: watcher.query(query) for query in queries}
            return seen, values, watcher.targets(), running.report(namespace)[-3000:]

        def reaches(count: int) -> None:
            cluster.wait(lambda: replicas() == count, PATIENCE, state)
            if count:
                running.wait_ready(namespace, count, LEADERS)

        def load(clients: int) -> Load:
            return Load(gateway.url, MODEL, host=gateway.host, clients=clients, tokens=256,
                        pause=0, timeout=START_SECONDS)  # fmt: skip

        reaches(0)
        asked = time.monotonic()
        answer = complete(gateway.url, MODEL, "the quick brown fox", host=gateway.host,
                          timeout=START_SECONDS)  # fmt: skip
        assert answer["usage"]["completion_tokens"] == 8
        print(f"the first request was answered after {time.monotonic() - asked:.0f} s")
        with load(1) as small:
            with load(BUSY) as large:
                reaches(MOST)
                large.wait(BUSY, PATIENCE)
            reaches(1)
            small.wait(2, PATIENCE)
        reaches(0)
        note()
    answers = small.answers + large.answers
    print(f"replicas: {seen}; {figures(answers)}")
    assert not [answer for answer in answers if answer.error], outage(answers)
    assert is_one_way(seen), seen


def is_one_way(counts: Sequence[int]) -> bool:
    """Whether replicas go to zero, up to the most, and down to zero again, no step taken back."""
    woken = counts[counts.index(0) :]
    top = woken.index(MOST)
    up, down = woken[: top + 1], woken[top:]
    return up == sorted(up) and down == sorted(down, reverse=True) and down[-1] == 0
