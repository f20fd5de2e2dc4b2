"""Rules that take no request, listeners and routes that exclude each other."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import HTTP, HTTPS, managed
from routed import ROUTE, router
from samples import Manifest, role, rules, service, template

from fusioninfer_pulumi.checks.stages import plan_services
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.loading import load

Found = list[str]
RULES = "roles[0].httproute.rules"


def of(rule: str, manifest: Manifest, *severities: Severity) -> Found:
    return [at for found, at in rules(manifest, *severities) if found == rule]


def ruled(*given: Any) -> Manifest:
    return service(router(httproute={**ROUTE, "rules": list(given)}), role())


def matching(**match: Any) -> Manifest:
    return ruled({"matches": [match]})


# Weights.


def backends(*weights: int | None) -> dict[str, Any]:
    return {
        "backendRefs": [
            {"name": "own", "port": 80, **({} if weight is None else {"weight": weight})}
            for weight in weights
        ]
    }


@pytest.mark.parametrize("weights", [(0,), (0, 0)])
def test_a_rule_whose_weights_are_all_zero_answers_nobody(weights: Any) -> None:
    at = [f"{RULES}[0].backendRefs"]
    assert of("backend-weights-zero", ruled(backends(*weights)), Severity.WARNING) == at


@pytest.mark.parametrize("weights", [(), (None,), (0, 1), (None, 0), (100,)])
def test_one_weight_is_enough(weights: Any) -> None:
    assert of("backend-weights-zero", ruled(backends(*weights))) == []


# Regular expressions.

MALFORMED = ["(", "a)", "[a", "*a", "a{2,1}", "[z-a]", "a\\", "(?P<n>a", "(?P<1>a)"]
FINE = [
    "/v1/.*", "^/v[12]/(chat|completions)$", "[^/]+", "a{2,3}", r"\d+\.\w*", "(?P<name>a)",
    "(?i:a)",
    # Of RE2, PCRE or Rust alone.
    r"\pL+", r"\p{Greek}", "[[:alpha:]]+", r"\Qa.b\E", r"\z", "(?i)/a", "a(?i)b", "(?<n>a)",
    "(?>a)", "a++", r"\x{41}", r"\h", "(?s).",
]  # fmt: skip


@pytest.mark.parametrize("value", MALFORMED)
def test_an_expression_that_no_gateway_reads_is_refused(value: str) -> None:
    expression = {"type": "RegularExpression", "value": value}
    rule, at = "invalid-format", f"{RULES}[0].matches[0]"
    assert of(rule, matching(path=expression), Severity.ERROR) == [f"{at}.path.value"]
    named = [{"name": "n", "type": "Exact", "value": "("}, {"name": "m", **expression}]
    assert of(rule, matching(headers=named)) == [f"{at}.headers[1].value"]
    assert of(rule, matching(queryParams=named)) == [f"{at}.queryParams[1].value"]


@pytest.mark.parametrize("value", FINE)
def test_one_that_some_gateway_reads_is_not(value: str) -> None:
    expression = {"type": "RegularExpression", "value": value}
    assert of("invalid-format", matching(path=expression)) == []


def test_other_conditions_are_no_expressions() -> None:
    assert of("invalid-format", matching(path={"type": "Exact", "value": "/("})) == []


# Rules behind others.

V1 = {"path": {"type": "PathPrefix", "value": "/v1"}}
HEADER = {"headers": [{"name": "model", "value": "chat"}]}


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ([{}, {}], 1),
        ([{}, {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}], 1),
        ([{"matches": [V1]}, {}, {"matches": [V1]}], 2),
        ([{"matches": [V1, HEADER]}, {"matches": [HEADER]}], 1),
        ([{"matches": [V1]}, {"matches": [HEADER]}, {"matches": [HEADER, V1]}], 2),
    ],
)
def test_a_rule_behind_one_for_the_same_requests_gets_none(given: Any, at: int) -> None:
    assert of("rule-never-matches", ruled(*given), Severity.WARNING) == [f"{RULES}[{at}]"]


@pytest.mark.parametrize(
    "given",
    [
        [{}],
        [{}, {"matches": [V1]}],
        [{"matches": [V1]}, {"matches": [{**V1, **HEADER}]}],
        [{"matches": [V1]}, {"matches": [V1, HEADER]}],
    ],
)
def test_one_that_takes_others_does_not(given: Any) -> None:
    assert of("rule-never-matches", ruled(*given)) == []


# Listeners.

LISTENERS = "roles[0].gateway.listeners"


def listener(name: str, port: int, protocol: str = "HTTP", **more: Any) -> dict[str, Any]:
    return {"name": name, "port": port, "protocol": protocol, **more}


@pytest.mark.parametrize(
    "second",
    [
        {**HTTPS, "port": 80},
        listener("b", 80, "TCP"),
    ],
)
def test_listeners_that_exclude_each_other_are_refused(second: Any) -> None:
    manifest = managed(HTTP, second)
    assert of("listeners-conflict", manifest, Severity.ERROR) == [f"{LISTENERS}[1]"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HTTP, HTTPS),
        (listener("a", 80, hostname="a.x"), listener("b", 80, hostname="b.x")),
        (listener("a", 80), listener("b", 80, hostname="b.x")),
        ({**HTTPS, "hostname": "a.x"}, {**HTTPS, "name": "b", "hostname": "*.x"}),
        ({**HTTPS, "hostname": "a.x"},
         listener("b", 443, "TLS", hostname="b.x", tls={"mode": "Passthrough"})),
        (listener("a", 53, "UDP"), listener("b", 53, "TCP")),
    ],
)  # fmt: skip
def test_listeners_beside_each_other_are_not(one: Any, other: Any) -> None:
    assert of("listeners-conflict", managed(one, other, HTTP)) in ([], [f"{LISTENERS}[2]"])
    assert of("listeners-conflict", managed(one, other)) == []


BARE = {"name": "https", "port": 443, "protocol": "HTTPS"}


@pytest.mark.parametrize("given", [BARE, {**BARE, "protocol": "TLS"}])
def test_https_needs_a_certificate(given: Any) -> None:
    at = [f"{LISTENERS}[1].tls"]
    assert of("listener-without-certificate", managed(HTTP, given), Severity.ERROR) == at


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (HTTPS, {}),
        ({**BARE, "tls": {"options": {"example.com/certificates": "all"}}}, {}),
        (listener("tls", 443, "TLS", tls={"mode": "Passthrough"}), {}),
        (listener("tcp", 443, "TCP"), {}),
        # Google's certificate map.
        (BARE, {"gatewayClassName": "gke-l7-rilb"}),
        (BARE, {"implementation": "gke"}),
        (BARE, {"annotations": {"networking.gke.io/certmap": "map"}}),
    ],
)
def test_certificates_may_come_from_elsewhere(given: Any, more: Any) -> None:
    gateway = {"listeners": [HTTP, given], **more}
    manifest = service(router(gateway=gateway, httproute={"hostnames": ["a.x"]}), role())
    assert of("listener-without-certificate", manifest) == []


def test_listeners_of_a_gateway_that_exists_are_not_judged() -> None:
    refs = [{"name": "shared", "listeners": [BARE, {**BARE, "name": "b"}]}]
    manifest = service(router(httproute=None, gateway={"refs": refs}), role())
    assert of("listener-without-certificate", manifest) == []
    assert of("listeners-conflict", manifest) == []


# Between services.


def routed_by(name: str, namespace: str = "default", **route: Any) -> Manifest:
    given = {**ROUTE, **route}
    return service(
        router(httproute={key: value for key, value in given.items() if value is not None}),
        role(template=template()),
        metadata={"name": name, "namespace": namespace},
    )


def conflicts(*manifests: Manifest) -> list[str]:
    plans = plan_services([args for manifest in manifests for args in load(manifest)])
    return [
        plan.service
        for plan in plans
        for finding in plan.findings
        if finding.rule == "routes-conflict"
    ]


def test_two_routes_for_the_same_requests_are_told_at_the_later_one() -> None:
    one, other = routed_by("a"), routed_by("b")
    assert conflicts(one, other) == ["b"]
    assert conflicts(other, one) == ["a"]
    assert conflicts(one, other, routed_by("c")) == ["b", "c", "c"]
    assert conflicts(one, routed_by("b", "elsewhere")) == ["b"]
    anywhere = {"hostnames": None}
    assert conflicts(routed_by("a", **anywhere), routed_by("b", **anywhere)) == ["b"]
    shared = {"hostnames": ["x.example.com", "svc.example.com"]}
    assert conflicts(one, routed_by("b", **shared)) == ["b"]
    v1 = {"rules": [{"matches": [V1]}, {"matches": [HEADER]}]}
    assert conflicts(routed_by("a", **v1), routed_by("b", rules=[{"matches": [HEADER]}])) == ["b"]


@pytest.mark.parametrize(
    "other",
    [
        {"hostnames": ["b.example.com"]},
        # Of two host names the more exact one gets the request.
        {"hostnames": ["*.example.com"]},
        {"hostnames": None},
        {"parentRefs": [{"name": "another"}]},
        {"parentRefs": [{"name": "my-gateway"}]},
        {"rules": [{"matches": [HEADER]}]},
    ],
)
def test_routes_for_other_requests_are_not(other: Any) -> None:
    assert conflicts(routed_by("a"), routed_by("b", **other)) == []


def test_listeners_that_are_named_are_those() -> None:
    def at(section: str) -> dict[str, Any]:
        return {"parentRefs": [{**ROUTE["parentRefs"][0], "sectionName": section}]}

    assert conflicts(routed_by("a", **at("http")), routed_by("b", **at("https"))) == []
    assert conflicts(routed_by("a", **at("http")), routed_by("b", **at("http"))) == ["b"]
