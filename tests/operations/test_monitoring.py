"""Monitors: leaders on a port that they declare, and the picker where it serves metrics."""

from __future__ import annotations

from typing import Any

import pytest
from routed import V1_5, objects, only, pair, routed
from samples import container, nodes, problems, role, service, template, warnings

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


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (
            service(role(), monitoring={}),
            (
                "roles[0].template: monitoring finds pods by declared ports, and port 8000 of "
                "inference is not declared; add it to the container's ports "
                "({name: http, containerPort: 8000}), or set monitoring.engines to false"
            ),
        ),
        (
            service(serving(PORT), monitoring={"picker": True}),
            "monitoring.picker: the service has no endpoint picker; remove it",
        ),
        (
            monitored(serving(PORT), monitoring={"picker": True}),
            (
                "monitoring.picker: the endpoint picker serves no metrics; set the router's "
                "endpointPicker.metrics to Authenticated"
            ),
        ),
        (
            service(serving(PORT), monitoring={"interval": "1.5m"}),
            'monitoring.interval: must be a duration such as 15s or 1m30s, got "1.5m"',
        ),
        (
            service(serving(PORT), monitoring={"labels": {"fusioninfer.io/service": "x"}}),
            "monitoring.labels[fusioninfer.io/service]: is set by fusioninfer-pulumi; remove it",
        ),
    ],
)
def test_monitor_without_target_is_rejected(manifest: Manifest, problem: str) -> None:
    assert problem in problems(manifest)


@pytest.mark.parametrize(
    ("silent", "speaking", "word"),
    [
        (["python3", "-m", "sglang.launch_server"],
         ["python3", "-m", "sglang.launch_server", "--enable-metrics"], "--enable-metrics"),
        (["vllm", "serve", "m", "--disable-log-stats"], ["vllm", "serve", "m"], "log-stats"),
    ],
)  # fmt: skip
def test_engine_without_metrics_is_a_warning(
    silent: list[str], speaking: list[str], word: str
) -> None:
    def about(command: list[str]) -> list[str]:
        own = container(image="registry.example.com/e:1", command=command, args=[], ports=[PORT])
        manifest = service(role(template=template(own), port=8000), monitoring={})
        return [warning for warning in warnings(manifest) if "monitoring" in warning]

    assert [word in each for each in about(silent)] == [True]
    assert about(speaking) == []


def test_monitoring_without_targets_is_a_warning() -> None:
    manifest = service(serving(PORT), monitoring={"engines": False})
    assert warnings(manifest) == [
        "warning: monitoring: has no targets: neither engines nor an endpoint picker"
    ]


def test_service_scaled_to_zero_has_no_monitoring_warning() -> None:
    assert warnings(service(serving(PORT), groups=0, monitoring={})) == []
    assert warnings(service(serving(PORT, replicas=0), monitoring={})) == []


@pytest.mark.parametrize("field", ["disruptionBudget", "monitoring"])
def test_objects_of_two_services_do_not_meet(field: str) -> None:
    def made(name: str, role_name: str) -> Manifest:
        return service(serving(PORT, name=role_name, replicas=1), name=name, **{field: {}})

    parked = made("a", "b-c")
    other = made("a-b", "c")
    kind = {"disruptionBudget": "PodDisruptionBudget", "monitoring": "PodMonitor"}[field]
    plans = plan_services([*load(parked), *load(other)])
    assert any(
        f'{kind} "a-b-c" would also belong' in finding.message for finding in plans[1].findings
    )
