"""Serves: pods on two nodes, and replicas that span them."""

from __future__ import annotations

import pytest

from e2e.harness import Object
from e2e.serve.services import IMAGE, NEED
from e2e.serve.serving import Serving

pytestmark = pytest.mark.serve


MEET = """\
for target in first.meet/8000 kubernetes.default/443; do
  until echo > /dev/tcp/$target; do sleep 1; done
done
echo met
sleep 600
"""


def pod(name: str, node: str, *command: str) -> Object:
    """A pod of a headless Service, as LeaderWorkerSet makes them."""
    container = {"name": "main", "image": IMAGE, "command": list(command)}
    spec = {"nodeName": node, "hostname": name, "subdomain": "meet", "containers": [container],
            "terminationGracePeriodSeconds": 1}  # fmt: skip
    metadata = {"name": name, "labels": {"app": "meet"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.proves(
    "pods on two kubelets' nodes find each other by the names of a headless Service, and reach the "
    "API server by the address of its Service",
    needs=NEED,
)
def test_pods_of_two_nodes_meet(running: Serving) -> None:
    running.have_nodes(2)
    namespace = running.cluster.new_namespace()
    headless = {"clusterIP": "None", "selector": {"app": "meet"}, "ports": [{"port": 8000}],
                "publishNotReadyAddresses": True}  # fmt: skip
    first, second = (node.name for node in running.nodes)
    listen = ["/usr/bin/python3", "-m", "http.server", "8000"]
    running.apply([
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "meet"}, "spec": headless},
        pod("first", first, *listen),
        pod("second", second, "/bin/bash", "-c", MEET),
    ], namespace)  # fmt: skip

    def told() -> str:
        return running.report(namespace)

    running.cluster.wait(lambda: "stdout F met" in told(), 90, told)
    running.cluster.delete_namespace(namespace)
