"""Overhead of Envoy and the endpoint picker, compared with direct requests to the pod."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from e2e.serve.deploy import deployed
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load
from e2e.serve.services import MODEL, role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

ROUNDS = 4
REQUESTS = 40
TOKENS = 32
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ways:
    """Direct and routed addresses of a pod, and the processes of all programs involved."""

    addresses: Mapping[str, tuple[str, str]]
    programs: Mapping[str, list[int]]

    def seconds(self) -> dict[str, float]:
        return {name: sum(map(_seconds, pids)) for name, pids in self.programs.items()}


def _seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.fixture(scope="module")
def ways(running: Serving) -> Iterator[Ways]:
    with deployed(running, router(), role()) as service:
        (pod,), (picker,) = service.pods(), service.pods("app=svc-epp")
        requests = Gateway(running.cluster, service.namespace, "svc-httproute", sends_answers=False)
        gateways = {"path": service.gateway, "path without answers": requests}
        direct = f"http://{pod['status']['podIP']}:8000"
        yield Ways(
            {"pod": (direct, ""), **{way: (g.url, g.host) for way, g in gateways.items()}},
            {
                "engine": list(running.processes(pod)),
                "picker": list(running.processes(picker)),
                "Envoy": [gateway.program.pid for gateway in gateways.values()],
                "clients": [os.getpid()],
            },
        )
        requests.close()


@pytest.mark.verifies(
    "If the gateway does not send answers to the endpoint picker, both use less CPU time"
)
@pytest.mark.parametrize("clients", [1, 4])
def test_cost(ways: Ways, clients: int) -> None:
    rates: dict[str, list[float]] = {way: [] for way in ways.addresses}
    firsts: dict[str, list[float]] = {way: [] for way in ways.addresses}
    used = {way: dict.fromkeys(ways.programs, 0.0) for way in ways.addresses}
    tokens = dict.fromkeys(ways.addresses, 0)
    for _ in range(ROUNDS):
        for way, (url, host) in ways.addresses.items():
            before, started = ways.seconds(), time.monotonic()
            with Load(url, MODEL, host=host, clients=clients, tokens=TOKENS, pause=0) as load:
                load.wait(REQUESTS * clients)
            assert load.failed() == []
            rates[way].append(len(load.answers) / (time.monotonic() - started))
            firsts[way] += [answer.first for answer in load.answers]
            tokens[way] += sum(answer.tokens for answer in load.answers)
            for name, seconds in ways.seconds().items():
                used[way][name] += seconds - before[name]
    rate = {way: median(values) for way, values in rates.items()}
    for way in ways.addresses:
        shares = ", ".join(
            f"{name} {seconds / tokens[way] * 1e6:.0f}" for name, seconds in used[way].items()
        )
        print(
            f"{clients} clients, {way}: {rate[way]:.1f} requests per second, first token after "
            f"{median(firsts[way]) * 1000:.1f} ms, microseconds of CPU time per token: "
            f"{shares}"
        )
    for way in list(ways.addresses)[1:]:
        print(f"{rate['pod'] / rate[way]:.2f} times fewer requests by the {way}")
    cost = {way: (used[way]["picker"] + used[way]["Envoy"]) / tokens[way] for way in ways.addresses}
    assert cost["path without answers"] < 0.75 * cost["path"]
