"""From zero: what a real picker does with a request while no pod is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.harness import Cluster
from e2e.routers import only, picker_versions
from e2e.strategies.fleet import PATIENCE, PLAIN, Chooser, Fleet
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

HOLDS = {**PLAIN, "flowControl": True, "metrics": "Unauthenticated"}
#: The family of each picker that runs here and can hold requests.
HOLDING = {"1.5": FAMILIES["gaie-1.5"], "llm-d": FAMILIES["llm-d-0.10"]}


@pytest.fixture
def empty(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    with Fleet(cluster, namespace) as fleet:
        yield fleet


def gauge(chooser: Chooser, metric: str) -> float:
    found = re.findall(rf"^{metric}(?:{{.*}})? (\S+)$", chooser.picker.metrics(), re.MULTILINE)
    return sum(map(float, found))


@picker_versions("With flow control, a picker holds a request until the first pod serves", *HOLDING)
def test_picker_queues_requests_until_a_pod_serves(empty: Fleet, version: str) -> None:
    flow = HOLDING[version].flow_control
    assert flow is not None
    body = {"model": "m", "prompt": "Wake up."}
    with empty.picker(version, endpointPicker=HOLDS) as chooser, ThreadPoolExecutor() as threads:
        asked = threads.submit(chooser.processor.ask, body, timeout=4 * PATIENCE)
        empty.cluster.wait(
            lambda: gauge(chooser, flow.queued) == 1, PATIENCE, chooser.picker.metrics
        )
        assert not asked.done()
        empty.deploy("svc", pods=2)
        answer = asked.result(4 * PATIENCE)
        assert answer.endpoint in {engine.endpoint for engine in empty.engines.values()}
        empty.cluster.wait(
            lambda: gauge(chooser, flow.queued) == 0, PATIENCE, chooser.picker.metrics
        )


@pytest.mark.proves("Without flow control, an empty pool answers 503")
@pytest.mark.parametrize(
    ("version", "gate"), [("1.2", "plain"), ("1.2", "gated"), ("1.5", "plain")]
)
def test_picker_without_flow_control_answers_503(empty: Fleet, version: str, gate: str) -> None:
    objects = empty.routing(version)
    if gate == "gated":
        data = only(objects, "ConfigMap")["data"]
        (key,) = data
        data[key] += "featureGates: [flowControl]\n"
    with empty.run(version, objects) as chooser:
        assert chooser.ask().status == 503
