"""The HTTPRoute: the user's spec kept whole, led to the pool, repaired with a finding."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routed import ROUTE, objects, only, routed
from samples import Manifest, plan_of, said, warnings

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.objects import render

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
NO_LIMIT = {"request": "0s"}
PATH = [{"path": {"type": "PathPrefix", "value": "/v1"}}]
REDIRECT = [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]
HEADER = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x"]}}]
FOREIGN = {"name": "other", "port": 80}


def route(*rules: Any, **fields: Any) -> Manifest:
    return routed(httproute={**ROUTE, "rules": list(rules)}, **fields)


def written(*rules: Any, **fields: Any) -> Any:
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
    "with another backend": ({"backendRefs": [FOREIGN]}, {"backendRefs": [FOREIGN]}),
    "with empty backends": (
        {"backendRefs": []}, {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a Service called like the pool": (
        {"backendRefs": [{"kind": "Service", "name": "svc-pool", "port": 8000}]},
        {"backendRefs": [POOL], "timeouts": NO_LIMIT},
    ),
    "with a Service by default, a weight and filters": (
        {"backendRefs": [{"name": "svc-pool", "port": 8000, "weight": 9, "filters": HEADER,
                          "namespace": "default"}, FOREIGN]},
        {"backendRefs": [{**POOL, "weight": 9, "filters": HEADER}, FOREIGN],
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


@pytest.mark.parametrize("case", RULES)
def test_a_rule_leads_to_the_pool_where_it_says_nothing_else(case: str) -> None:
    given_rule, expected = RULES[case]
    before = copy.deepcopy(given_rule)
    assert written(given_rule) == [expected]
    assert given_rule == before, "what a user wrote is not changed"


@pytest.mark.parametrize(
    "case", [each for each in RULES if "like the pool" in each or "old" in each]
)
def test_a_repair_is_told(case: str) -> None:
    given_rule, _ = RULES[case]
    (told,) = [line for line in said(route(given_rule), Severity.INFO) if "corrected" in line]
    named = given_rule["backendRefs"][0]["kind"]
    assert told == (
        f"info: roles[0].httproute.rules[0].backendRefs[0]: there is no {named} svc-pool: the name "
        "is that of the service's InferencePool, to which it is corrected"
    )


def test_a_route_without_rules_gets_one() -> None:
    assert only(routed(), "HTTPRoute")["spec"] == {
        **ROUTE,
        "rules": [{"backendRefs": [POOL], "timeouts": NO_LIMIT}],
    }


def test_no_limit_is_written_for_a_gateway_that_refuses_it() -> None:
    gke = {"implementation": "gke"}
    assert written({}, gateway=gke) == [{"backendRefs": [POOL]}]
    limited = {"timeouts": {"request": "90s"}}
    assert written(limited, gateway=gke) == [{**limited, "backendRefs": [POOL]}]
    assert [line for line in warnings(route(limited, gateway=gke)) if "timeouts" in line] == [
        (
            "warning: roles[0].httproute.rules[0].timeouts: gke takes no timeouts in routes; "
            "remove them"
        )
    ]


def test_a_route_that_takes_no_requests_is_told() -> None:
    nothing = routed(httproute=None)
    assert not objects(nothing, "HTTPRoute")
    (told,) = warnings(nothing)
    assert told.startswith("warning: roles[0].httproute: neither a route nor a Gateway is asked")
    (told,) = warnings(routed(httproute={"hostnames": ["a.example.com"]}))
    assert told.startswith("warning: roles[0].httproute.parentRefs: name no Gateway")
    assert not warnings(routed(httproute={"useDefaultGateways": "All"}))


def test_host_names_may_be_outputs(output: Any) -> None:
    host = output("svc.example.com")
    manifest = routed(httproute={**ROUTE, "hostnames": [host, "b.example.com"]})
    assert only(manifest, "HTTPRoute")["spec"]["hostnames"] == [host, "b.example.com"]


def test_other_outputs_of_a_route_are_refused(output: Any) -> None:
    (told,) = said(route({"matches": [{"path": {"value": output("/v1")}}]}), Severity.ERROR)
    assert told.startswith(
        "roles[0].httproute.rules[0].matches[0].path.value: must be a plain value, got a pulumi "
        "Output"
    )


hosts = st.sampled_from(("a.example.com", "*.example.com", "b.example.org"))
backends = st.sampled_from(
    (
        POOL,
        FOREIGN,
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
parents = st.sampled_from(
    ({"name": "g"}, {"name": "g", "namespace": "n", "sectionName": "s", "port": 80},
     {"group": "", "kind": "Service", "name": "mesh"})
)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "parentRefs": st.lists(parents, min_size=1, max_size=3),
            "hostnames": st.lists(hosts, max_size=3),
            "rules": st.lists(rules, max_size=4),
        },
    )
)
def test_nothing_of_a_users_route_is_lost(given_route: Manifest) -> None:
    (made,) = [
        each
        for each in render(plan_of(routed(httproute=given_route)))
        if each["kind"] == "HTTPRoute"
    ]
    spec = made["spec"]
    assert spec.get("parentRefs") == given_route.get("parentRefs")
    assert spec.get("hostnames") == given_route.get("hostnames")
    wanted = given_route.get("rules") or [{}]
    assert len(spec["rules"]) == len(wanted)
    for rule, asked in zip(spec["rules"], wanted, strict=True):
        for key, value in asked.items():
            if key == "backendRefs":
                kept = [ref for ref in value if ref["name"] != "svc-pool"]
                assert [ref for ref in rule.get(key, []) if ref["name"] != "svc-pool"] == kept
                assert len(rule.get(key, [])) in (len(value), 1)
            elif key == "timeouts":
                assert value.items() <= rule[key].items()
            else:
                assert rule[key] == value
        redirects = asked.get("filters") == REDIRECT
        assert bool(rule.get("backendRefs")) == (bool(asked.get("backendRefs")) or not redirects)
        for ref in rule.get("backendRefs", []):
            assert ref["name"] != "svc-pool" or POOL.items() <= ref.items()
