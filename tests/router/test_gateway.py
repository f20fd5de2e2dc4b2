"""Gateways: a service's own, referenced ones, whether they take the route, and the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, objects, only, routed
from samples import Manifest, plan_of, problems, role, said, service, warnings

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.plan import ServicePlan, plan_services
from fusioninfer_pulumi.plan.routing.endpoint import router_endpoint
from fusioninfer_pulumi.spec import load

HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}
HTTPS = {"name": "https", "port": 443, "protocol": "HTTPS"}
HOSTS = {"hostnames": ["svc.example.com"]}


def managed(*listeners: Any, httproute: Any = HOSTS, **fields: Any) -> Manifest:
    return routed(httproute=httproute, gateway={"listeners": list(listeners) or [HTTP], **fields})


def referenced(*listeners: Any, namespace: Any = "infra", **fields: Any) -> Manifest:
    ref = {"name": "shared", "namespace": namespace, "listeners": list(listeners), **fields}
    return routed(httproute=HOSTS, gateway={"refs": [ref]})


def open_to(source: str, **listener: Any) -> Manifest:
    return {**HTTP, **listener, "allowedRoutes": {"namespaces": {"from": source}}}


def endpoint(manifest: Manifest) -> str | None:
    plan = plan_of(manifest)
    assert plan.router is not None
    found = router_endpoint(plan.router, plan.namespace)
    return None if found is None else found.url("<address>" if found.host is None else found.host)


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
def test_an_empty_gateway_is_one_with_defaults(implementation: str | None) -> None:
    given = {} if implementation is None else {"implementation": implementation}
    manifest = routed(httproute=None, gateway=given)
    assert only(manifest, "Gateway")["metadata"]["name"] == "svc-gateway"
    assert only(manifest, "Gateway")["spec"] == {
        "gatewayClassName": CLASSES[implementation],
        "listeners": [HTTP],
    }
    assert only(manifest, "HTTPRoute")["spec"]["parentRefs"] == [{"name": "svc-gateway"}]
    assert not problems(manifest)


def test_a_gateways_spec_is_kept_whole(output: Any) -> None:
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


def test_an_implementation_beside_parent_refs_makes_no_gateway() -> None:
    manifest = routed(gateway={"implementation": "istio"})
    assert not objects(manifest, "Gateway")
    assert objects(manifest, "DestinationRule")


def test_a_gateway_that_nothing_attaches_to_is_told() -> None:
    (told,) = warnings(routed(gateway={"listeners": [HTTP]}))
    assert told.startswith(
        "warning: roles[0].httproute.parentRefs: do not name the service's own Gateway svc-gateway"
    )
    named = {**ROUTE, "parentRefs": [{"name": "svc-gateway", "sectionName": "http"}]}
    assert not warnings(routed(httproute=named, gateway={"listeners": [HTTP]}))


@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        (None, "is not given: nothing is generated beside the route; name the gateway software"),
        ({"implementation": "Istio"}, 'nothing is known of "Istio", and nothing is generated'),
        ({"implementation": "kgateway"}, 'nothing is known of "kgateway"'),
    ],
)
def test_an_unknown_gateway_is_told_and_no_error(gateway: Any, words: str) -> None:
    manifest = routed(gateway=gateway)
    (told,) = [line for line in said(manifest) if ".gateway.implementation" in line]
    assert told.startswith(f"info: roles[0].gateway.implementation: {words}")
    assert not problems(manifest)


def test_a_misspelt_gateway_gets_a_hint() -> None:
    told = said(routed(gateway={"implementation": "Istio"}), Severity.INFO)
    assert any(line.endswith("did you mean istio?") for line in told)


TLS_OFF = {
    "envoy-ai-gateway": "roles[0].endpointPicker.tls.enabled: envoy-ai-gateway speaks TLS to the "
    "picker; remove it",
    "agentgateway": "roles[0].endpointPicker.tls.enabled: agentgateway speaks TLS to the picker; "
    "remove it",
    "nginx-gateway-fabric": "warning: roles[0].endpointPicker.tls.enabled: nginx-gateway-fabric "
    "speaks TLS to the picker, unless it is configured otherwise",
    "gke": "warning: roles[0].endpointPicker.tls.enabled: gke speaks TLS to the picker, unless it "
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
    "own, that allows none": (
        managed(open_to("None")), "http: allowedRoutes.namespaces.from is None",
    ),
    "own, for other routes": (
        managed({**HTTP, "allowedRoutes": {"kinds": [{"kind": "GRPCRoute"}]}}),
        "http: allowedRoutes.kinds has no HTTPRoute",
    ),
    "own, for HTTP routes": (
        managed({**HTTP, "allowedRoutes": {"kinds": [{"kind": "HTTPRoute"}]}}), None,
    ),
    "own, of another protocol": (
        managed({"name": "tcp", "port": 1, "protocol": "TCP"}),
        "tcp: protocol TCP takes no HTTPRoute",
    ),
    "own, of another host": (
        managed({**HTTP, "hostname": "*.example.org"}),
        "http: its hostname *.example.org matches none of the route's",
    ),
    "own, of a wildcard": (managed({**HTTP, "hostname": "*.example.com"}), None),
    "own, one of two": (managed({**HTTP, "hostname": "a.example.org"}, HTTPS), None),
    "same namespace": (referenced(HTTP, namespace="default"), None),
    "another namespace": (
        referenced(HTTP),
        ("http: it allows routes of its own namespace infra only, and the route is in default "
        "(allowedRoutes.namespaces.from)"),
    ),
    "another namespace, open": (referenced(open_to("All")), None),
    "another namespace, selected": (referenced(open_to("Selector")), None),
    "another namespace, one open": (referenced(HTTPS, open_to("All")), None),
    "another namespace, the closed one meant": (
        referenced(HTTPS, open_to("All"), sectionName="https"),
        "https: it allows routes of its own namespace infra only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ATTACHED)
def test_a_route_is_checked_against_listeners_that_are_known(case: str) -> None:
    manifest, why = ATTACHED[case]
    found = problems(manifest)
    assert [why in line for line in found] == ([] if why is None else [True])
    if why is not None:
        assert "takes the route" in found[0]


def test_a_listener_that_is_not_there_is_refused() -> None:
    assert problems(referenced(HTTP, namespace="default", sectionName="https", port=443)) == [
        (
            "roles[0].gateway.refs[0]: Gateway shared has no listener of sectionName https and "
            "port 443; it has http 80"
        )
    ]


def test_what_is_not_known_of_another_namespaces_gateway_is_told(output: Any) -> None:
    def told(manifest: Manifest) -> list[str]:
        return [line for line in said(manifest, Severity.INFO) if "must allow routes" in line]

    refs = [{"name": "shared", "namespace": "infra"}]
    assert len(told(routed(httproute=HOSTS, gateway={"refs": refs}))) == 1
    assert len(told(routed())) == 1
    assert not told(routed(httproute=HOSTS, gateway={"refs": [{"name": "shared"}]}))
    assert not told(routed(metadata={"namespace": "gateway-system"}))
    assert not told(routed(metadata={"namespace": output("a")}))


def test_the_gateway_of_another_service_of_the_input_is_known() -> None:
    def plans(*listeners: Any) -> list[ServicePlan]:
        owner = managed(*listeners)
        owner["metadata"] = {"name": "entry", "namespace": "infra"}
        parent = {"name": "entry-gateway", "namespace": "infra"}
        guest = routed(httproute={**ROUTE, "parentRefs": [parent]})
        return plan_services([*load(guest), *load(owner)])

    def told(plan: ServicePlan) -> list[str]:
        return [str(each) for each in plan.findings if each.severity is Severity.ERROR]

    guest, owner = plans(HTTP)
    assert not told(owner)
    assert told(guest) == [
        (
            "roles[0].httproute.parentRefs[0]: no listener of Gateway entry-gateway takes the "
            "route: http: it allows routes of its own namespace infra only, and the route is in "
            "default (allowedRoutes.namespaces.from)"
        )
    ]
    assert not told(plans(open_to("All"))[0])


ENDPOINTS: dict[str, tuple[Manifest, str | None]] = {
    "a host name": (managed(), "http://svc.example.com"),
    "TLS": (managed(HTTPS), "https://svc.example.com"),
    "TLS before plain": (managed(HTTP, HTTPS), "https://svc.example.com"),
    "an unusual port": (managed({**HTTP, "port": 8080}), "http://svc.example.com:8080"),
    "TLS on an unusual port": (managed({**HTTPS, "port": 8443}), "https://svc.example.com:8443"),
    "TLS of another host": (
        managed(HTTP, {**HTTPS, "hostname": "b.example.com"}), "http://svc.example.com",
    ),
    "TLS of all hosts": (
        managed(HTTP, {**HTTPS, "hostname": "*.example.com"}), "https://svc.example.com",
    ),
    "the first name that is a host": (
        managed(httproute={"hostnames": ["*.example.com", "a.example.com", "b.example.com"]}),
        "http://a.example.com",
    ),
    "the name of a listener": (
        managed(HTTP, {**HTTPS, "hostname": "l.example.com"}, httproute=None),
        "https://l.example.com",
    ),
    "an address": (managed(HTTPS, httproute=None), "https://<address>"),
    "an address, for a wildcard": (
        managed(httproute={"hostnames": ["*.example.com"]}), "http://<address>",
    ),
    "a known listener elsewhere": (referenced(open_to("All", **HTTPS)), "https://svc.example.com"),
    "unknown listeners": (routed(), "http://svc.example.com"),
    "unknown listeners, the port of TLS": (
        routed(httproute={**ROUTE, "parentRefs": [{"name": "g", "port": 443}]}),
        "https://svc.example.com",
    ),
    "unknown listeners, another port": (
        routed(httproute={**ROUTE, "parentRefs": [{"name": "g", "port": 8080}]}),
        "http://svc.example.com:8080",
    ),
    "nothing that tells": (routed(httproute={"parentRefs": [{"name": "g"}]}), None),
    "no route": (routed(httproute=None), None),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDPOINTS)
def test_the_endpoint_follows_from_hosts_and_listeners(case: str) -> None:
    manifest, url = ENDPOINTS[case]
    assert endpoint(manifest) == url


def test_an_address_of_a_gateway_is_read_from_its_status() -> None:
    plan = plan_of(managed(httproute=None))
    assert plan.router is not None
    found = router_endpoint(plan.router, plan.namespace)
    assert found is not None
    assert found.url_of_gateway(None) == ""
    assert found.url_of_gateway({"addresses": []}) == ""
    assert found.url_of_gateway({"addresses": [{"value": "192.0.2.1"}]}) == "http://192.0.2.1"
    assert found.url_of_gateway({"addresses": [{"value": "2001:db8::1"}]}) == "http://[2001:db8::1]"


FOREIGN = {"name": "other", "namespace": "elsewhere", "port": 80}
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": FOREIGN}}
SECRET = {"name": "tls", "namespace": "certificates"}
GRANTED: dict[str, tuple[Manifest, str, list[dict[str, Any]], str]] = {
    "a backend": (
        routed(httproute={**ROUTE, "rules": [{"backendRefs": [FOREIGN]}, {"filters": [MIRROR]}]}),
        "HTTPRoute",
        [{"group": "", "kind": "Service", "name": "other"}],
        "elsewhere",
    ),
    "a pool": (
        routed(httproute={**ROUTE, "rules": [{"backendRefs": [
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p",
             "namespace": "elsewhere"}, FOREIGN]}]}),
        "HTTPRoute",
        [
            {"group": "", "kind": "Service", "name": "other"},
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"},
        ],
        "elsewhere",
    ),
    "a certificate": (
        managed({**HTTPS, "tls": {"certificateRefs": [SECRET, {"name": "own"}]}}),
        "Gateway",
        [{"group": "", "kind": "Secret", "name": "tls"}],
        "certificates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GRANTED)
def test_what_other_namespaces_have_to_allow_is_asked_for_or_created(case: str) -> None:
    manifest, kind, targets, namespace = GRANTED[case]
    asked = [line for line in warnings(manifest) if "ReferenceGrant" in line]
    assert asked
    assert all(line.endswith("referenceGrants: true creates it") for line in asked)
    assert not objects(manifest, "ReferenceGrant")
    manifest["spec"]["roles"][0]["referenceGrants"] = True
    assert not [line for line in said(manifest) if "ReferenceGrant" in line]
    grant = only(manifest, "ReferenceGrant")
    owner = "svc-httproute" if kind == "HTTPRoute" else "svc-gateway"
    assert (grant["metadata"]["namespace"], grant["metadata"]["name"]) == (
        namespace,
        f"default.{owner}",
    )
    group = "gateway.networking.k8s.io"
    assert grant["spec"] == {
        "from": [{"group": group, "kind": kind, "namespace": "default"}],
        "to": targets,
    }


def test_a_grant_needs_a_plain_namespace(output: Any) -> None:
    manifest = routed(
        httproute={**ROUTE, "rules": [{"backendRefs": [FOREIGN]}]},
        metadata={"namespace": output("a")},
        referenceGrants=True,
    )
    (told,) = problems(manifest)
    assert told.startswith("roles[0].httproute.rules[0].backendRefs[0]: the ReferenceGrant's name")


def test_names_that_become_label_values_are_not_too_long() -> None:
    def told(length: int, **fields: Any) -> list[str]:
        manifest = routed(role(replicas=0), **fields)
        manifest["metadata"]["name"] = "s" * length
        return problems(manifest)

    assert not told(59)
    (line,) = told(60)
    assert line.startswith("metadata.name: the name of the endpoint picker ")
    assert line.endswith("has 64 characters, of at most 63; shorten the service's by 1")
    assert not told(55, gateway={}, httproute=None)
    assert "the name of the Gateway" in told(56, gateway={}, httproute=None)[0]


def test_policies_of_two_services_do_not_collide() -> None:
    guarded = {"networkPolicy": {"gateway": [{"podSelector": {}}]}}
    one, two = routed(role("b-c"), **guarded), routed(role("c"), **guarded)
    one["metadata"]["name"], two["metadata"]["name"] = "a", "a-b"
    plans = plan_services([*load(one), *load(two)])
    told = [str(each) for each in plans[1].findings if "NetworkPolicy" in str(each)]
    assert told == [
        (
            'roles[1].name: NetworkPolicy "a-b-c" would also belong to role b-c of service a; '
            "rename one of them"
        )
    ]
    free = plan_services(
        [*load(service(role("x"))), *load(routed(role("x"), metadata={"name": "o"}))]
    )
    assert not [each for plan in free for each in plan.findings if "Policy" in str(each)]
