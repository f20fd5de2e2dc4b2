"""Overhead of Envoy and the endpoint picker, compared with direct requests to the pod."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from e2e.serve.deploy import deploy_service
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
class Routes:
    """Direct and routed addresses of a pod, and the processes of all programs involved."""

    addresses: Mapping[str, tuple[str, str]]
    programs: Mapping[str, list[int]]

    def read_cpu_seconds(self) -> dict[str, float]:
        return {name: sum(map(_read_cpu_seconds, pids)) for name, pids in self.programs.items()}


def _read_cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.fixture(scope="module")
def routes(running: Serving) -> Iterator[Routes]:
    with deploy_service(running, router(), role()) as service:
        (pod,), (picker,) = service.pods(), service.pods("app=svc-epp")
        requests = Gateway(running.cluster, service.namespace, "svc-httproute", sends_answers=False)
        gateways = {"path": service.gateway, "path without answers": requests}
        direct = f"http://{pod['status']['podIP']}:8000"
        yield Routes(
            {"pod": (direct, ""), **{route: (g.url, g.host) for route, g in gateways.items()}},
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
def test_gateway_without_answers_uses_less_cpu(routes: Routes, clients: int) -> None:
    rates: dict[str, list[float]] = {route: [] for route in routes.addresses}
    latencies: dict[str, list[float]] = {route: [] for route in routes.addresses}
    used = {route: dict.fromkeys(routes.programs, 0.0) for route in routes.addresses}
    tokens = dict.fromkeys(routes.addresses, 0)
    for _ in range(ROUNDS):
        for route, (url, host) in routes.addresses.items():
            before, started = routes.read_cpu_seconds(), time.monotonic()
            with Load(url, MODEL, host=host, clients=clients, tokens=TOKENS, pause=0) as load:
                load.wait(REQUESTS * clients)
            assert load.list_failed() == []
            rates[route].append(len(load.answers) / (time.monotonic() - started))
            latencies[route] += [answer.first for answer in load.answers]
            tokens[route] += sum(answer.tokens for answer in load.answers)
            for name, seconds in routes.read_cpu_seconds().items():
                used[route][name] += seconds - before[name]
    rate = {route: median(values) for route, values in rates.items()}
    for route in routes.addresses:
        shares = ", ".join(
            f"{name} {seconds / tokens[route] * 1e6:.0f}" for name, seconds in used[route].items()
        )
        print(
            f"{clients} clients, {route}: {rate[route]:.1f} requests per second, first token after "
            f"{median(latencies[route]) * 1000:.1f} ms, microseconds of CPU time per token: "
            f"{shares}"
        )
    for route in list(routes.addresses)[1:]:
        print(f"{rate['pod'] / rate[route]:.2f} times fewer requests by the {route}")
    cost = {name: (cpu["picker"] + cpu["Envoy"]) / tokens[name] for name, cpu in used.items()}
    assert cost["path without answers"] < 0.75 * cost["path"]
