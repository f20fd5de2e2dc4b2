"""Monitors of leaders, on a declared port, and of pickers that serve metrics."""

from __future__ import annotations

from typing import Any

import pytest
from routed import V1_5, objects, only, pair, routed
from rows import each_row
from samples import container, nodes, role, service, template

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.loading import load

Manifest = dict[str, Any]
PORT = {"name": "http", "containerPort": 8000}


def monitored(*roles: Manifest, monitoring: Manifest | None = None, **fields: Any) -> Manifest:
    """Return a monitored service with a router."""
    manifest = routed(*roles, **fields)
    manifest["spec"]["monitoring"] = monitoring or {}
    return manifest


def serving(*ports: Manifest, **more: Any) -> Manifest:
    """Return a role whose container declares these ports."""
    return role(**{"template": template(container(ports=list(ports))), **more})


def test_leaders_are_scraped_on_their_serving_port() -> None:
    built = serving(PORT, replicas=2, multinode=nodes(2, launcher="none"))
    monitoring = {
        "labels": {"release": "prometheus"}, "interval": "15s", "scrapeTimeout": "10s",
        "path": "/stats",
    }  # fmt: skip
    result = only(service(built, monitoring=monitoring), "PodMonitor")
    fields = {
        "fusioninfer.io/service": "svc",
        "fusioninfer.io/component-type": "worker",
        "fusioninfer.io/role-name": "inference",
    }
    assert result == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": "svc-inference",
            "namespace": "default",
            "labels": {"release": "prometheus", **fields},
        },
        "spec": {
            "selector": {
                "matchLabels": {**fields, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
            },
            "podTargetLabels": [*fields, "fusioninfer.io/replica-index"],
            "podMetricsEndpoints": [
                {"port": "http", "path": "/stats", "interval": "15s", "scrapeTimeout": "10s"}
            ],
        },
    }


def test_decode_pods_are_scraped_through_their_sidecar() -> None:
    manifest = pair()
    manifest["spec"]["monitoring"] = {}
    for item in manifest["spec"]["roles"][1:]:
        item["template"]["spec"]["containers"][0]["ports"] = [PORT]
    result = {
        entry["metadata"]["name"]: entry["spec"]["podMetricsEndpoints"][0]["port"]
        for entry in objects(manifest, "PodMonitor")
    }
    assert result == {"svc-prefill": "http", "svc-decode": "sidecar"}
    (decode,) = [
        entry["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        for entry in objects(manifest, "LeaderWorkerSet")
        if "decode" in entry["metadata"]["name"]
    ]
    ports = [
        port for init_container in decode["initContainers"] for port in init_container["ports"]
    ]
    assert ports == [{"name": "sidecar", "containerPort": 8000}]


@each_row(
    ("metrics", "monitoring", "expected"),
    [
        ("Off", {}, None),
        ("Unauthenticated", {}, {}),
        ("Unauthenticated", {"picker": False}, None),
        ("Authenticated", {},
         {"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
        ("Authenticated", {"pickerToken": {"name": "reader"}},
         {"authorization": {"type": "Bearer", "credentials": {"name": "reader", "key": "token"}}}),
    ],
)  # fmt: skip
def test_picker_is_scraped_if_it_serves_metrics(
    metrics: str, monitoring: Manifest, expected: Manifest | None
) -> None:
    manifest = monitored(
        serving(PORT), monitoring=monitoring, endpointPicker={"metrics": metrics, "image": V1_5}
    )
    result = objects(manifest, "ServiceMonitor")
    if expected is None:
        assert result == []
        return
    (monitor,) = result
    assert monitor["metadata"]["name"] == "svc-epp"
    assert monitor["spec"]["endpoints"] == [
        {"port": "http-metrics", "path": "/metrics", **expected}
    ]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    # The monitor selects only the picker's Service, which has the port.
    (only_one,) = [
        item
        for item in objects(manifest, "Service")
        if wanted.items() <= item["metadata"]["labels"].items()
    ]
    assert "http-metrics" in [port["name"] for port in only_one["spec"]["ports"]]


@pytest.mark.parametrize("field", ["disruptionBudget", "monitoring"])
def test_monitoring_objects_of_services_do_not_collide(field: str) -> None:
    def monitored_service(name: str, role_name: str) -> Manifest:
        return service(serving(PORT, name=role_name, replicas=1), name=name, **{field: {}})

    scaled_to_zero = monitored_service("a", "b-c")
    other = monitored_service("a-b", "c")
    plans = plan_services([*load(scaled_to_zero), *load(other)])
    assert any(
        'Objects named "a-b-c" would also belong' in finding.message
        for finding in plans[1].findings
    )
