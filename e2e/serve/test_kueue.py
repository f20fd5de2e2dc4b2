"""Serves: a service that waits in Kueue's queue until there is quota."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.catalog import tool
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.counters import REQUESTS, counter, metrics
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import complete
from e2e.serve.services import MODEL, PROMPT, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.long,
    pytest.mark.skipif(not tool("kueue").is_built, reason="Kueue is not built"),
]

GPU, QUEUE = "nvidia.com/gpu", "team"
API = "kueue.x-k8s.io/v1beta2"
WORKLOAD = f"{API}/Workload"
HOOKS = ("Mutating", "Validating")


@pytest.fixture
def queues(running: Serving) -> Iterator[Serving]:
    """The cluster with Kueue, whose webhooks see every pod: other tests do without them."""
    running.cluster.start_kueue()
    yield running
    for kind in HOOKS:
        hooks = f"admissionregistration.k8s.io/v1/{kind}WebhookConfiguration"
        for configuration in running.cluster.list(hooks):
            name = configuration["metadata"]["name"]
            if name.startswith("kueue-"):
                running.cluster.delete(hooks, name)


def local_queue(namespace: str, gpus: int) -> list[Object]:
    """A LocalQueue with quota for so many accelerators."""
    quota = {"name": GPU, "nominalQuota": str(gpus)}
    flavors = [{"name": "any", "resources": [quota]}]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    return [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": namespace},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": namespace},
            "spec": {"clusterQueue": namespace},
        },
    ]


@pytest.mark.proves("With Kueue, the engine starts once there is quota, and serves")
def test_queued_service_serves(queues: Serving) -> None:
    cluster = queues.cluster
    namespace = cluster.new_namespace()
    strategy = {"queue": QUEUE, "gangPolicy": {"backend": "Kueue"}}
    objects = objects_of(service(namespace, router(), role(), schedulingStrategy=strategy))
    queues.apply([*objects, *local_queue(namespace, 0)])

    def waits() -> bool:
        conditions = [
            condition
            for workload in cluster.list(WORKLOAD, namespace)
            for condition in workload.get("status", {}).get("conditions") or ()
        ]
        return any("insufficient" in condition["message"] for condition in conditions)

    cluster.wait(waits, 120, lambda: str(cluster.list(WORKLOAD, namespace)))
    (leader,) = queues.pods(namespace, LEADERS)
    assert "kueue.x-k8s.io/admission" in {
        gate["name"] for gate in leader["spec"]["schedulingGates"]
    }

    cluster.apply(local_queue(namespace, 1))
    wait_serving(queues, objects, namespace)
    gateway = Gateway(cluster, namespace, "svc-httproute")
    answer = complete(gateway.url, MODEL, PROMPT, host=gateway.host)
    assert answer["usage"]["completion_tokens"] == 8
    (leader,) = queues.pods(namespace, LEADERS)
    assert counter(metrics(leader), REQUESTS) == 1
    gateway.close()
    cluster.delete_namespace(namespace)
