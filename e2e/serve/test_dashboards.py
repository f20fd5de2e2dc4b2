"""Serves: a real Prometheus fills every panel of the dashboards; no alert fires without cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import urllib3

from e2e.harness import Object
from e2e.serve import prometheus
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load
from e2e.serve.prometheus import Prometheus
from e2e.serve.services import MODEL, NEED, PROMPT, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

PICKERS = {
    "inference extension": "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
    "llm-d": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
}
PATIENCE = 240


@dataclass(frozen=True)
class Scraped:
    """A service that a Prometheus scrapes.

    Attributes:
        running: The cluster.
        gateway: In front of the service.
        prometheus: Scrapes it.
        boards: Its dashboards, by the names of their files.
    """

    running: Serving
    gateway: Gateway
    prometheus: Prometheus
    boards: dict[str, Object]

    def refuse(self) -> None:
        """Send what the endpoint picker refuses: it counts its own errors, not those of engines."""
        urllib3.request(
            "POST", f"{self.gateway.url}/v1/completions", json={"prompt": "no model"},
            headers={"Host": self.gateway.host}, retries=False, timeout=60,
        )  # fmt: skip


@pytest.fixture(scope="module")
def namespace(running: Serving) -> Iterator[str]:
    made = running.cluster.new_namespace()
    yield made
    running.cluster.delete_namespace(made)


@pytest.fixture(params=PICKERS, ids=list(PICKERS))
def scraped(running: Serving, namespace: str, request: pytest.FixtureRequest) -> Iterator[Scraped]:
    reason = prometheus.absent()
    if reason is not None:
        pytest.skip(reason)
    if request.param == "llm-d" and shutil.which("llm-d-epp") is None:
        pytest.skip("needs llm-d-epp on PATH")
    engines = role(replicas=2)
    (container,) = engines["template"]["spec"]["containers"]
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    picker = {"image": PICKERS[request.param], "metrics": "Unauthenticated"}
    objects = objects_of(
        service(namespace, router(endpointPicker=picker), engines,
                monitoring={"alerts": {}, "dashboards": {}})
    )  # fmt: skip
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    started = Prometheus(running.cluster, namespace, objects)
    (made,) = (item for item in objects if item["metadata"]["name"] == "svc-dashboards")
    boards = {name: json.loads(text) for name, text in made["data"].items()}
    yield Scraped(running, gateway, started, boards)
    started.close()
    gateway.close()
    # The engines stay for the next picker.
    running.cluster.delete("Deployment", "svc-epp", namespace)
    running.cluster.wait(lambda: not running.cluster.pods(namespace, "app=svc-epp"), 120)


def queries(board: Object) -> Iterator[tuple[str, str]]:
    """Title and expression of each query, as Grafana asks it."""
    values = {item["name"]: item["query"] for item in board["templating"]["list"]}
    values |= {"role": ".*", "__rate_interval": "20s"}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(f"${{{name}}}", value).replace(f"${name}", value)
            yield panel["title"], expression


@pytest.mark.proves(
    "every query of the dashboards returns data in a real Prometheus that scrapes vLLM 0.32.0 and "
    "endpoint pickers (v1.5.0, llm-d) under load; every alert is evaluated, and none fires",
    needs=f"{NEED} with Prometheus on PATH",
)
def test_every_panel_has_data(scraped: Scraped) -> None:
    listed = [(name, *query) for name, board in scraped.boards.items() for query in queries(board)]
    assert len(listed) > 40

    def without_data() -> list[str]:
        scraped.refuse()
        return [
            f"{name} {title}: {expression}"
            for name, title, expression in listed
            if not scraped.prometheus.query(expression)
        ]

    with Load(scraped.gateway.url, MODEL, host=scraped.gateway.host,
              prompts=lambda number: f"{PROMPT} {number}") as load:  # fmt: skip
        load.wait(10)
        scraped.running.cluster.wait(
            lambda: not without_data(),
            PATIENCE,
            lambda: f"no data: {without_data()}\ntargets: {scraped.prometheus.targets()}",
        )
    states = scraped.prometheus.alerts()
    assert len(states) >= 8
    assert set(states.values()) == {"inactive"}, states
