"""ModelServers and ModelRoutes beside a ModelServing become its router."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from importers.kthena_samples import (
    GATEWAY,
    Manifest,
    entry,
    role,
    route,
    rule,
    server,
    serving,
)
from importers.reads import problems, said, source, spec, warned

from fusioninfer_pulumi.importers.kthena.routes import full_match
from fusioninfer_pulumi.objects import render

MODEL = {"name": "X-Gateway-Model-Name", "value": "m"}


def router(*documents: Manifest, lossy: bool = False) -> Manifest:
    """The router of the one service that is made of documents."""
    made: Manifest = spec(*documents, lossy=lossy)["roles"][-1]
    assert made.pop("componentType") == made.pop("name") == "router"
    return made


def rules(*documents: Manifest, lossy: bool = False) -> list[Manifest]:
    made: list[Manifest] = router(*documents, lossy=lossy)["httproute"]["rules"]
    return made


def test_a_server_without_a_route_is_a_router_that_asks_for_one() -> None:
    made = spec(serving(), server(workloadPort={"port": 8000}))["roles"]
    assert [each.get("port") for each in made] == [8000, None]
    assert router(serving(), server()) == {}
    named = "f#2: warning: spec: roles[1].httproute of the converted service"
    assert any(each.startswith(f"{named}: neither a route") for each in warned(serving(), server()))


def test_a_route_is_found_by_the_header_that_carries_the_model() -> None:
    documents = serving(), server(), route(rule(name="all"), parentRefs=GATEWAY)
    assert router(*documents) == {
        "httproute": {
            "rules": [{"name": "all", "matches": [{"headers": [MODEL]}]}],
            "parentRefs": GATEWAY,
        }
    }
    assert (
        "f#3: warning: modelName: is matched by the header X-Gateway-Model-Name: the gateway must "
        "set it from the request's body (body-based routing)"
    ) in warned(*documents)
    (made,) = [each for each in render(source(*documents).plans[0]) if each["kind"] == "HTTPRoute"]
    assert made["spec"]["rules"][0]["backendRefs"][0]["name"] == "ms-pool"


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, {"headers": [MODEL]}),
        (
            {"headers": {"user-type": {"exact": "premium"}}},
            {"headers": [MODEL, {"name": "user-type", "type": "Exact", "value": "premium"}]},
        ),
        (
            {"headers": {"a": {"prefix": "x.y"}}},
            {"headers": [MODEL, {"name": "a", "type": "RegularExpression", "value": r"x\.y.*"}]},
        ),
        (
            {"uri": {"exact": "/v1/completions"}},
            {"path": {"type": "Exact", "value": "/v1/completions"}, "headers": [MODEL]},
        ),
        (
            {"uri": {"prefix": "/v1/"}},
            {"path": {"type": "PathPrefix", "value": "/v1/"}, "headers": [MODEL]},
        ),
        (
            {"uri": {"prefix": "/v1"}},
            {"path": {"type": "RegularExpression", "value": "/v1.*"}, "headers": [MODEL]},
        ),
        (
            {"uri": {"regex": "^/v[12]/.*"}, "body": {"model": "m"}},
            {"path": {"type": "RegularExpression", "value": "^/v[12]/.*"}, "headers": [MODEL]},
        ),
        (
            {"uri": {"regex": "chat"}},
            {"path": {"type": "RegularExpression", "value": ".*(?:chat).*"}, "headers": [MODEL]},
        ),
        (
            {"headers": {"a": {"regex": "^x"}}},
            {"headers": [MODEL, {"name": "a", "type": "RegularExpression", "value": "(?:^x).*"}]},
        ),
    ],
)
def test_conditions_become_matches(match: Manifest, expected: Manifest) -> None:
    (made,) = rules(serving(), server(), route(rule(modelMatch=match)))
    assert made == {"matches": [expected]}


def test_an_expression_of_another_reach_is_told() -> None:
    documents = serving(), server(), route(rule(modelMatch={"uri": {"regex": "chat"}}))
    (told,) = [each for each in said(*documents) if "rules[0].modelMatch.uri" in each]
    assert told.startswith("f#3: info: ")
    assert told.endswith("written as .*(?:chat).*")


PIECES = st.lists(
    st.sampled_from(("^", "$", "a", "b", ".*", "|", "\\", r"\$", r"\.", "(a|b)", "[ab]", "$|")),
    min_size=1, max_size=5,
)  # fmt: skip


@given(PIECES, st.lists(st.text("ab$.\\^|", max_size=5), max_size=6))
def test_gateways_match_the_whole_text_where_kthena_searches(
    pieces: list[str], texts: list[str]
) -> None:
    pattern = "".join(pieces)
    try:
        searched = re.compile(pattern)
    except re.error:
        assume(False)
    whole = re.compile(full_match(pattern))
    for text in (*texts, "", "a", "ab", "ba", "a$", "bab"):
        assert (searched.search(text) is None) == (whole.fullmatch(text) is None), text


def test_adapters_are_matched_as_models_and_preferred_where_they_are_loaded() -> None:
    made = router(serving(), server(), route(modelName=None, loraAdapters=["a", "b"]))
    assert made["strategy"] == "lora-affinity"
    assert made["httproute"]["rules"] == [
        {"matches": [{"headers": [{**MODEL, "value": each}]} for each in ("a", "b")]}
    ]


def test_adapters_that_no_rule_asks_for_are_named() -> None:
    one = route(rule(modelMatch={"body": {"model": "a"}}), modelName=None, loraAdapters=["a", "b"])
    told = [each for each in said(serving(), server(), one) if "loraAdapters: no rule" in each]
    assert told == ["f#3: info: loraAdapters: no rule that leads to a service asks for b; left out"]


def test_timeouts_and_retries_are_what_routes_can_express() -> None:
    policy = {"timeout": "10s", "retry": {"attempts": 2, "retryInterval": "100ms"}}
    documents = serving(), server(trafficPolicy=policy), route()
    (made,) = rules(*documents)
    assert made["timeouts"] == {"request": "0s", "backendRequest": "10s"}
    assert made["retry"] == {"attempts": 2, "backoff": "100ms"}
    assert [each.split(": ")[2] for each in warned(*documents) if each.startswith("f#2")] == [
        "trafficPolicy.timeout",
        "trafficPolicy.retry",
    ]
    finer = {"timeout": "1.5s", "retry": {"attempts": 2, "retryInterval": "100.25s"}}
    (made,) = rules(serving(), server(trafficPolicy=finer), route())
    assert made["timeouts"]["backendRequest"] == "1500ms"
    assert made["retry"]["backoff"] == "1m40s250ms"
    wrong = server(trafficPolicy={"timeout": "1.5ms"})
    assert any(each.startswith("f#2: trafficPolicy.timeout") for each in problems(
        serving(), wrong, route()))  # fmt: skip


def test_prefill_and_decode_are_those_that_the_server_selects() -> None:
    named = serving(
        role("one", entryTemplate={**entry(), "metadata": {"labels": {"kind": "P"}}}),
        role("two", entryTemplate={**entry(), "metadata": {"labels": {"kind": "D"}}}),
    )
    group = {
        "groupKey": "modelserving.volcano.sh/group-name",
        "prefillLabels": {"kind": "P"},
        "decodeLabels": {"kind": "D"},
    }
    made = spec(named, server(pdGroup=group, kvConnector={"type": "nixl"}))["roles"]
    assert [each["componentType"] for each in made] == ["prefiller", "decoder", "router"]
    assert made[0]["kvTransfer"] == {"connector": "NixlConnector"}
    assert made[1]["kvTransfer"] == {
        "connector": "NixlConnector",
        "sidecar": {"connector": "nixlv2"},
    }


def test_a_value_that_is_called_like_a_connector_is_no_setting() -> None:
    own = entry()
    own["spec"]["containers"][0]["args"] += ["--served-model-name", "x-kv-transfer-config"]
    pair = serving(role("prefill", replicas=1, entryTemplate=own), role("decode", replicas=1))
    made = spec(pair, server(model=None, kvConnector={"type": "nixl"}))
    assert made["roles"][0]["kvTransfer"] == {"connector": "NixlConnector"}


def test_a_rule_needs_a_weight_above_0() -> None:
    zero = route(rule({"modelServerName": "srv", "weight": 0}))
    (told,) = problems(serving(), server(), zero)
    assert told == (
        "f#3: rules[0].targetModels: must have a weight above 0: no request would go anywhere"
    )


def test_an_engines_own_connector_is_left_alone() -> None:
    own = entry()
    own["spec"]["containers"][0]["args"] += ["--kv-transfer-config", '{"kv_connector":"X"}']
    pair = serving(
        role("prefill", entryTemplate=own, replicas=1),
        role("decode", entryTemplate=own, replicas=1),
    )
    made = spec(pair, server(kvConnector={"type": "mooncake"}))["roles"]
    assert made[0]["kvTransfer"] == {}
    assert made[1]["kvTransfer"] == {"sidecar": {"connector": "mooncake"}}


def test_a_route_may_ask_for_any_name_of_the_engine() -> None:
    names = entry()
    names["spec"]["containers"][0]["args"] += ["--served-model-name", "m", "virtual"]
    documents = serving(role(entryTemplate=names)), server(), route(modelName="virtual")
    assert problems(*documents) == []


def test_another_order_of_rules_is_said() -> None:
    later = rule(modelMatch={"headers": {"a": {"exact": "b"}}})
    assert (
        "f#3: warning: rules[1]: comes after rules[0], which is less specific: HTTPRoutes ask the "
        "more specific rule first, Kthena the first that matches"
    ) in warned(serving(), server(), route(rule(), later))
    assert not any("less specific" in each for each in warned(
        serving(), server(), route(later, rule())))  # fmt: skip
