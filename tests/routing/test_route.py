"""The HTTPRoute: the user's spec, the pool as default backend, and corrections with a finding."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from routed import ROUTE, objects, only, routed
from rows import each_row
from samples import Manifest, kinds, list_findings, plan_of, problems, warnings

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.plan.service_objects import render

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
NO_LIMIT = {"request": "0s"}
PATH = [{"path": {"type": "PathPrefix", "value": "/v1"}}]
REDIRECT = [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]
HEADER = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x"]}}]
REMOTE = {"name": "other", "port": 80}


def route(*rules: Any, **fields: Any) -> Manifest:
    return routed(httproute={**ROUTE, "rules": list(rules)}, **fields)


def rendered_rules(*rules: Any, **fields: Any) -> Any:
    return only(route(*rules, **fields), "HTTPRoute")["spec"]["rules"]


RULES: dict[str, tuple[Manifest, Manifest]] = {
    "empty": ({}, {"backendRefs": [POOL], "timeouts": NO_LIMIT}),
    "with matches, filters and a name": (
        {"name": "a", "matches": PATH, "filters": HEADER},
        {"name": "a", "matches": PATH, "filters": HEADER, "backendRefs": [POOL],
         "timeouts": NO_LIMIT},
    ),
    "with a timeout": (
        {"timeouts": {"request": "90s"}},
        {"timeouts": {"request": "90s"}, "backendRefs": [POOL]},
    ),
    "with a timeout of the backend alone": (
        {"timeouts": {"backendRequest": "90s"}},
        {"timeouts": {"request": "0s", "backendRequest": "90s"}, "backendRefs": [POOL]},
    ),
    "with a redirect": ({"filters": REDIRECT}, {"filters": REDIRECT}),
    "with the pool": ({"backendRefs": [POOL]}, {"backendRefs": [POOL], "timeouts": NO_LIMIT}),
    "with another backend": ({"backendRefs": [REMOTE]}, {"backendRefs": [REMOTE]}),
    "with empty backends": (
        {"backendRefs": []}, {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a Service called like the pool": (
        {"backendRefs": [{"kind": "Service", "name": "svc-pool", "port": 8000}]},
        {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a Service by default, a weight and filters": (
        {"backendRefs": [{"name": "svc-pool", "port": 8000, "weight": 9, "filters": HEADER,
                          "namespace": "default"}, REMOTE]},
        {"backendRefs": [{**POOL, "weight": 9, "filters": HEADER}, REMOTE],
         "timeouts": NO_LIMIT},
    ),
    "with a pool of the old group": (
        {"backendRefs": [{**POOL, "group": "inference.networking.x-k8s.io"}]},
        {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a pool without a group": (
        {"backendRefs": [{"kind": "InferencePool", "name": "svc-pool"}]},
        {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a namesake of another namespace": (
        {"backendRefs": [{"name": "svc-pool", "namespace": "other", "port": 80}]},
        {"backendRefs": [{"name": "svc-pool", "namespace": "other", "port": 80}]},
    ),
    "with a namesake of another kind": (
        {"backendRefs": [{"group": "x.example", "kind": "Bucket", "name": "svc-pool"}]},
        {"backendRefs": [{"group": "x.example", "kind": "Bucket", "name": "svc-pool"}]},
    ),
    "with another pool": (
        {"backendRefs": [{**POOL, "name": "else"}]}, {"backendRefs": [{**POOL, "name": "else"}]},
    ),
}  # fmt: skip


@each_row("case", RULES)
def test_rule_defaults_to_the_pool(case: str) -> None:
    given_rule, expected = RULES[case]
    before = copy.deepcopy(given_rule)
    assert rendered_rules(given_rule) == [expected]
    assert given_rule == before, "what a user wrote is not changed"


def test_route_for_gke_has_no_timeout() -> None:
    gke = {"implementation": "gke"}
    assert rendered_rules({}, gateway=gke) == [{"backendRefs": [POOL]}]
    limited = {"timeouts": {"request": "90s"}}
    assert rendered_rules(limited, gateway=gke) == [{**limited, "backendRefs": [POOL]}]


def test_route_without_gateway_is_a_warning() -> None:
    nothing = routed(httproute=None)
    assert not objects(nothing, "HTTPRoute")
    (finding,) = warnings(nothing)
    assert finding.startswith("warning: roles[0].httproute: neither a route nor a Gateway is set")
    (finding,) = warnings(routed(httproute={"hostnames": ["a.example.com"]}))
    assert finding.startswith("warning: roles[0].httproute.parentRefs: the route names no Gateway")
    assert not warnings(routed(httproute={"useDefaultGateways": "All"}))


def test_output_in_route_match_is_rejected(output: Any) -> None:
    (finding,) = list_findings(
        route({"matches": [{"path": {"value": output("/v1")}}]}), Severity.ERROR
    )
    assert finding.startswith(
        "roles[0].httproute.rules[0].matches[0].path.value: must be known before the update, "
        "got a pulumi Output"
    )


hosts = st.sampled_from(("a.example.com", "*.example.com", "b.example.org"))
backends = st.sampled_from(
    (
        POOL,
        REMOTE,
        {"name": "svc-pool", "port": 1},
        {**POOL, "name": "else"},
        {"name": "n", "port": 2, "weight": 3, "filters": HEADER},
    )
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(("one", "two")),
        "matches": st.just(PATH),
        "filters": st.sampled_from((HEADER, REDIRECT)),
        "backendRefs": st.lists(backends, max_size=3),
        "timeouts": st.sampled_from(({"request": "1s"}, {"backendRequest": "1s"})),
        "sessionPersistence": st.just({"sessionName": "s"}),
        "retry": st.just({"attempts": 2}),
    },
)


def is_allowed(rule: Manifest) -> bool:
    return not (rule.get("backendRefs") and rule.get("filters") == REDIRECT)


parents = st.sampled_from(
    ({"name": "g"}, {"name": "g", "namespace": "n", "sectionName": "s", "port": 80},
     {"group": "", "kind": "Service", "name": "mesh"})
)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "parentRefs": st.lists(parents, min_size=1, max_size=3, unique_by=json.dumps),
            "hostnames": st.lists(hosts, max_size=3),
            "rules": st.lists(
                rules.filter(is_allowed),
                max_size=4,
                unique_by=lambda rule: rule.get("name") or id(rule),
            ),
        },
    )
)
def test_all_fields_of_user_route_are_rendered(given_route: Manifest) -> None:
    (item,) = [
        entry
        for entry in render(plan_of(routed(httproute=given_route)))
        if entry["kind"] == "HTTPRoute"
    ]
    spec = item["spec"]
    assert spec.get("parentRefs") == given_route.get("parentRefs")
    assert spec.get("hostnames") == given_route.get("hostnames")
    wanted = given_route.get("rules") or [{}]
    assert len(spec["rules"]) == len(wanted)
    for rule, requests in zip(spec["rules"], wanted, strict=True):
        for key, value in requests.items():
            if key == "backendRefs":
                kept = [ref for ref in value if ref["name"] != "svc-pool"]
                assert [ref for ref in rule.get(key, []) if ref["name"] != "svc-pool"] == kept
                assert len(rule.get(key, [])) in (len(value), 1)
            elif key == "timeouts":
                assert value.items() <= rule[key].items()
            else:
                assert rule[key] == value
        redirects = requests.get("filters") == REDIRECT
        assert bool(rule.get("backendRefs")) == (bool(requests.get("backendRefs")) or not redirects)
        for ref in rule.get("backendRefs", []):
            assert ref["name"] != "svc-pool" or POOL.items() <= ref.items()


# Shares of other services: weighted InferencePools in one rule.

CANARY = {**POOL, "name": "new-pool"}
GATEWAYS = {
    None: "works with agentgateway (1.0) and NGINX Gateway Fabric (2.3)",
    "agentgateway": None,
    "nginx-gateway-fabric": None,
    "istio": "asks only the endpoint picker of one pool",
    "gke": "untested with gke",
    "envoy-ai-gateway": "allows one InferencePool in a rule",
}


def split(*shares: Any, gateway: str | None = "agentgateway", **route: Any) -> Manifest:
    more = {"gateway": {"implementation": gateway}} if gateway else {}
    value = [{"service": name, "weight": weight} for name, weight in shares]
    return routed(httproute={**ROUTE, "split": value, **route}, **more)


def backend_refs(manifest: Manifest) -> list[Any]:
    return [rule.get("backendRefs") for rule in only(manifest, "HTTPRoute")["spec"]["rules"]]


def test_split_sends_remaining_requests_to_own_pool() -> None:
    assert backend_refs(split(("new", 10), ("old", 20))) == [
        [
            {**POOL, "weight": 70},
            {**CANARY, "weight": 10},
            {**POOL, "name": "old-pool", "weight": 20},
        ]
    ]
    assert backend_refs(split(("new", 0))) == [[{**POOL, "weight": 100}, {**CANARY, "weight": 0}]]
    assert not warnings(split(("new", 10)))


def test_service_routed_by_another_has_no_route() -> None:
    other = routed(httproute={"routedBy": "stable"})
    assert "HTTPRoute/svc-httproute" not in kinds(other)
    assert not warnings(other)


@each_row("gateway", GATEWAYS)
def test_split_without_gateway_support_is_reported(gateway: str | None) -> None:
    wanted = GATEWAYS[gateway]
    manifest = split(("new", 10), gateway=gateway)
    findings = problems(manifest) if gateway == "envoy-ai-gateway" else warnings(manifest)
    several = [finding for finding in findings if "InferencePool" in finding]
    assert len(several) == (wanted is not None)
    assert wanted is None or (wanted in several[0] and "roles[0].httproute.split: " in several[0])


# External routes: `refs` and `routedBy`.

SAME: Manifest = {"refs": [{"name": "chat"}, {"name": "batch"}]}
OTHER: Manifest = {"refs": [{"name": "chat", "namespace": "gateways"}, {"name": "batch"}]}
AT = "roles[0].httproute"


@pytest.mark.parametrize("implementation", ["istio", "gke"])
@pytest.mark.parametrize("external", [SAME, {"routedBy": "stable"}], ids=["refs", "routedBy"])
def test_gateway_extras_exist_for_external_routes(implementation: str, external: Manifest) -> None:
    gateway = {"implementation": implementation}
    open_to_all = {"gateway": gateway, "networkPolicy": {"enabled": False}}
    fields, other = (routed(httproute=route, **open_to_all) for route in (ROUTE, external))
    assert set(kinds(fields)) ^ set(kinds(other)) == {"HTTPRoute/svc-httproute"}


def test_route_of_another_namespace_needs_a_grant() -> None:
    (finding,) = warnings(routed(httproute=OTHER))
    assert (
        f"{AT}.refs[0].namespace: InferencePool svc-pool is in a different namespace from the"
        in finding
    )
    assert not objects(routed(httproute=OTHER), "ReferenceGrant")
    granted = routed(httproute=OTHER, referenceGrants=True)
    assert not warnings(granted)
    grant = only(granted, "ReferenceGrant")
    assert (grant["metadata"]["namespace"], grant["metadata"]["name"]) == (
        "default",
        "gateways.svc-pool",
    )
    assert grant["spec"] == {
        "from": [
            {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "gateways"}
        ],
        "to": [
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
        ],
    }


REJECTED_EXTERNAL: dict[str, tuple[dict[str, Any], str]] = {
    "a route's field": (
        {"httproute": {**SAME, "hostnames": ["a.example.com"]}},
        (
            f"{AT}.hostnames: has no effect, because with refs no route is created here; "
            "remove one of them"
        ),
    ),
    "both": ({"httproute": {**SAME, "routedBy": "other"}}, f"{AT}.refs: has no effect"),
    "none": ({"httproute": {"refs": []}}, f"{AT}.refs: "),
    "a Gateway": (
        {"httproute": SAME, "gateway": {}},
        "roles[0].gateway: would create a Gateway without a route (httproute.refs)",
    ),
}


@each_row("case", REJECTED_EXTERNAL)
def test_external_route_conflicts_with_httproute(case: str) -> None:
    fields, wanted = REJECTED_EXTERNAL[case]
    assert any(wanted in problem for problem in problems(routed(**fields)))
