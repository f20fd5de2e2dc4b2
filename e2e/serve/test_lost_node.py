"""Requests while a node is drained or lost."""

from __future__ import annotations

import subprocess
import time

import pytest

from e2e.harness import Object
from e2e.harness.pods import LEADERS, is_ready
from e2e.serve.deploy import deploy_service
from e2e.serve.load import describe_failures, describe_latency
from e2e.serve.services import role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

HOST = "kubernetes.io/hostname"
PICKERS = "app=svc-epp"
CLIENT_TIMEOUT = 10.0
"""Client timeout in seconds."""


@pytest.mark.verifies(
    "Draining a node with an engine and one of two endpoint pickers fails no request"
)
def test_drained_node_loses_no_request(running: Serving) -> None:
    running.ensure_nodes(2)
    node = running.nodes[1].name
    spread = {"topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
    picker_spread = {**spread, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "svc-epp"}}}
    pickers = {"replicas": 2, "template": {"spec": {"topologySpreadConstraints": [picker_spread]}}}
    engines = role(replicas=2, topologySpread=[spread])
    kubectl = ["kubectl", "--kubeconfig", str(running.cluster.kubeconfig)]
    with deploy_service(running, router(endpointPicker=pickers), engines) as stack:
        for selector in (LEADERS, PICKERS):
            assert node in {pod["spec"]["nodeName"] for pod in stack.pods(selector)}
        try:
            with stack.load() as load:
                load.wait(30)
                subprocess.run([*kubectl, "drain", node, "--delete-emptydir-data"], check=True)
                stack.running.wait_ready(stack.namespace, 2, PICKERS)
                stack.running.wait_ready(stack.namespace, 2, LEADERS)
                load.wait(20)
        finally:
            subprocess.run([*kubectl, "uncordon", node], check=True)
        print(f"drained: {describe_latency(load.answers)}; {describe_failures(load.answers)}")
        assert load.list_failed() == []


@pytest.mark.verifies("Pods on a lost node get no requests after 65 s")
def test_lost_node_gets_no_requests(running: Serving) -> None:
    running.ensure_nodes(2)
    first, second = running.nodes
    spread = [{"topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}]
    picker_placement = {"template": {"spec": {"nodeSelector": {HOST: first.name}}}}
    engines = role(replicas=2, topologySpread=spread)
    with deploy_service(running, router(endpointPicker=picker_placement), engines) as stack:
        pods = {pod["spec"]["nodeName"]: pod for pod in stack.pods()}
        pod_name = pods[second.name]["metadata"]["name"]

        def read_pod() -> Object:
            pod: Object = running.cluster.get("v1/Pod", pod_name, stack.namespace)
            return pod

        with stack.load(timeout=CLIENT_TIMEOUT) as load:
            load.wait(30)
            before = len(load.answers)
            with second.drop_packets():
                lost_at = time.monotonic()
                running.cluster.wait(lambda: not is_ready(read_pod()), 90)
                unready_at = time.monotonic()
                time.sleep(CLIENT_TIMEOUT + 2)
                load.wait(20)
                pod_after = read_pod()
        running.wait_ready(stack.namespace, 2, LEADERS)
    after = load.answers[before:]
    print(f"before: {describe_latency(load.answers[:before])}")
    print(f"lost: not ready after {unready_at - lost_at:.0f} s")
    print(f"lost: {describe_latency(after)}; {describe_failures(after)}")
    assert unready_at - lost_at < 65
    assert [a for a in after if a.error and a.started > unready_at + 2] == []
    assert any(not a.error and a.started > unready_at for a in after)
    # The pod is not replaced while its Node exists.
    assert pod_after["spec"]["nodeName"] == second.name
