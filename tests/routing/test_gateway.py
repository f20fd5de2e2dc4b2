"""Gateways: the service's own Gateway, and references to existing ones."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import HOSTS, HTTP, HTTPS, open_to
from routed import objects, only, routed
from samples import list_findings, problems

CLASSES = {
    None: "eg",
    "envoy-ai-gateway": "envoy-ai-gateway",
    "agentgateway": "agentgateway",
    "istio": "istio",
    "nginx-gateway-fabric": "nginx",
    "gke": "gke-l7-regional-external-managed",
    "something": "eg",
}


@pytest.mark.parametrize("implementation", CLASSES)
def test_empty_gateway_has_defaults(implementation: str | None) -> None:
    value = {} if implementation is None else {"implementation": implementation}
    manifest = routed(httproute=None, gateway=value)
    assert only(manifest, "Gateway")["metadata"]["name"] == "svc-gateway"
    assert only(manifest, "Gateway")["spec"] == {
        "gatewayClassName": CLASSES[implementation],
        "listeners": [HTTP],
    }
    assert only(manifest, "HTTPRoute")["spec"]["parentRefs"] == [{"name": "svc-gateway"}]
    assert not problems(manifest)


def test_all_gateway_fields_are_rendered(output: Any) -> None:
    host, note = output("svc.example.com"), output("letsencrypt")
    spec = {
        "gatewayClassName": "mine",
        "listeners": [{**HTTPS, "hostname": host, "tls": {"certificateRefs": [{"name": "tls"}]}}],
        "addresses": [{"type": "Hostname", "value": "lb.example.com"}],
        "infrastructure": {"labels": {"a": "b"}, "annotations": {"c": note}},
        "allowedListeners": {"namespaces": {"from": "Same"}},
        "tls": {"backend": {}},
        "defaultScope": "All",
    }
    manifest = routed(
        httproute=HOSTS,
        gateway={**spec, "annotations": {"cert-manager.io/issuer": note}},
        metadata={"annotations": {"owner": "a"}},
    )
    result = only(manifest, "Gateway")
    assert result["spec"] == spec
    assert result["metadata"]["annotations"] == {"owner": "a", "cert-manager.io/issuer": note}


def test_references_become_parent_refs() -> None:
    refs = [
        {"name": "a"},
        {"name": "b", "namespace": "infra", "sectionName": "https", "port": 443,
         "listeners": [open_to("All", **HTTPS)]},
    ]  # fmt: skip
    manifest = routed(httproute=HOSTS, gateway={"refs": refs})
    assert not objects(manifest, "Gateway")
    assert only(manifest, "HTTPRoute")["spec"]["parentRefs"] == [
        {"name": "a"},
        {"name": "b", "namespace": "infra", "sectionName": "https", "port": 443},
    ]


def test_implementation_with_parent_refs_creates_no_gateway() -> None:
    manifest = routed(gateway={"implementation": "istio"})
    assert not objects(manifest, "Gateway")
    assert objects(manifest, "DestinationRule")


@pytest.mark.parametrize("named", ["kgateway", "envoy-gateway", "eks"])
def test_unknown_gateway_has_no_finding(named: str) -> None:
    manifest = routed(gateway={"implementation": named})
    assert not [line for line in list_findings(manifest) if ".gateway.implementation" in line]
