"""Complete router objects of the document's stories and examples, and of every gateway.

`pytest --regenerate` writes the golden files. `docs/deviations.md` explains differences from the
document; each is a function in `router_deviations.py` that changes the document's objects.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from routed import ROUTE, routed
from router_deviations import DEVIATIONS, DOCUMENTS, Objects, text
from samples import nodes, role

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS = sorted(path.stem for path in (FIXTURES / "inputs").glob("router-*.yaml"))
#: Workloads have their own golden files.
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
    "service": {
        "endpointPicker": {"enabled": False},
        "gateway": {"implementation": "istio"},
        "networkPolicy": {"metrics": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "httproute": {**ROUTE, "rules": [
            {"backendRefs": [{"name": "svc", "port": 8000, "weight": 9},
                             {"name": "fallback", "namespace": "other", "port": 80, "weight": 1}]},
            {},
        ]},
        "referenceGrants": True,
    },
    "service-gke": {
        "endpointPicker": {"enabled": False},
        "gateway": {"implementation": "gke"},
        "httproute": {"hostnames": ["svc.example.com"]},
    },
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


def routing(manifest: Any) -> Objects:
    (args,) = load(manifest)
    return [item for item in render(plan_service(args)) if item["kind"] not in WORKLOADS]


@pytest.mark.parametrize("name", INPUTS)
def test_router_of_the_document_renders_golden_objects(
    name: str, golden: Callable[[str, Any], None]
) -> None:
    golden(f"router/{name}", routing(FIXTURES / "inputs" / f"{name}.yaml"))


@pytest.mark.parametrize("name", GATEWAYS)
def test_gateway_renders_golden_objects(name: str, golden: Callable[[str, Any], None]) -> None:
    manifest = routed(
        role(replicas=2, multinode=nodes(2)), **{"httproute": ROUTE, **GATEWAYS[name]}
    )
    golden(f"router/{name}", routing(manifest))


def test_every_golden_file_is_compared() -> None:
    result = {path.stem for path in (FIXTURES / "golden" / "router").glob("*.yaml")}
    assert result == {*INPUTS, *GATEWAYS}


DOCUMENTED = {"example-1": "router-example-1-simple-strategy", "example-3": "router-example-3-pd"}
DEVIATIONS_TEXT = Path(__file__).parents[2] / "docs" / "deviations.md"


def load_objects(name: str) -> tuple[Objects, Objects]:
    """Return our objects and the document's, which deviations may change."""
    return copy.deepcopy(_both(name))


@cache
def _both(name: str) -> tuple[Objects, Objects]:
    ours = routing(FIXTURES / "inputs" / f"{DOCUMENTED[name]}.yaml")
    return ours, list(yaml.safe_load_all(text(name)))


def comparable(objects: Objects) -> dict[str, dict[str, Any]]:
    """Return objects by name; configurations are parsed, to ignore comments and order."""
    named = {
        f"{manifest['kind']}/{manifest['metadata']['name']}": copy.deepcopy(manifest)
        for manifest in objects
    }
    assert len(named) == len(objects)
    for item in named.values():
        if item["kind"] == "ConfigMap":
            item["data"] = {key: yaml.safe_load(value) for key, value in item["data"].items()}
    return named


@pytest.mark.parametrize("case", DOCUMENTED)
def test_objects_match_document_except_listed_deviations(case: str) -> None:
    ours, expected = load_objects(case)
    for deviate in DEVIATIONS.values():
        deviate(expected, ours)
    assert comparable(ours) == comparable(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVIATIONS)
def test_listed_deviation_is_needed(name: str) -> None:
    differ = []
    for case in DOCUMENTED:
        ours, expected = load_objects(case)
        try:
            for other, deviate in DEVIATIONS.items():
                if other != name:
                    deviate(expected, ours)
        except (KeyError, ValueError):
            # A later deviation depends on this one.
            differ.append(True)
            continue
        differ.append(comparable(ours) != comparable(expected))
    assert any(differ)


def test_every_document_object_is_compared() -> None:
    assert {path.stem for path in DOCUMENTS.glob("*.yaml")} == set(DOCUMENTED)


def test_every_deviation_is_explained() -> None:
    text = DEVIATIONS_TEXT.read_text(encoding="utf-8")
    section = text.partition("\n## Router objects\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", section.partition("|---|")[2], re.MULTILINE))
    assert [re.sub("[^a-z0-9 ]", "", name.lower()) for name in rows] == list(DEVIATIONS)
    assert all(len(reason) > 20 for reason in rows.values()), "a deviation needs its reason"
