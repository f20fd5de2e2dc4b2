"""Autoscaling by load from zero to two engines and back."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from e2e.catalog import manifests, program, tool
from e2e.engine.services import poll
from e2e.harness import Cluster, Object
from e2e.harness.control_plane import format_arguments, wait_http
from e2e.harness.pods import LEADERS
from e2e.harness.processes import LOOPBACK, Program, find_ports
from e2e.harness.resources import read_objects
from e2e.metrics import EXTERNAL, register_metrics_apis
from e2e.serve.deploy import wait_for_pickers
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, complete, describe_failures, describe_latency
from e2e.serve.prometheus import Prometheus
from e2e.serve.services import MODEL, render_objects, role, router, service
from e2e.serve.serving import START_TIMEOUT, Serving
from e2e.test_autoscaling import LWS as KIND

pytestmark = [pytest.mark.serve, pytest.mark.long]

LWS = "svc-inference"
SCALED = "keda.sh/v1alpha1/ScaledObject"
TIMEOUT = 240
MAX_REPLICAS = 2
"""More engines would take too long to start on two busy CPUs."""
BUSY_CLIENTS = 20
"""Number of clients that keep MOST engines busy, at two concurrent requests each."""


@pytest.fixture(scope="module")
def scaler(running: Serving) -> Iterator[None]:
    reason = explain_missing()
    if reason is not None:
        pytest.skip(reason)
    with run_keda(running.cluster):
        yield


def make_service(namespace: str, address: str) -> list[Object]:
    """Return a service of `docs/how-to/autoscaling.md` with low engine capacity."""
    autoscaling = {
        "engine": "KEDA",
        "prometheus": address,
        "target": "throughput",
        "minReplicas": 0,
        "maxReplicas": MAX_REPLICAS,
        "keda": {"pollingInterval": 2, "cooldownPeriod": 20},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 20}},
    }
    engines = role(args=("--max-num-seqs", "2"), autoscaling=autoscaling)
    (container,) = engines["template"]["spec"]["containers"]
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    picker = {"metrics": "Unauthenticated"}
    return render_objects(
        service(namespace, router(None, endpointPicker=picker), engines, monitoring={})
    )


@pytest.mark.verifies("KEDA scales real engines from zero to two and back; no request fails")
@pytest.mark.usefixtures("scaler")
def test_engines_follow_their_load(running: Serving, namespace: str) -> None:
    cluster = running.cluster
    (port,) = find_ports(1)
    objects = make_service(namespace, f"http://{LOOPBACK}:{port}")
    with ExitStack() as stack:
        running.apply(objects)
        wait_for_pickers(running, objects, namespace)
        prometheus = Prometheus(cluster, namespace, objects, port=port)
        stack.callback(prometheus.close)
        stack.enter_context(prometheus.keep_discovering())
        seen: list[int] = []

        def replicas() -> int:
            return int(cluster.get(KIND, LWS, namespace)["spec"]["replicas"])

        def record_replicas() -> None:
            if seen[-1:] != [now := replicas()]:
                seen.append(now)

        stack.enter_context(poll(record_replicas))
        gateway = Gateway(cluster, namespace, "svc-httproute")
        stack.callback(gateway.close)

        def describe_state() -> object:
            triggers = [item["spec"]["triggers"] for item in cluster.list(SCALED, namespace)]
            queries = [trigger["metadata"]["query"] for trigger in itertools.chain(*triggers)]
            values = {query: prometheus.query(query) for query in queries}
            return seen, values, prometheus.targets(), running.report(namespace)[-3000:]

        def wait_replicas(count: int) -> None:
            cluster.wait(lambda: replicas() == count, TIMEOUT, describe_state)
            if count:
                running.wait_ready(namespace, count, LEADERS)

        def load(clients: int) -> Load:
            return Load(gateway.url, MODEL, host=gateway.host, clients=clients, tokens=256,
                        pause=0, timeout=START_TIMEOUT)  # fmt: skip

        wait_replicas(0)
        started = time.monotonic()
        answer = complete(gateway.url, MODEL, "the quick brown fox", host=gateway.host,
                          timeout=START_TIMEOUT)  # fmt: skip
        assert answer["usage"]["completion_tokens"] == 8
        print(f"the first request took {time.monotonic() - started:.0f} s")
        with load(1) as small:
            with load(BUSY_CLIENTS) as large:
                wait_replicas(MAX_REPLICAS)
                large.wait(BUSY_CLIENTS, TIMEOUT)
            wait_replicas(1)
            small.wait(2, TIMEOUT)
        wait_replicas(0)
        record_replicas()
    answers = small.answers + large.answers
    print(f"replicas: {seen}; {describe_latency(answers)}")
    assert not [answer for answer in answers if answer.error], describe_failures(answers)
    assert goes_up_and_down_once(seen), seen


def goes_up_and_down_once(counts: Sequence[int]) -> bool:
    """Return whether replicas only grow from zero to MAX_REPLICAS, then only shrink to zero."""
    from_zero = counts[counts.index(0) :]
    top = from_zero.index(MAX_REPLICAS)
    up, down = from_zero[: top + 1], from_zero[top:]
    return up == sorted(up) and down == sorted(down, reverse=True) and down[-1] == 0


def explain_missing() -> str | None:
    if not tool("keda-operator").is_built:
        return "KEDA is not built: python -m e2e.build_tools --only keda-operator"
    if shutil.which("prometheus") is None:
        return "needs prometheus on PATH (Debian: apt-get install prometheus)"
    return None


@contextmanager
def run_keda(cluster: Cluster) -> Iterator[None]:
    """Run KEDA's operator and metrics adapter, and register its external metrics API."""
    grpc, health, metrics, adapter = find_ports(4)
    cluster.install_kinds([
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in manifests("keda-operator", "crds")
    ])  # fmt: skip
    cluster.apply(read_objects("anonymous reader of metrics"))
    plane, programs = cluster.plane, cluster.programs
    kubeconfig, certificates = plane.kubeconfig("admin"), plane.certificates.directory
    common = {"kubeconfig": kubeconfig, "certificates": certificates, "grpc": grpc}
    environment = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": "default"}
    environment |= {"WATCH_NAMESPACE": "", "KEDA_CLUSTER_OBJECT_NAMESPACE": "default"}

    def start(name: str, executable: str, **values: object) -> Program:
        settings = format_arguments(name, **common, **values)
        command: list[str | Path] = [program("keda-operator", executable), *settings]
        return programs.start(name, command, env=environment)

    operator = start("keda-operator", "operator", health=health)
    adapter_program = start("keda-adapter", "adapter", adapter=adapter, metrics=metrics)
    try:
        wait_http(operator, f"http://{LOOPBACK}:{health}/readyz", timeout=60)
        wait_http(
            adapter_program,
            f"https://{LOOPBACK}:{adapter}/healthz",
            authority=plane.certificates.authority,
            timeout=60,
        )
        with register_metrics_apis(cluster, adapter, EXTERNAL):
            yield
    finally:
        programs.stop("keda-adapter")
        programs.stop("keda-operator")
