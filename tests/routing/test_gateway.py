"""Gateways: a service's own, referenced ones, whether they take the route, and the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import HOSTS, HTTP, HTTPS, managed, open_to, referenced
from routed import ROUTE, objects, only, routed
from samples import Manifest, problems, said, warnings

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
    given = {} if implementation is None else {"implementation": implementation}
    manifest = routed(httproute=None, gateway=given)
    assert only(manifest, "Gateway")["metadata"]["name"] == "svc-gateway"
    assert only(manifest, "Gateway")["spec"] == {
        "gatewayClassName": CLASSES[implementation],
        "listeners": [HTTP],
    }
    assert only(manifest, "HTTPRoute")["spec"]["parentRefs"] == [{"name": "svc-gateway"}]
    assert not problems(manifest)


def test_gateways_spec_is_kept_whole(output: Any) -> None:
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
    made = only(manifest, "Gateway")
    assert made["spec"] == spec
    assert made["metadata"]["annotations"] == {"owner": "a", "cert-manager.io/issuer": note}


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


def test_gateway_without_routes_is_a_warning() -> None:
    (told,) = warnings(routed(gateway={"listeners": [HTTP]}))
    assert told.startswith(
        "warning: roles[0].httproute.parentRefs: do not include the service's own Gateway "
        "svc-gateway"
    )
    named = {**ROUTE, "parentRefs": [{"name": "svc-gateway", "sectionName": "http"}]}
    assert not warnings(routed(httproute=named, gateway={"listeners": [HTTP]}))


@pytest.mark.parametrize("named", ["kgateway", "envoy-gateway", "eks"])
def test_unknown_gateway_has_no_finding(named: str) -> None:
    manifest = routed(gateway={"implementation": named})
    assert not [line for line in said(manifest) if ".gateway.implementation" in line]


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("Istio", "istio"),
        ("isito", "istio"),
        ("GKE", "gke"),
        ("gkee", "gke"),
        ("agent-gateway", "agentgateway"),
        ("nginx_gateway_fabric", "nginx-gateway-fabric"),
        ("envoy-ai-gatway", "envoy-ai-gateway"),
    ],
)
def test_misspelt_gateway_is_probably_wrong(named: str, meant: str) -> None:
    (told,) = warnings(routed(gateway={"implementation": named}))
    assert told.endswith(f"did you mean {meant}?")


TLS_OFF = {
    "envoy-ai-gateway": "roles[0].endpointPicker.tls.enabled: envoy-ai-gateway uses TLS to the "
    "endpoint picker; remove it",
    "agentgateway": "roles[0].endpointPicker.tls.enabled: agentgateway uses TLS to the endpoint "
    "picker; "
    "remove it",
    "nginx-gateway-fabric": "warning: roles[0].endpointPicker.tls.enabled: nginx-gateway-fabric "
    "uses TLS to the endpoint picker, unless it is configured otherwise",
    "gke": "warning: roles[0].endpointPicker.tls.enabled: gke uses TLS to the endpoint picker, "
    "unless it "
    "is configured otherwise",
    "istio": None,
    "something": None,
}


@pytest.mark.parametrize("implementation", TLS_OFF)
def test_tls_to_the_picker_is_as_the_gateway_expects_it(implementation: str) -> None:
    gateway = {"implementation": implementation}
    manifest = routed(gateway=gateway, endpointPicker={"tls": {"enabled": False}})
    told = [line for line in said(manifest) if ".tls" in line]
    expected = TLS_OFF[implementation]
    assert told == ([] if expected is None else [expected])
    assert bool(objects(routed(gateway=gateway), "DestinationRule")) == (implementation == "istio")
    if implementation == "istio":
        assert not objects(manifest, "DestinationRule")


ATTACHED: dict[str, tuple[Manifest, str | None]] = {
    "own": (managed(), None),
    "own, whatever it allows": (managed(open_to("Selector")), None),
    "own, for other routes": (
        managed({**HTTP, "allowedRoutes": {"kinds": [{"kind": "GRPCRoute"}]}}),
        "http: allowedRoutes.kinds does not include HTTPRoute",
    ),
    "own, for HTTP routes": (
        managed({**HTTP, "allowedRoutes": {"kinds": [{"kind": "HTTPRoute"}]}}), None,
    ),
    "own, of another protocol": (
        managed({"name": "tcp", "port": 1, "protocol": "TCP"}),
        "tcp: protocol TCP does not accept HTTPRoutes",
    ),
    "own, of another host": (
        managed({**HTTP, "hostname": "*.example.org"}),
        "http: its hostname *.example.org does not match any hostname of the route",
    ),
    "own, of a wildcard": (managed({**HTTP, "hostname": "*.example.com"}), None),
    "own, one of two": (managed({**HTTP, "hostname": "a.example.org"}, HTTPS), None),
    "same namespace": (referenced(HTTP, namespace="default"), None),
    "another namespace": (
        referenced(HTTP),
        ("http: it only accepts routes of its own namespace infra, and the route is in default "
        "(allowedRoutes.namespaces.from)"),
    ),
    "another namespace, open": (referenced(open_to("All")), None),
    "another namespace, selected": (referenced(open_to("Selector")), None),
    "another namespace, one open": (referenced(HTTPS, open_to("All")), None),
    "another namespace, the closed one meant": (
        referenced(HTTPS, open_to("All"), sectionName="https"),
        "https: it only accepts routes of its own namespace infra",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ATTACHED)
def test_route_is_checked_against_listeners_that_are_known(case: str) -> None:
    manifest, why = ATTACHED[case]
    found = problems(manifest)
    assert [why in line for line in found] == ([] if why is None else [True])
    if why is not None:
        assert "accepts the route" in found[0]


def test_unknown_listener_is_rejected() -> None:
    assert problems(referenced(HTTP, namespace="default", sectionName="https", port=443)) == [
        (
            "roles[0].gateway.refs[0]: Gateway shared has no listener of sectionName https and "
            "port 443; it has http 80"
        )
    ]
