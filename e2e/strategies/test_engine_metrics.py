"""Pickers see the load of each engine, and hold requests only while no pod can take them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import Object
from e2e.routers import picker_versions
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Fleet, same

ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--enable-metrics"]


@pytest.fixture
def mixed(fleet: Fleet) -> Iterator[Fleet]:
    """The three pods, which play vLLM again afterwards."""
    yield fleet
    play(fleet, "vllm")


def play(fleet: Fleet, engine: str) -> None:
    """Let all stand-ins serve the metrics of an engine."""
    for stand_in in fleet.engines.values():
        stand_in.name = engine


def sglang(manifest: Object) -> Object:
    (container,) = manifest["spec"]["roles"][1]["template"]["spec"]["containers"]
    port = container["args"][container["args"].index("--port") + 1]
    container |= {"image": "lmsysorg/sglang:v0.5.4", "command": SGLANG, "args": ["--port", port]}
    return manifest


@picker_versions("Pickers recognize busy vLLM and SGLang pods by the engines' metrics")
@ENGINES
def test_busy_pod_gets_no_requests(mixed: Fleet, version: str, engine: str) -> None:
    play(mixed, engine)
    (pod, *_) = sorted(mixed.engines)
    with mixed.picker(version, sglang if engine == "sglang" else same) as picker:
        mixed.load({pod: Load(waiting=50)})
        mixed.wait_scraped()
        assert picker.picks(20)[pod] == 0
        mixed.load({pod: Load(kv_cache=0.9)})
        mixed.wait_scraped()
        assert picker.picks(20)[pod] == 0
