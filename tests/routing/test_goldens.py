"""Whole objects of the routers of the document's stories and examples, and of every gateway.

`pytest --regenerate` writes the golden files; how they differ from the document's own example is in
`docs/deviations.md`, and `test_documents.py` holds them to it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from routed import ROUTE, routed
from samples import nodes, role

from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.objects import render
from fusioninfer_pulumi.planning import plan_service

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS = sorted(path.stem for path in (FIXTURES / "inputs").glob("router-*.yaml"))
#: What runs the pods has golden files of its own.
WORKLOADS = ("PodGroup", "LeaderWorkerSet")

GATEWAYS: dict[str, dict[str, Any]] = {
    "default-gateway": {"httproute": None, "gateway": {}},
    "envoy-ai-gateway": {"gateway": {"implementation": "envoy-ai-gateway"}},
    "agentgateway": {"gateway": {"implementation": "agentgateway"}},
    "istio": {"gateway": {"implementation": "istio"}},
    "nginx-gateway-fabric": {
        "gateway": {"implementation": "nginx-gateway-fabric", "listeners": [
            {"name": "https", "port": 443, "protocol": "HTTPS",
             "tls": {"certificateRefs": [{"name": "tls"}]}}
        ]},
        "httproute": {"hostnames": ["svc.example.com"]},
    },
    "gke": {"gateway": {"implementation": "gke"}, "httproute": {"hostnames": ["svc.example.com"]}},
    "everything": {
        "scorers": {"prefix-cache": 2, "kv-cache": 1, "queue": 1},
        "endpointPicker": {
            "replicas": 2,
            "metrics": "Authenticated",
            "failureMode": "FailClose",
            "logVerbosity": 4,
            "tls": {"secretName": "picker-tls"},
            "args": ["--health-checking=true"],
        },
        "gateway": {"refs": [{"name": "shared", "namespace": "infra", "sectionName": "https"}]},
        "httproute": {
            "hostnames": ["svc.example.com"],
            "rules": [{"backendRefs": [
                {"name": "svc-pool", "port": 8000, "weight": 9},
                {"name": "fallback", "namespace": "other", "port": 80, "weight": 1},
            ]}],
        },
        "networkPolicy": {
            "gateway": [{"namespaceSelector": {"matchLabels": {"gateways": "yes"}}}],
            "metrics": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        },
        "referenceGrants": True,
    },
}  # fmt: skip


def routing(manifest: Any) -> list[dict[str, Any]]:
    (args,) = load(manifest)
    return [each for each in render(plan_service(args)) if each["kind"] not in WORKLOADS]


@pytest.mark.parametrize("name", INPUTS)
def test_a_router_of_the_documents_becomes_its_golden_objects(
    name: str, golden: Callable[[str, Any], None]
) -> None:
    golden(f"router/{name}", routing(FIXTURES / "inputs" / f"{name}.yaml"))


@pytest.mark.parametrize("name", GATEWAYS)
def test_every_gateway_gets_its_golden_objects(
    name: str, golden: Callable[[str, Any], None]
) -> None:
    manifest = routed(
        role(replicas=2, multinode=nodes(2)), **{"httproute": ROUTE, **GATEWAYS[name]}
    )
    golden(f"router/{name}", routing(manifest))


def test_every_golden_file_is_compared() -> None:
    found = {path.stem for path in (FIXTURES / "golden" / "router").glob("*.yaml")}
    assert found == {*INPUTS, *GATEWAYS}
