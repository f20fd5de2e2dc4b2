"""A stand-in for prometheus-adapter, registered at the real API server by APIServices.

The real HorizontalPodAutoscaler controller reads metrics from it; tests set their values.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from e2e.harness import Cluster, Object
from e2e.harness.certificates import create_certificates
from e2e.harness.pods import is_condition_true
from e2e.harness.resources import read_objects
from e2e.harness.stand_ins import HttpStandIn, Request, Response

CUSTOM = ("custom.metrics.k8s.io", "v1beta2")
EXTERNAL = ("external.metrics.k8s.io", "v1beta1")
_TIME = "2026-01-01T00:00:00Z"


class MetricsStandIn(HttpStandIn):
    """Server of the metrics in `pod_metrics`; it responds 404 for others."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__()
        certificates = create_certificates(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._cluster = cluster
        self.pod_metrics: dict[str, float] = {}
        self.selectors: set[str] = set()

    def respond(self, request: Request) -> Response:
        url = urlsplit(request.path)
        group, version, *rest = [*unquote(url.path).split("/")[2:], "", ""]
        rest = [part for part in rest if part]
        head = {"apiVersion": f"{group}/{version}", "kind": "MetricValueList", "metadata": {}}
        selector = parse_qs(url.query).get("labelSelector", [""])[0]
        if not version:
            return Response(404)  # No aggregated discovery.
        if not rest:
            body: Any = {"apiVersion": "v1", "kind": "APIResourceList",
                          "groupVersion": f"{group}/{version}", "resources": []}  # fmt: skip
        elif rest[-1] in self.pod_metrics:
            body = {**head, "items": list(self._values(rest[1], rest[-1], selector))}
        else:
            return Response(404, json.dumps({"kind": "Status", "code": 404}).encode())
        return Response(body=json.dumps(body).encode())

    def _values(self, namespace: str, metric: str, selector: str) -> Iterator[Object]:
        self.selectors.add(selector)
        for pod in self._cluster.pods(namespace, selector):
            name = pod["metadata"]["name"]
            yield {
                "describedObject": {"kind": "Pod", "namespace": namespace, "name": name,
                                    "apiVersion": "v1"},
                "metric": {"name": metric},
                "timestamp": _TIME,
                "value": _format_quantity(self.pod_metrics[metric]),
            }  # fmt: skip


@contextmanager
def run_metrics_adapter(cluster: Cluster, directory: Path) -> Iterator[MetricsStandIn]:
    with (
        MetricsStandIn(cluster, directory / "metrics") as adapter,
        register_metrics_apis(cluster, adapter.port, CUSTOM),
    ):
        yield adapter


@contextmanager
def register_metrics_apis(cluster: Cluster, port: int, *apis: tuple[str, str]) -> Iterator[None]:
    """Register a port as the server of these APIs until the context ends."""
    services = [
        read_objects("metrics API", group=group, version=version, port=port)[0]
        for group, version in apis
    ]
    cluster.apply([*read_objects("metrics adapter"), *services])
    names = [service["metadata"]["name"] for service in services]
    try:
        cluster.wait(
            lambda: all(
                is_condition_true(cluster.get("APIService", name), "Available") for name in names
            ),
            60,
            "metrics APIs",
        )
        yield
    finally:
        for name in names:
            cluster.delete("APIService", name)
        cluster.delete("v1/Service", "metrics-adapter", "default")


def _format_quantity(value: float) -> str:
    return f"{round(value * 1000)}m"
