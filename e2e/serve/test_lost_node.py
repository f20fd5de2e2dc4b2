"""Requests while a node is lost."""

from __future__ import annotations

import time

import pytest

from e2e.harness import Object
from e2e.harness.pods import LEADERS, is_ready
from e2e.serve.deploy import deployed
from e2e.serve.load import figures, outage
from e2e.serve.services import role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

HOST = "kubernetes.io/hostname"
PATIENCE = 10.0
"""Client timeout in seconds."""


@pytest.mark.proves("Pods on a lost node get no requests after 65 s")
def test_lost_node_gets_no_requests(running: Serving) -> None:
    running.ensure_nodes(2)
    first, second = running.nodes
    spread = [{"topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}]
    stays = {"template": {"spec": {"nodeSelector": {HOST: first.name}}}}
    engines = role(replicas=2, topologySpread=spread)
    with deployed(running, router(endpointPicker=stays), engines) as stack:
        pods = {pod["spec"]["nodeName"]: pod for pod in stack.pods()}
        lost = pods[second.name]["metadata"]["name"]

        def read_pod() -> Object:
            pod: Object = running.cluster.get("v1/Pod", lost, stack.namespace)
            return pod

        with stack.load(timeout=PATIENCE) as load:
            load.wait(30)
            before = len(load.answers)
            with second.drop_packets():
                since = time.monotonic()
                running.cluster.wait(lambda: not is_ready(read_pod()), 90)
                out = time.monotonic()
                time.sleep(PATIENCE + 2)
                load.wait(20)
                kept = read_pod()
        running.wait_ready(stack.namespace, 2, LEADERS)
    after = load.answers[before:]
    print(f"before: {figures(load.answers[:before])}")
    print(f"lost: not ready after {out - since:.0f} s; {figures(after)}; {outage(after)}")
    assert out - since < 65
    assert [a for a in after if a.error and a.started > out + 2] == []
    assert any(not a.error and a.started > out for a in after)
    # The pod is not replaced while its Node exists.
    assert kept["spec"]["nodeName"] == second.name
