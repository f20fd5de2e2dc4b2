"""Serves: what clients see when a node is lost."""

from __future__ import annotations

import time

import pytest

from e2e.harness import Object
from e2e.harness.pods import LEADERS, is_ready
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, figures, outage
from e2e.serve.services import MODEL, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

HOST = "kubernetes.io/hostname"
PATIENCE = 10.0
"""Seconds after which a client gives up."""


@pytest.mark.proves("Pods on a lost node get no requests after 65 s")
def test_lost_node_gets_no_requests(running: Serving) -> None:
    running.have_nodes(2)
    first, second = running.nodes
    namespace = running.cluster.new_namespace()
    spread = [{"topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}]
    stays = {"template": {"spec": {"nodeSelector": {HOST: first.name}}}}
    engines = role(replicas=2, topologySpread=spread)
    objects = objects_of(service(namespace, router(endpointPicker=stays), engines))
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    pods = {pod["spec"]["nodeName"]: pod for pod in running.pods(namespace, LEADERS)}
    lost = pods[second.name]["metadata"]["name"]

    def pod() -> Object:
        found: Object = running.cluster.get("v1/Pod", lost, namespace)
        return found

    with Load(gateway.url, MODEL, host=gateway.host, timeout=PATIENCE) as load:
        load.wait(30)
        before = len(load.answers)
        with second.cut_off():
            since = time.monotonic()
            running.cluster.wait(lambda: not is_ready(pod()), 90)
            out = time.monotonic()
            time.sleep(PATIENCE + 2)
            load.wait(20)
            kept = pod()
    after = load.answers[before:]
    print(f"before: {figures(load.answers[:before])}")
    print(f"lost: not ready after {out - since:.0f} s; {figures(after)}; {outage(after)}")
    assert out - since < 65
    assert [a for a in after if a.error and a.started > out + 2] == []
    assert any(not a.error and a.started > out for a in after)
    # Nothing replaces the pod while its Node is there.
    assert kept["spec"]["nodeName"] == second.name
    gateway.close()
    running.wait_ready(namespace, 2, LEADERS)
    running.cluster.delete_namespace(namespace)
