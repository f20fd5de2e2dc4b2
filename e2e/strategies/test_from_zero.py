"""Requests without ready pods or with busy pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.harness import Cluster, Object
from e2e.routers import picker_versions
from e2e.strategies.engine import Load
from e2e.strategies.fleet import PLAIN, TIMEOUT, Fleet, PickerClient, unchanged
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

FLOW_CONTROL = {**PLAIN, "flowControl": True, "metrics": "Unauthenticated"}
#: Families of the pickers here that can queue requests.
QUEUING = {"1.5": FAMILIES["gaie-1.5"], "llm-d": FAMILIES["llm-d-0.10"]}


@pytest.fixture
def empty(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    with Fleet(cluster, namespace) as fleet:
        yield fleet


def read_gauge(client: PickerClient, metric: str) -> float:
    values = re.findall(rf"^{metric}(?:{{.*}})? (\S+)$", client.picker.metrics(), re.MULTILINE)
    return sum(map(float, values))


@picker_versions("With flow control, a picker queues requests until a pod is ready", *QUEUING)
def test_picker_queues_requests_until_a_pod_serves(empty: Fleet, version: str) -> None:
    flow = QUEUING[version].flow_control_metrics
    assert flow is not None
    body = {"model": "m", "prompt": "Wake up."}
    with (
        empty.run_picker(version, endpointPicker=FLOW_CONTROL) as client,
        ThreadPoolExecutor() as threads,
    ):
        response = threads.submit(client.processor.send_request, body, timeout=4 * TIMEOUT)
        empty.cluster.wait(
            lambda: read_gauge(client, flow.queued) == 1, TIMEOUT, client.picker.metrics
        )
        assert not response.done()
        empty.deploy("svc", pods=2)
        answer = response.result(4 * TIMEOUT)
        assert answer.endpoint in {engine.endpoint for engine in empty.engines.values()}
        empty.cluster.wait(
            lambda: read_gauge(client, flow.queued) == 0, TIMEOUT, client.picker.metrics
        )


@pytest.mark.verifies("Without flow control, an empty pool answers 503")
@pytest.mark.parametrize("version", ["1.2", "1.5"])
def test_picker_without_flow_control_answers_503(empty: Fleet, version: str) -> None:
    with empty.run_picker(version) as client:
        assert client.send_request().status == 503


ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--enable-metrics"]


@pytest.fixture
def mixed(fleet: Fleet) -> Iterator[Fleet]:
    """Return the shared fleet; its pods become vLLM again afterwards."""
    yield fleet
    set_engine(fleet, "vllm")


def set_engine(fleet: Fleet, engine: str) -> None:
    for stand_in in fleet.engines.values():
        stand_in.name = engine


def use_sglang(manifest: Object) -> Object:
    (container,) = manifest["spec"]["roles"][1]["template"]["spec"]["containers"]
    port = container["args"][container["args"].index("--port") + 1]
    container |= {"image": "lmsysorg/sglang:v0.5.4", "command": SGLANG, "args": ["--port", port]}
    return manifest


@picker_versions("Pickers recognize busy vLLM and SGLang pods by the engines' metrics")
@ENGINES
def test_busy_pod_gets_no_requests(mixed: Fleet, version: str, engine: str) -> None:
    set_engine(mixed, engine)
    (pod, *_) = sorted(mixed.engines)
    with mixed.run_picker(version, use_sglang if engine == "sglang" else unchanged) as picker:
        mixed.load({pod: Load(waiting=50)})
        mixed.wait_scraped()
        assert picker.pick_many(20)[pod] == 0
        mixed.load({pod: Load(kv_cache=0.9)})
        mixed.wait_scraped()
        assert picker.pick_many(20)[pod] == 0


@picker_versions("With flow control, a busy pod does not block requests to other pods", *QUEUING)
@ENGINES
def test_busy_pod_does_not_block_requests(mixed: Fleet, version: str, engine: str) -> None:
    set_engine(mixed, engine)
    (pod, *_) = sorted(mixed.engines)
    change = use_sglang if engine == "sglang" else unchanged
    with mixed.run_picker(version, change, endpointPicker=FLOW_CONTROL) as picker:
        mixed.load({pod: Load(waiting=500, running=100, kv_cache=1.0)})
        mixed.wait_scraped()
        assert picker.pick_many(20)[pod] == 0
        mixed.load(default=Load(waiting=12))
        mixed.wait_scraped()
        assert picker.pick_many(20).total() == 20, "the picker queued requests"


@picker_versions(
    "With flow control, a picker queues requests while all KV caches are full", *QUEUING
)
@ENGINES
def test_requests_queue_while_all_kv_caches_are_full(
    mixed: Fleet, version: str, engine: str
) -> None:
    set_engine(mixed, engine)
    change = use_sglang if engine == "sglang" else unchanged
    with (
        mixed.run_picker(version, change, endpointPicker=FLOW_CONTROL) as picker,
        ThreadPoolExecutor() as threads,
    ):
        mixed.load(default=Load(kv_cache=1.0))
        mixed.wait_scraped()
        response = threads.submit(picker.send_request)
        _wait_queued(mixed, picker, version)
        assert not response.done()
        mixed.load({sorted(mixed.engines)[0]: Load()}, default=Load(kv_cache=1.0))
        assert response.result(60).endpoint is not None


@picker_versions("With flow control, engines without metrics get no requests (rejected)", *QUEUING)
def test_requests_queue_while_engines_serve_no_metrics(mixed: Fleet, version: str) -> None:
    set_engine(mixed, "none")
    with (
        mixed.run_picker(version, endpointPicker=FLOW_CONTROL) as picker,
        ThreadPoolExecutor() as threads,
    ):
        mixed.wait_scraped()
        response = threads.submit(picker.send_request)
        _wait_queued(mixed, picker, version)
        assert not response.done()
        set_engine(mixed, "vllm")
        assert response.result(60).endpoint is not None


def _wait_queued(fleet: Fleet, picker: PickerClient, version: str) -> None:
    flow = QUEUING[version].flow_control_metrics
    assert flow is not None
    fleet.cluster.wait(lambda: read_gauge(picker, flow.queued) == 1, 60, picker.picker.metrics)
