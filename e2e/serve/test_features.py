"""A service with HTTPS, a model cache with warm-up, and tracing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from e2e.harness import Object
from e2e.harness.certificates import Certificates, create_certificates
from e2e.harness.pods import LEADERS
from e2e.harness.resources import read_objects
from e2e.serve.deploy import wait_serving
from e2e.serve.engine import Models
from e2e.serve.gateway import Gateway
from e2e.serve.hub import Collector, Hub
from e2e.serve.load import complete
from e2e.serve.sandbox import ADDRESS
from e2e.serve.services import render_objects, role, router, secret, service
from e2e.serve.serving import Serving
from fusioninfer_pulumi import load, plan_service
from fusioninfer_pulumi.routing.endpoint import find_endpoint

pytestmark = pytest.mark.serve

HOST = "svc.example.com"
SECRET = "svc-tls"
REPOSITORY, NAME = "example/tiny", "chat"
STORAGE = "shared"
PICKER = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
"""Not release 1.2.1 of the documents, because it emits no spans."""


@dataclass(frozen=True)
class Featured:
    """A service with one ready pod."""

    running: Serving
    manifest: Object
    gateway: Gateway
    certificates: Certificates
    hub: Hub
    collector: Collector

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def pod(self) -> Object:
        (pod,) = self.running.pods(self.namespace, LEADERS)
        return pod

    def send_request(self, prompt: str) -> Object:
        """Send a request over HTTPS and verify the certificate."""
        output: Object = complete(self.gateway.url, NAME, prompt, host=HOST,
                                authority=self.certificates.authority)  # fmt: skip
        return output


@pytest.fixture(scope="module")
def featured(running: Serving, namespace: str) -> Iterator[Featured]:
    with ExitStack() as stack:
        folder = Path(os.environ["TMPDIR"]) / namespace
        folder.mkdir()
        hub = stack.enter_context(Hub(ADDRESS, REPOSITORY, Models().model))
        collector = Collector(ADDRESS)
        stack.callback(collector.close)
        certificates = create_certificates(folder / "certificates", hosts=[HOST])
        manifest = make_service(namespace, hub)
        tls = {**secret(namespace, SECRET, **certificates.texts), "type": "kubernetes.io/tls"}
        prerequisites = [tls, *make_volume(folder / "volume"), *expose("collector", collector.url)]
        running.cluster.apply(prerequisites, namespace=namespace)
        stack.callback(running.cluster.delete, "PersistentVolume", STORAGE)
        objects = render_objects(manifest)
        first = 1 + next(n for n, item in enumerate(objects) if item["kind"] == "Job")
        running.apply(objects[:first])
        running.cluster.wait(
            lambda: has_warmed_up(running, namespace), 120, lambda: running.report(namespace)
        )
        running.apply(objects[first:])
        wait_serving(running, objects, namespace)
        gateway = Gateway(running.cluster, namespace, "svc-httproute")
        stack.callback(gateway.close)
        yield Featured(running, manifest, gateway, certificates, hub, collector)


def has_warmed_up(running: Serving, namespace: str) -> bool:
    """Return whether the warm-up Job has succeeded, for which Pulumi waits."""
    (job,) = running.cluster.list("batch/v1/Job", namespace)
    return bool(job.get("status", {}).get("succeeded"))


def make_service(namespace: str, hub: Hub) -> Object:
    listener = {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": HOST,
                "tls": {"certificateRefs": [{"name": SECRET}]}}  # fmt: skip
    router_role = router(
        httproute={"hostnames": [HOST]},
        gateway={"gatewayClassName": "envoy", "listeners": [listener]},
        endpointPicker={"image": PICKER},
    )
    engines = role()
    (container,) = engines["template"]["spec"]["containers"]
    container["args"] = ["--max-model-len", "2048"]
    storage = {"size": "1Gi", "storageClassName": STORAGE}
    model = {
        "uri": f"hf://{REPOSITORY}",
        "name": NAME,
        "cache": {"storage": storage, "warmUp": True},
        "fetcher": {"env": [{"name": "HF_ENDPOINT", "value": hub.url}]},
    }
    tracing = {"endpoint": f"http://collector.{namespace}:4317", "sampling": 1}
    return service(namespace, router_role, engines, model=model, tracing=tracing)


def make_volume(folder: Path) -> list[Object]:
    """Return a volume that is a folder of the node."""
    folder.mkdir()
    folder.chmod(0o777)  # hostPath ignores fsGroup.
    return read_objects("volume of a node", name=STORAGE, folder=str(folder))


def expose(name: str, url: str) -> list[Object]:
    """Return a Service for a server outside the cluster."""
    address, port = url.removeprefix("http://").split(":")
    return read_objects("server outside the cluster", name=name, address=address, port=int(port))


@pytest.mark.verifies("HTTPS: Envoy uses the certificate from the Secret of the generated Gateway")
def test_envoy_serves_certificate_of_secret(featured: Featured) -> None:
    (args,) = load(featured.manifest)
    plan = plan_service(args).routing
    assert plan is not None
    endpoint = find_endpoint(plan)
    assert endpoint is not None
    assert endpoint.format_url(str(endpoint.host)) == f"https://{HOST}"
    assert featured.gateway.url.startswith("https://")
    assert featured.send_request("the quick brown fox")["usage"]["completion_tokens"] == 8
    with pytest.raises(urllib3.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib3.request("GET", f"{featured.gateway.url}/v1/models", retries=False, timeout=30)


@pytest.mark.verifies(
    "The warm-up Job fills the cache once; engines mount it read-only (stand-in hub)"
)
def test_warm_up_job_fills_cache(featured: Featured) -> None:
    (job,) = featured.running.cluster.list("batch/v1/Job", featured.namespace)
    assert job["status"]["succeeded"] == 1
    wanted = {file.name for file in Models().model.iterdir()}
    assert sorted(featured.hub.fetched) == sorted(wanted)
    (container,) = featured.pod["spec"]["containers"]
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "model-cache")
    assert mount["readOnly"]
    assert featured.send_request("the quick")["model"] == NAME


@pytest.mark.verifies("Spans of engine and endpoint picker 1.5 reach the collector in one trace")
def test_traces_reach_collector(featured: Featured) -> None:
    featured.send_request("a traced request")
    both = {"svc-inference", "svc-epp"}

    def group_spans() -> dict[str, set[str]]:
        services: dict[str, set[str]] = {}
        for span in list(featured.collector.spans):
            services.setdefault(span.trace, set()).add(span.service)
        return services

    deadline = time.monotonic() + 60
    while both not in group_spans().values() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert both in group_spans().values(), featured.collector.spans
