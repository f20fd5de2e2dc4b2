"""A canary from 5 % to 100 % of the requests and back, as docs/how-to/canary.md has it.

Requests come by a real Envoy and llm-d's picker. The engines are stand-ins, which answer with the
name that they are asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import urllib3

from e2e.harness import Cluster, Object
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.rewrites import DEFINITIONS, decisions, with_llm_d_rewrites
from e2e.routers import HOST, NEEDS_LLM_D, PARENT, only
from e2e.serve.gateway import binary, bootstrap
from e2e.strategies.fleet import PLAIN, Fleet

REQUESTS = 300
#: The canary's requests of so many; shares outside of them are drawn once in a million runs.
BOUNDS = {5: (1, 40), 50: (105, 195), 100: (300, 300), 0: (0, 0)}


@pytest.fixture
def envoy() -> Path:
    """Envoy's program."""
    try:
        return binary()
    except ValueError:
        pytest.skip("Envoy is not there: make serve-tools")


@pytest.fixture(autouse=True)
def _llm_d_kind(cluster: Cluster) -> Iterator[None]:
    definition = with_llm_d_rewrites(cluster)
    yield
    cluster.delete(DEFINITIONS, definition)


@NEEDS_LLM_D
@pytest.mark.proves(
    "A canary gets 5, 50, 100 and 0 % of requests without failures (llm-d's picker)",
    needs="llm-d-epp is on PATH and Envoy is installed by `make serve-tools`",
)
def test_canary_goes_up_and_back(fleet: Fleet, cluster: Cluster, envoy: Path) -> None:
    objects = _changed(fleet, 5)
    with fleet.run("llm-d", objects) as picker:
        fleet.wait_scraped()
        port, admin = free_ports(2)
        settings = bootstrap(
            only(objects, "HTTPRoute"),
            only(objects, "InferencePool"),
            (LOOPBACK, picker.picker.grpc_port),
            (LOOPBACK, port),
            (LOOPBACK, admin),
            secure=False,
        )
        path = cluster.directory / "envoy-canary.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        options = ("--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id")
        command: list[str | Path] = [envoy, "--config-path", path, *options]
        program = cluster.programs.start("envoy-canary", command)
        try:
            wait_http(program, f"http://{LOOPBACK}:{admin}/ready")
            for share, (least, most) in BOUNDS.items():
                _changed(fleet, share)
                # The picker takes the new weights a moment after the API server has them.
                cluster.wait(partial(_took, port, share), 30)
                before = decisions(picker.picker.metrics())
                drawn = Counter(_answered(port) for _ in range(REQUESTS))
                assert decisions(picker.picker.metrics()) - before == drawn
                assert set(drawn) <= {"base", "tuned"}
                assert least <= drawn["tuned"] <= most, (share, drawn)
        finally:
            cluster.programs.stop("envoy-canary")


def _changed(fleet: Fleet, share: int) -> list[Object]:
    """The stored objects of a service whose canary gets this percentage."""
    targets = [{"model": "base", "weight": 100 - share}, {"model": "tuned", "weight": share}]
    rewrites = [{"models": ["chat"], "targets": targets}]
    read = {**PLAIN, "metrics": "Unauthenticated"}
    return fleet.routing("llm-d", strategy="queue-size", httproute=PARENT, modelRewrites=rewrites,
                         endpointPicker=read)  # fmt: skip


def _answered(port: int) -> str:
    """The model that answers a request for `chat`; the client sees `chat`."""
    answer = urllib3.request(
        "POST", f"http://{LOOPBACK}:{port}/v1/completions", timeout=20, retries=False,
        json={"model": "chat", "prompt": "x"}, headers={"Host": HOST["hostnames"][0]},
    )  # fmt: skip
    assert answer.status == 200, answer.data
    output = answer.json()
    assert output["model"] == "chat"
    return str(output["choices"][0]["text"])


def _took(port: int, share: int) -> bool:
    """Whether forty requests look like this share, as all others of the test hardly do."""
    drawn = sum(_answered(port) == "tuned" for _ in range(40))
    return {0: drawn == 0, 5: drawn < 9, 50: 9 <= drawn < 40, 100: drawn == 40}[share]
