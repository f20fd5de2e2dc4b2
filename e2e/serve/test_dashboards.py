"""Queries of dashboards and alerts on a real Prometheus."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from e2e.catalog import tool
from e2e.harness import Object
from e2e.harness.processes import LOOPBACK, find_ports
from e2e.serve import prometheus
from e2e.serve.deploy import wait_serving
from e2e.serve.envoy_gateway import EnvoyGateway, replace_pool
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load
from e2e.serve.prometheus import Prometheus
from e2e.serve.services import MODEL, PROMPT, render_objects, role, router, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

PICKERS = {
    "inference extension": "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
    "llm-d": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
}
TIMEOUT = 240
NO_GATEWAY = "Envoy Gateway is not built: python -m e2e.build_tools --only envoy-gateway"


@dataclass(frozen=True)
class Scraped:
    """A service and a Prometheus that scrapes it."""

    running: Serving
    gateway: Gateway
    route: str
    prometheus: Prometheus
    dashboards: dict[str, Object]

    def send_invalid_request(self) -> None:
        """Send a request that the picker rejects, because it counts only its own errors."""
        urllib3.request(
            "POST", f"{self.gateway.url}/v1/completions", json={"prompt": "no model"},
            headers={"Host": self.gateway.host}, retries=False, timeout=60,
        )  # fmt: skip


@pytest.fixture(params=PICKERS, ids=list(PICKERS))
def scraped(
    running: Serving, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Scraped]:
    reason = prometheus.explain_missing()
    if reason is not None:
        pytest.skip(reason)
    if not tool("envoy-gateway").is_built:
        pytest.skip(NO_GATEWAY)
    if request.param == "llm-d" and shutil.which("llm-d-epp") is None:
        pytest.skip("needs llm-d-epp on PATH")
    engines = role(replicas=2)
    (container,) = engines["template"]["spec"]["containers"]
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    picker = {"image": PICKERS[request.param], "metrics": "Unauthenticated"}
    objects = render_objects(
        service(namespace, router(endpointPicker=picker), engines,
                monitoring={"alerts": {}, "dashboards": {}})
    )  # fmt: skip
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    (port,) = find_ports(1)
    pods = running.cluster.pods(namespace, "fusioninfer.io/component-type=worker")
    (http_route,) = (item for item in objects if item["kind"] == "HTTPRoute")
    gateway_objects = replace_pool(http_route, port, [pod["status"]["podIP"] for pod in pods])
    envoy_gateway = EnvoyGateway(running.cluster, tmp_path, gateway_objects)
    route = f"http://{LOOPBACK}:{port}"
    wait_until_served(route, gateway.host)
    started = Prometheus(running.cluster, namespace, objects, [envoy_gateway.make_scrape_config()])
    (config_map,) = (item for item in objects if item["metadata"]["name"] == "svc-dashboards")
    dashboards = {name: json.loads(text) for name, text in config_map["data"].items()}
    yield Scraped(running, gateway, route, started, dashboards)
    started.close()
    envoy_gateway.close()
    gateway.close()
    # The next picker uses the same engines.
    running.cluster.delete("Deployment", "svc-epp", namespace)
    running.cluster.wait(lambda: not running.cluster.pods(namespace, "app=svc-epp"), 120)


def list_queries(board: Object) -> Iterator[tuple[int, str]]:
    """Yield panel ID and expression of each query with variables replaced, as Grafana does."""
    values = {item["name"]: item["query"] for item in board["templating"]["list"]}
    values |= {"role": ".*", "__rate_interval": "20s"}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(f"${{{name}}}", value).replace(f"${name}", value)
            yield panel["id"], expression


def wait_until_served(url: str, host: str) -> None:
    deadline = time.monotonic() + 60
    result = ""
    while result != "200":
        assert time.monotonic() < deadline, result
        time.sleep(0.5)
        try:
            result = str(
                urllib3.request(
                    "GET", f"{url}/v1/models", headers={"Host": host}, retries=False, timeout=10
                ).status
            )
        except urllib3.exceptions.HTTPError as exc:
            result = repr(exc)


@pytest.mark.verifies(
    "Every dashboard query returns data from vLLM 0.32.0, pickers and Envoy Gateway"
)
def test_every_panel_has_data(scraped: Scraped) -> None:
    listed = [
        (name, panel, expression)
        for name, board in scraped.dashboards.items()
        for panel, expression in list_queries(board)
    ]
    assert len(listed) > 40
    assert any(name.endswith(".gateway.json") for name in scraped.dashboards)

    def find_empty() -> list[str]:
        scraped.send_invalid_request()
        return [
            f"{name} {panel}: {expression}"
            for name, panel, expression in listed
            if not scraped.prometheus.query(expression)
        ]

    with (
        Load(scraped.gateway.url, MODEL, host=scraped.gateway.host,
             prompts=lambda number: f"{PROMPT} {number}") as load,
        Load(scraped.route, MODEL, host=scraped.gateway.host, clients=1),
    ):  # fmt: skip
        load.wait(10)
        scraped.running.cluster.wait(
            lambda: not find_empty(),
            TIMEOUT,
            lambda: f"no data: {find_empty()}\ntargets: {scraped.prometheus.targets()}",
        )
    states = scraped.prometheus.alerts()
    assert len(states) >= 8
    assert set(states.values()) == {"inactive"}, states
