"""Monitors: leaders on a port that they declare, and the picker where it serves metrics."""

from __future__ import annotations

from typing import Any

import pytest
from routed import V1_5, objects, only, pair, routed
from samples import container, nodes, role, service, template

from fusioninfer_pulumi.checks.stages import plan_services
from fusioninfer_pulumi.loading import load

Manifest = dict[str, Any]
PORT = {"name": "http", "containerPort": 8000}


def monitored(*roles: Manifest, monitoring: Manifest | None = None, **fields: Any) -> Manifest:
    """A service with a router that is monitored."""
    manifest = routed(*roles, **fields)
    manifest["spec"]["monitoring"] = monitoring or {}
    return manifest


def serving(*ports: Manifest, **more: Any) -> Manifest:
    """A role whose container declares these ports."""
    return role(**{"template": template(container(ports=list(ports))), **more})


def test_leaders_are_scraped_on_their_serving_port() -> None:
    made = serving(PORT, replicas=2, multinode=nodes(2, launcher="none"))
    monitoring = {
        "labels": {"release": "prometheus"}, "interval": "15s", "scrapeTimeout": "10s",
        "path": "/stats",
    }  # fmt: skip
    found = only(service(made, monitoring=monitoring), "PodMonitor")
    own = {
        "fusioninfer.io/service": "svc",
        "fusioninfer.io/component-type": "worker",
        "fusioninfer.io/role-name": "inference",
    }
    assert found == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": "svc-inference",
            "namespace": "default",
            "labels": {"release": "prometheus", **own},
        },
        "spec": {
            "selector": {"matchLabels": {**own, "leaderworkerset.sigs.k8s.io/worker-index": "0"}},
            "podTargetLabels": [*own, "fusioninfer.io/replica-index"],
            "podMetricsEndpoints": [
                {"port": "http", "path": "/stats", "interval": "15s", "scrapeTimeout": "10s"}
            ],
        },
    }


def test_decode_pods_are_scraped_through_their_sidecar() -> None:
    manifest = pair()
    manifest["spec"]["monitoring"] = {}
    for each in manifest["spec"]["roles"][1:]:
        each["template"]["spec"]["containers"][0]["ports"] = [PORT]
    found = {
        each["metadata"]["name"]: each["spec"]["podMetricsEndpoints"][0]["port"]
        for each in objects(manifest, "PodMonitor")
    }
    assert found == {"svc-prefill": "http", "svc-decode": "sidecar"}
    (decode,) = [
        each["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        for each in objects(manifest, "LeaderWorkerSet")
        if "decode" in each["metadata"]["name"]
    ]
    ports = [port for made in decode["initContainers"] for port in made["ports"]]
    assert ports == [{"name": "sidecar", "containerPort": 8000}]


@pytest.mark.parametrize(
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
def test_picker_is_scraped_where_it_serves_metrics(
    metrics: str, monitoring: Manifest, expected: Manifest | None
) -> None:
    manifest = monitored(
        serving(PORT), monitoring=monitoring, endpointPicker={"metrics": metrics, "image": V1_5}
    )
    found = objects(manifest, "ServiceMonitor")
    if expected is None:
        assert found == []
        return
    (monitor,) = found
    assert monitor["metadata"]["name"] == "svc-epp"
    assert monitor["spec"]["endpoints"] == [
        {"port": "http-metrics", "path": "/metrics", **expected}
    ]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    # The picker's Service, and no other, and it has that port.
    (only_one,) = [
        each
        for each in objects(manifest, "Service")
        if wanted.items() <= each["metadata"]["labels"].items()
    ]
    assert "http-metrics" in [port["name"] for port in only_one["spec"]["ports"]]


@pytest.mark.parametrize("field", ["disruptionBudget", "monitoring"])
def test_objects_of_two_services_do_not_meet(field: str) -> None:
    def made(name: str, role_name: str) -> Manifest:
        return service(serving(PORT, name=role_name, replicas=1), name=name, **{field: {}})

    parked = made("a", "b-c")
    other = made("a-b", "c")
    plans = plan_services([*load(parked), *load(other)])
    assert any(
        'Objects named "a-b-c" would also belong' in finding.message
        for finding in plans[1].findings
    )
