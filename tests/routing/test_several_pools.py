"""Shares of other services: weighted InferencePools in one rule, and what gateways make of them."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, only, routed
from samples import Manifest, kinds, problems, said, warnings

from tests.routing.test_route import POOL

CANARY = {**POOL, "name": "new-pool"}
GATEWAYS = {
    None: "gateway.implementation says which gateway it is",
    "agentgateway": None,
    "nginx-gateway-fabric": None,
    "istio": "asks the picker of one pool for all of the rule's requests",
    "gke": "what becomes of that is not known of gke",
    "envoy-ai-gateway": "takes one InferencePool in a rule",
}


def split(*shares: Any, gateway: str | None = "agentgateway", **route: Any) -> Manifest:
    more = {"gateway": {"implementation": gateway}} if gateway else {}
    given = [{"service": name, "weight": weight} for name, weight in shares]
    return routed(httproute={**ROUTE, "split": given, **route}, **more)


def refs(manifest: Manifest) -> list[Any]:
    return [rule.get("backendRefs") for rule in only(manifest, "HTTPRoute")["spec"]["rules"]]


def test_the_rest_of_the_requests_stays() -> None:
    assert refs(split(("new", 10), ("old", 20))) == [
        [
            {**POOL, "weight": 70},
            {**CANARY, "weight": 10},
            {**POOL, "name": "old-pool", "weight": 20},
        ]
    ]
    assert refs(split(("new", 0))) == [[{**POOL, "weight": 100}, {**CANARY, "weight": 0}]]
    assert not warnings(split(("new", 10)))


def test_rules_with_backends_of_their_own_are_kept() -> None:
    own = {"backendRefs": [{"name": "legacy", "port": 80}]}
    redirect = {"filters": [{"type": "RequestRedirect", "requestRedirect": {"port": 8443}}]}
    found = refs(split(("new", 10), rules=[own, {}, redirect]))
    assert [each and len(each) for each in found] == [1, 2, None]


def test_the_other_service_makes_no_route() -> None:
    other = routed(httproute={"routedBy": "stable"})
    assert "HTTPRoute/svc-httproute" not in kinds(other)
    assert not warnings(other)
    assert any("httproute.routedBy: no route is made: requests come once stable" in each
               for each in said(other))  # fmt: skip


@pytest.mark.parametrize("implementation", ["istio", "gke"])
def test_the_other_service_gets_what_its_gateway_needs(implementation: str) -> None:
    gateway = {"implementation": implementation}
    alone, other = (
        routed(httproute=route, gateway=gateway) for route in (ROUTE, {"routedBy": "stable"})
    )
    assert set(kinds(alone)) ^ set(kinds(other)) == {"HTTPRoute/svc-httproute"}


def test_the_other_service_makes_no_gateway() -> None:
    other = routed(httproute={"routedBy": "stable"}, gateway={"implementation": "agentgateway"})
    assert "Gateway/svc-gateway" not in kinds(other)
    assert not warnings(other)


def test_listeners_are_asked_about_routes_alone() -> None:
    tcp = {"name": "tcp", "port": 80, "protocol": "TCP"}
    refs = [{"name": "shared", "namespace": "infra", "listeners": [tcp]}]
    assert problems(routed(gateway={"refs": refs}, httproute={}))
    assert not problems(routed(gateway={"refs": refs}, httproute={"routedBy": "stable"}))


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_what_the_gateway_makes_of_it_is_said(gateway: str | None) -> None:
    wanted = GATEWAYS[gateway]
    manifest = split(("new", 10), gateway=gateway)
    found = problems(manifest) if gateway == "envoy-ai-gateway" else warnings(manifest)
    several = [each for each in found if "InferencePool" in each]
    assert len(several) == (wanted is not None)
    assert wanted is None or (wanted in several[0] and "roles[0].httproute.split: " in several[0])


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_the_same_is_said_of_backends_that_users_write(gateway: str | None) -> None:
    wanted = GATEWAYS[gateway]
    more = {"gateway": {"implementation": gateway}} if gateway else {}
    rule = {"backendRefs": [{**POOL, "weight": 1}, CANARY]}
    found = warnings(routed(httproute={**ROUTE, "rules": [rule]}, **more))
    several = [each for each in found if "InferencePool" in each]
    assert len(several) == (wanted is not None)
    assert wanted is None or wanted in several[0]


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (split(("new", 60), ("old", 50)), "split: gives away 110 percent of the requests"),
        (split(("new", 6), ("new", 5)), 'split[1].service: "new" has a share already'),
        (split(("new", 101)), "split[0].weight: "),
        (split(("svc", 5)), "split[0].service: is this service, which gets the rest anyway"),
        (split(("N!", 5)), "split[0].service: "),
        (
            split(("new", 5), rules=[{"backendRefs": [{"name": "x", "port": 1}]}]),
            "split: has no effect: every rule has backendRefs",
        ),
        (
            routed(httproute={"routedBy": "stable", "hostnames": ["a.example.com"]}),
            "hostnames: belongs to a route, and none is made here: another one leads",
        ),
        (
            routed(httproute={"routedBy": "stable"}, gateway={}),
            "roles[0].gateway: would be a Gateway without a route",
        ),
        (
            routed(
                httproute={"routedBy": "stable"},
                gateway={"implementation": "istio", "gatewayClassName": "istio"},
            ),
            "roles[0].gateway: would be a Gateway without a route",
        ),
    ],
)
def test_what_cannot_work_is_refused(manifest: Manifest, wanted: str) -> None:
    found = problems(manifest)
    assert len(found) == 1
    assert wanted in found[0]
