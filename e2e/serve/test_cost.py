"""Serves: what the way through Envoy and the endpoint picker costs, against the pod itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import pytest

from e2e.harness.pods import LEADERS
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load
from e2e.serve.services import MODEL, NEED, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

ROUNDS = 5
REQUESTS = 25


@pytest.fixture(scope="module")
def ways(running: Serving) -> Iterator[dict[str, tuple[str, str]]]:
    """Address and host name of the pod, and of the gateway in front of it."""
    namespace = running.cluster.new_namespace()
    objects = objects_of(service(namespace, router(), role()))
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    (pod,) = running.pods(namespace, LEADERS)
    direct = f"http://{pod['status']['podIP']}:8000"
    yield {"pod": (direct, ""), "path": (gateway.url, gateway.host)}
    gateway.close()
    running.cluster.delete_namespace(namespace)


@pytest.mark.proves(
    "requests of one client through Envoy and the endpoint picker, in turns with requests to the "
    "pod itself: at most 1.15 times fewer a second; at most twice fewer with four clients that "
    "leave no processor idle",
    needs=NEED,
)
@pytest.mark.parametrize(("clients", "limit"), [(1, 1.15), (4, 2.0)])
def test_cost(ways: dict[str, tuple[str, str]], clients: int, limit: float) -> None:
    rates: dict[str, list[float]] = {way: [] for way in ways}
    firsts: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, (url, host) in ways.items():
            started = time.monotonic()
            with Load(url, MODEL, host=host, clients=clients, tokens=32, pause=0) as load:
                load.wait(REQUESTS)
            assert load.failed() == []
            rates[way].append(len(load.answers) / (time.monotonic() - started))
            firsts[way] += [answer.first for answer in load.answers]
    rate = {way: median(values) for way, values in rates.items()}
    first = {way: median(values) for way, values in firsts.items()}
    added = (first["path"] - first["pod"]) * 1000
    print(
        f"{clients} clients: {rate['pod']:.1f} requests a second at the pod, {rate['path']:.1f} "
        f"through the path ({rate['pod'] / rate['path']:.2f} times fewer); first token after "
        f"{first['pod'] * 1000:.1f} and {first['path'] * 1000:.1f} ms ({added:.1f} ms more)"
    )
    assert rate["pod"] / rate["path"] < limit
