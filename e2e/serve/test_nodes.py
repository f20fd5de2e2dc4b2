"""Replicas that span two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import urllib3

from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.deploy import Deployed, deploy_service
from e2e.serve.load import REQUESTS, read_metrics, sum_metric
from e2e.serve.services import PROMPT, render_objects, role, router, service
from e2e.serve.serving import Serving

pytestmark = pytest.mark.serve

WORKERS = "leaderworkerset.sigs.k8s.io/worker-index=1"
REQUEST_COUNT = 12


@dataclass(frozen=True)
class TwoNodeReplica:
    """A ready replica with pods on two nodes."""

    leader: Object
    worker: Object
    service: Deployed

    def ask_all(self) -> None:
        """Send requests without a common prefix; assert that the worker serves no HTTP."""
        for number in range(REQUEST_COUNT):
            self.service.send_request(f"{number} {PROMPT}")
        url = f"http://{self.worker['status']['podIP']}:8000/health"
        with pytest.raises(urllib3.exceptions.HTTPError):
            urllib3.request("GET", url, timeout=5, retries=False)


def make_role(launcher: str, *args: str, **more: Any) -> Object:
    """Return a role with two nodes and pod anti-affinity."""
    manifest = role(args=args, multinode={"nodeCount": 2, "launcher": launcher}, **more)
    term = {
        "labelSelector": {"matchLabels": {"fusioninfer.io/service": "svc"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = manifest["template"]["spec"]
    spec["affinity"] = {"podAntiAffinity": rule}
    # vLLM's ranks need shared memory even if each has its own pod.
    spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    return manifest


@contextmanager
def deploy_pair(running: Serving, inference: Object) -> Iterator[TwoNodeReplica]:
    """Deploy a service with one replica on two nodes."""
    running.ensure_nodes(2)
    with deploy_service(running, router(), inference) as service:
        (leader,), (worker,) = (service.pods(selector) for selector in (LEADERS, WORKERS))
        assert leader["spec"]["nodeName"] != worker["spec"]["nodeName"]
        yield TwoNodeReplica(leader, worker, service)


@pytest.mark.verifies("`multiprocessing`: a replica on two nodes serves with tensor parallelism")
@pytest.mark.long
def test_multiprocessing_spans_nodes(running: Serving) -> None:
    two_nodes = make_role("multiprocessing", "--tensor-parallel-size", "2")
    with deploy_pair(running, two_nodes) as replica:
        replica.ask_all()
        assert sum_metric(read_metrics(replica.leader), REQUESTS) == REQUEST_COUNT
        # Each node has one rank, so that ranks share no memory.
        for pod in (replica.leader, replica.worker):
            assert "ranks do not share the same SHM group name" in running.read_logs(pod)


@pytest.mark.verifies("`data-parallel`: ranks on two nodes serve behind one leader")
@pytest.mark.long
def test_data_parallel_spans_nodes(running: Serving) -> None:
    with deploy_pair(running, make_role("data-parallel", "--data-parallel-size", "2")) as replica:
        replica.ask_all()
        text = read_metrics(replica.leader)
        by_rank = [sum_metric(text, REQUESTS, engine=rank) for rank in ("0", "1")]
        assert sum(by_rank) == REQUEST_COUNT
        assert min(by_rank) > 0, by_rank


@pytest.mark.verifies("`ray`: two pods form a Ray cluster; vLLM then requires GPUs")
@pytest.mark.long
def test_ray_spans_nodes_until_the_engine_rejects_it(running: Serving, namespace: str) -> None:
    running.ensure_nodes(2)
    image = "example.org/vllm-ray:v0.32.0"
    inference = make_role("ray", "--tensor-parallel-size", "2", image=image)
    inference["template"]["spec"]["containers"][0]["command"] = ["vllm", "serve"]
    running.apply(render_objects(service(namespace, inference)))
    wanted = {
        LEADERS: [
            "Connecting to existing Ray cluster",
            "current platform cpu does not support ray",
        ],
        WORKERS: ["Ray runtime started"],
    }
    # LeaderWorkerSet recreates the pods after the leader exits, which deletes their logs.
    seen: set[str] = set()

    def read_output() -> str:
        return "".join(running.read_logs(pod) for pod in running.pods(namespace))

    def is_joined() -> bool:
        for selector, sentences in wanted.items():
            text = "".join(running.read_logs(pod) for pod in running.pods(namespace, selector))
            seen.update(sentence for sentence in sentences if sentence in text)
        return seen == {sentence for sentences in wanted.values() for sentence in sentences}

    running.cluster.wait(is_joined, 240, lambda: f"{seen}\n{read_output()}")
