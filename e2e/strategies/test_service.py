"""Requests through a real Envoy over a Service, where a router has no endpoint picker."""

from __future__ import annotations

import pytest
import urllib3

from e2e.routers import HOST, PARENT, objects_of
from e2e.serve.gateway import ROUTES, Gateway, binary
from e2e.strategies.engine import MODEL
from e2e.strategies.fleet import Fleet

SHARED = "the system prompt that all requests share " * 20


@pytest.mark.proves(
    "`endpointPicker.enabled: false`: Envoy spreads 90 requests evenly over three pods",
    needs="Envoy is installed by `make serve-tools`",
)
def test_requests_spread_over_a_service(fleet: Fleet) -> None:
    try:
        binary()
    except ValueError:
        pytest.skip("Envoy is not there: make serve-tools")
    cluster, namespace = fleet.cluster, fleet.namespace
    manifest = fleet.manifest(httproute=PARENT, endpointPicker={"enabled": False})
    objects = [o for o in objects_of(manifest) if o["kind"] != "LeaderWorkerSet"]
    assert {each["kind"] for each in objects} == {"Service", "HTTPRoute"}
    cluster.apply(objects)
    (service,) = [each for each in objects if each["kind"] == "Service"]
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    pods = cluster.pods(namespace, selector)
    assert {pod["metadata"]["name"] for pod in pods} == set(fleet.engines)
    gateway = Gateway(cluster, namespace, "svc-httproute", pods)
    try:
        before = {name: engine.completions for name, engine in fleet.engines.items()}
        for number in range(90):
            answer = urllib3.request(
                "POST", f"{gateway.url}/v1/completions", timeout=20, retries=False,
                json={"model": MODEL, "prompt": f"{SHARED}{number}"},
                headers={"Host": HOST["hostnames"][0]},
            )  # fmt: skip
            assert answer.status == 200, answer.data
        served = {name: engine.completions - before[name] for name, engine in fleet.engines.items()}
    finally:
        gateway.close()
        cluster.delete(ROUTES, "svc-httproute", namespace)
        cluster.delete("v1/Service", "svc", namespace)
    assert sorted(served.values()) == [30, 30, 30]
