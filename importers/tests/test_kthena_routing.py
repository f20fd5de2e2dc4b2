"""Kthena's ModelServers and ModelRoutes become routers, or are rejected field by field."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from rows import each_row
from samples import of_kind, rendered

from fusioninfer_importers.kthena.routes import anchor
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.kthena_samples import (
    GATEWAY,
    PAIR,
    Manifest,
    entry,
    role,
    route,
    rule,
    server,
    serving,
)
from importers.tests.reads import check, convert, read_source, reject, to_spec, warn

MODEL = {"name": "X-Gateway-Model-Name", "value": "m"}


def router(*documents: Manifest, lossy: bool = False) -> Manifest:
    """Return the router of the only converted service."""
    result: Manifest = to_spec(*documents, lossy=lossy)["roles"][-1]
    assert result.pop("componentType") == result.pop("name") == "router"
    return result


def rules(*documents: Manifest, lossy: bool = False) -> list[Manifest]:
    result: list[Manifest] = router(*documents, lossy=lossy)["httproute"]["rules"]
    return result


#: Kthena's default configuration scores by least-request, kv-cache, least-latency and prefix-cache.
SCORERS = {"prefix-cache": 1, "kv-cache": 1, "queue": 1}


def test_server_without_route_is_reported() -> None:
    roles = to_spec(serving(), server(workloadPort={"port": 8000}))["roles"]
    assert [item.get("port") for item in roles] == [8000, None]
    assert router(serving(), server()) == {"scorers": SCORERS}
    assert (
        "f#2: warning: spec: no route leads to these pods; pass the ModelRoute of this "
        "ModelServer too"
    ) in warn(serving(), server())


def test_advice_names_kthena_documents() -> None:
    assert (
        "f: warning: template.roles: no router pairs prefill with decode; pass the ModelServer "
        "of these pods and its ModelRoute too"
    ) in warn(serving(*PAIR))
    no_gateway = warn(serving(), server(), route())
    assert any(
        "the route has no Gateway and receives no requests; set parentRefs of the "
        "ModelRoute" in item
        for item in no_gateway
    ), no_gateway
    assert reject(serving(*PAIR), server()) == []
    lost = warn(serving(*PAIR), server())
    assert (
        len([line for line in lost if "a kvConnector of type nixl configures it" in line]) == 2
    ), lost


def test_route_matches_model_header() -> None:
    documents = serving(), server(), route(rule(name="all"), parentRefs=GATEWAY)
    assert router(*documents) == {
        "scorers": SCORERS,
        "httproute": {
            "rules": [{"name": "all", "matches": [{"headers": [MODEL]}]}],
            "parentRefs": GATEWAY,
        },
    }
    assert (
        "f#3: warning: modelName: matched by the header X-Gateway-Model-Name, which the "
        "gateway must set from the request body (body-based routing)"
    ) in warn(*documents)
    (item,) = [
        element
        for element in render(read_source(*documents).plans[0])
        if element["kind"] == "HTTPRoute"
    ]
    assert item["spec"]["rules"][0]["backendRefs"][0]["name"] == "ms-pool"


@each_row(
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
def test_rule_conditions_become_route_matches(match: Manifest, expected: Manifest) -> None:
    (result,) = rules(serving(), server(), route(rule(modelMatch=match)))
    assert result == {"matches": [expected]}


def test_regex_search_becomes_full_match_and_is_reported() -> None:
    documents = serving(), server(), route(rule(modelMatch={"uri": {"regex": "chat"}}))
    (expected,) = [message for message in check(*documents) if "rules[0].modelMatch.uri" in message]
    assert expected.startswith("f#3: info: ")
    assert ": converted to .*(?:chat).*, because" in expected


PIECES = st.lists(
    st.sampled_from(("^", "$", "a", "b", ".*", "|", "\\", r"\$", r"\.", "(a|b)", "[ab]", "$|")),
    min_size=1, max_size=5,
)  # fmt: skip


@given(PIECES, st.lists(st.text("ab$.\\^|", max_size=5), max_size=6))
def test_anchored_pattern_matches_like_kthena_search(pieces: list[str], texts: list[str]) -> None:
    pattern = "".join(pieces)
    try:
        searched = re.compile(pattern)
    except re.error:
        assume(False)
    whole = re.compile(anchor(pattern))
    for text in (*texts, "", "a", "ab", "ba", "a$", "bab"):
        assert (searched.search(text) is None) == (whole.fullmatch(text) is None), text


def test_adapters_are_matched_by_name_and_get_lora_affinity() -> None:
    result = router(serving(), server(), route(modelName=None, loraAdapters=["a", "b"]))
    assert result["strategy"] == "lora-affinity"
    assert result["scorers"] == {**SCORERS, "lora": 1}
    assert result["httproute"]["rules"] == [
        {"matches": [{"headers": [{**MODEL, "value": item}]} for item in ("a", "b")]}
    ]


def test_unused_adapters_are_reported() -> None:
    one = route(rule(modelMatch={"body": {"model": "a"}}), modelName=None, loraAdapters=["a", "b"])
    expected = [
        message for message in check(serving(), server(), one) if "loraAdapters: no rule" in message
    ]
    assert expected == [
        "f#3: info: loraAdapters: no rule with a target in this input matches b; ignored"
    ]


def test_timeout_is_left_out_and_retries_are_kept() -> None:
    policy = {"timeout": "10s", "retry": {"attempts": 2, "retryInterval": "100ms"}}
    documents = serving(), server(trafficPolicy=policy), route()
    (result,) = rules(*documents)
    assert "timeouts" not in result
    assert result["retry"] == {"attempts": 2, "backoff": "100ms"}
    (message,) = (item for item in warn(*documents) if item.startswith("f#2"))
    assert message.split(": ")[2] == "trafficPolicy.timeout"


def test_timeout_without_a_route_is_a_warning() -> None:
    documents = serving(), server(trafficPolicy={"timeout": "10s"})
    assert any("trafficPolicy.timeout: 10s is ignored" in line for line in warn(*documents))


def test_pd_group_sets_component_types() -> None:
    named = serving(
        role("one", entryTemplate={**entry(), "metadata": {"labels": {"kind": "P"}}}),
        role("two", entryTemplate={**entry(), "metadata": {"labels": {"kind": "D"}}}),
    )
    group = {
        "groupKey": "modelserving.volcano.sh/group-name",
        "prefillLabels": {"kind": "P"},
        "decodeLabels": {"kind": "D"},
    }
    roles = to_spec(named, server(pdGroup=group, kvConnector={"type": "nixl"}))["roles"]
    assert [item["componentType"] for item in roles] == ["prefiller", "decoder", "router"]
    assert roles[0]["kvTransfer"] == {"connector": "NixlConnector"}
    assert roles[1]["kvTransfer"] == {
        "connector": "NixlConnector",
        "sidecar": {"connector": "nixlv2"},
    }


def test_value_named_like_a_connector_is_not_a_setting() -> None:
    user_entry = entry()
    user_entry["spec"]["containers"][0]["args"] += ["--chat-template", "x-kv-transfer-config"]
    pair = serving(
        role("prefill", replicas=1, entryTemplate=user_entry), role("decode", replicas=1)
    )
    result = to_spec(pair, server(model=None, kvConnector={"type": "nixl"}))
    assert result["roles"][0]["kvTransfer"] == {"connector": "NixlConnector"}


def test_rule_without_weight_above_0_is_rejected() -> None:
    zero = route(rule({"modelServerName": "srv", "weight": 0}))
    (finding,) = reject(serving(), server(), zero)
    assert finding == ("f#3: rules[0].targetModels: needs at least one weight above 0")


def test_user_connector_is_unchanged() -> None:
    user_entry = entry()
    user_entry["spec"]["containers"][0]["args"] += [
        "--kv-transfer-config",
        '{"kv_connector":"X","kv_role":"kv_both"}',
    ]
    pair = serving(
        role("prefill", entryTemplate=user_entry, replicas=1),
        role("decode", entryTemplate=user_entry, replicas=1),
    )
    roles = to_spec(pair, server(kvConnector={"type": "mooncake"}))["roles"]
    assert roles[0]["kvTransfer"] == {}
    assert roles[1]["kvTransfer"] == {"sidecar": {"connector": "mooncake"}}


def test_route_may_use_any_served_model_name() -> None:
    names = entry()
    names["spec"]["containers"][0]["args"] += ["--served-model-name", "m", "virtual"]
    documents = serving(role(entryTemplate=names)), server(), route(modelName="virtual")
    assert reject(*documents) == []


def test_unserved_model_name_is_rewritten() -> None:
    documents = serving(), server(), route(modelName="virtual")
    assert reject(*documents) == []
    assert router(*documents)["modelRewrites"] == [
        {"models": ["virtual"], "targets": [{"model": "m"}]}
    ]
    assert any("the endpoint picker rewrites it to m" in line for line in check(*documents))


def test_different_rule_order_is_a_warning() -> None:
    later = rule(modelMatch={"headers": {"a": {"exact": "b"}}})
    assert (
        "f#3: warning: rules[1]: comes after the less specific rules[0]; HTTPRoute prefers the "
        "more specific rule, Kthena the first match"
    ) in warn(serving(), server(), route(rule(), later))
    assert not any("less specific" in item for item in warn(
        serving(), server(), route(later, rule())))  # fmt: skip


OTHER = serving(role(entryTemplate={**entry(), "metadata": {"labels": {"v": "2"}}}), name="v2")


SHARES = {"modelServerName": "srv", "weight": 30}, {"modelServerName": "new", "weight": 70}


def pool(name: str, weight: int) -> Manifest:
    group = "inference.networking.k8s.io"
    return {"group": group, "kind": "InferencePool", "name": name, "weight": weight}


def test_service_with_largest_weight_has_the_shared_route() -> None:
    canary = route(rule(*SHARES), parentRefs=GATEWAY)
    documents = serving(), OTHER, server(), server("new", {"v": "2"}), canary
    first, second = (item["spec"]["roles"][-1]["httproute"] for item in convert(*documents))
    assert first == {"routedBy": "v2"}
    backends = [pool("ms-pool", 30), pool("v2-pool", 70)]
    matches = [{"headers": [MODEL]}]
    assert second == {
        "rules": [{"matches": matches, "backendRefs": backends}],
        "parentRefs": GATEWAY,
    }
    (expected,) = [item for item in warn(*documents) if "InferencePools" in item]
    assert expected.startswith(
        "f#5: warning: rules[0].targetModels: a rule with several InferencePools"
    )


def test_target_keeps_its_own_rule() -> None:
    canary = route(rule(*SHARES), rule({"modelServerName": "srv"}))
    documents = serving(), OTHER, server(), server("new", {"v": "2"}), canary
    first, second = (item["spec"]["roles"][-1]["httproute"] for item in convert(*documents))
    assert first["rules"] == [{"matches": [{"headers": [MODEL]}]}]
    assert "routedBy" not in first
    assert len(second["rules"]) == 1


@each_row(
    ("one", "other", "fine"), [(9, 9, True), (9, 8, False), (None, 9, True), (9, None, False)]
)
def test_targets_of_a_rule_need_equal_retries(one: Any, other: Any, fine: bool) -> None:
    first, second = (
        {"trafficPolicy": {"retry": {"attempts": attempts}}} if attempts else {}
        for attempts in (one, other)
    )
    documents = (serving(), OTHER, server(**first), server("new", {"v": "2"}, **second),
                 route(rule(*SHARES)))  # fmt: skip
    if fine:
        convert(*documents)
    else:
        (lost,) = reject(*documents)
        assert lost.startswith(
            "f#3: trafficPolicy.retry: cannot be carried over: differs from the retr"
        )


TRANSFER = ["--kv-transfer-config", '{"kv_connector":"X","kv_role":"kv_consumer"}']


@pytest.mark.parametrize(
    ("args", "connector", "moved"),
    [
        (["m", "--port=8000"], None, ["m", "--port=8002"]),
        (["--port", "8000", "m"], None, ["--port", "8002", "m"]),
        (["m", *TRANSFER], {"type": "mooncake"}, ["m", *TRANSFER, "--port=8002"]),
        (["m", "=".join(TRANSFER)], {"type": "nixl"}, ["m", "=".join(TRANSFER), "--port=8002"]),
    ],
)
def test_decode_engine_of_entrypoint_moves_to_next_port(
    args: list[str], connector: Any, moved: list[str]
) -> None:
    container = {"name": "engine", "image": "team/own:1", "args": args}
    pod = {"containers": [
        {**container, "ports": [{"containerPort": 8000}]},
        {"name": "runtime", "image": "r", "ports": [{"containerPort": 8001}]},
    ]}  # fmt: skip
    roles = [role(name, entryTemplate={"spec": pod}) for name in ("prefill", "decode")]
    result = convert(serving(*roles), server(kvConnector=connector), route())
    prefill, decode, _ = result[0]["spec"]["roles"]
    assert prefill["template"]["spec"]["containers"][0]["args"] == args
    assert decode["template"]["spec"]["containers"][0]["args"] == moved
    assert decode["kvTransfer"]["enginePort"] == 8002
    (*_, lws) = of_kind(rendered(result[0]), "LeaderWorkerSet")
    pod = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    (engine,) = [item for item in pod["containers"] if item["name"] == "engine"]
    assert engine["ports"] == [{"containerPort": 8002}]
    (sidecar,) = [item for item in pod["initContainers"] if item["name"] == "pd-sidecar"]
    assert {"--port=8000", "--model-server-port=8002"} <= set(sidecar["args"])


def test_decode_engine_of_a_script_keeps_its_port_and_is_rejected() -> None:
    container = {"name": "engine", "image": "team/own:1", "ports": [{"containerPort": 8000}]}
    pod = {"containers": [{**container, "command": ["bash", "-c", "./decode.sh"]}]}
    roles = [role(name, entryTemplate={"spec": pod}) for name in ("prefill", "decode")]
    findings = reject(serving(*roles), server(), route())
    assert any("cannot be read to change its port" in problem for problem in findings)


ONE_EACH = (role("prefill", replicas=1), role("decode", replicas=1))


@each_row(
    ("documents", "expected"),
    [
        (
            [serving(), server(labels={"app": "x"})],
            (
                "f#2: workloadSelector.matchLabels: cannot be carried over: selects no pods of "
                "this input; pass its ModelServing or Deployment as well"
            ),
        ),
        (
            [
                serving(),
                serving(name="b"),
                server(labels={"modelserving.volcano.sh/entry": "true"}),
            ],
            (
                "f#3: workloadSelector.matchLabels: cannot be carried over: selects pods of "
                "several ModelServings (ms, b); a pool has the pods of one service; create a "
                "ModelServer and a rule for each"
            ),
        ),
        (
            [serving(*ONE_EACH), server(labels={"modelserving.volcano.sh/role": "decode"})],
            (
                "f#2: workloadSelector.matchLabels: cannot be carried over: selects decode "
                "without prefill; a pool has all roles of a service; split them into two services"
            ),
        ),
        (
            [serving(), server(), server("again")],
            (
                "f#3: spec: cannot be carried over: conflicts with another ModelServer that "
                "selects the same pods; a service has one pool"
            ),
        ),
        (
            [serving(), server(workloadPort={"port": 8000, "protocol": "https"})],
            (
                "f#2: workloadPort.protocol: cannot be carried over: is not supported; terminate "
                "TLS at the Gateway"
            ),
        ),
        (
            [serving(), server(), route(rateLimit={"inputTokensPerUnit": 1, "unit": "minute"})],
            (
                "f#3: rateLimit: cannot be carried over: is not supported by HTTPRoute; use a "
                "rate limit policy of your gateway"
            ),
        ),
        (
            [serving(), server(), route(rule({"externalModelProviderName": "p"}))],
            (
                "f#3: rules[0].targetModels[0].externalModelProviderName: cannot be carried "
                "over: external models are not supported; route these requests with an HTTPRoute "
                "of your own, and remove this target"
            ),
        ),
        (
            [
                serving(),
                {
                    "apiVersion": "networking.serving.volcano.sh/v1alpha1",
                    "kind": "ExternalModelProvider",
                    "metadata": {"name": "p"},
                    "spec": {"provider": "OpenAI"},
                },
            ],
            (
                "f#2: spec: cannot be carried over: is a model API outside of the cluster that "
                "Kthena's router forwards requests to, which is not supported; register it as a "
                "backend of an AI gateway, such as Envoy AI Gateway's AIServiceBackend"
            ),
        ),
        (
            [serving(), server(), route(rule("x"))],
            (
                "f#3: rules[0].targetModels[0].modelServerName: cannot be carried over: no service "
                "of this input is selected by ModelServer x; pass the ModelServer and its "
                "ModelServing together with this route"
            ),
        ),
        (
            [
                serving(),
                server(),
                route(parentRefs=GATEWAY),
                route(name="b", parentRefs=[{"name": "x"}]),
            ],
            (
                "f#4: parentRefs: cannot be carried over: conflicts with the parentRefs of "
                "another ModelRoute; a service has one HTTPRoute"
            ),
        ),
        (
            [serving(role(entryTemplate=entry("mock"))), server(inferenceEngine="SGLang")],
            (
                "f#2: inferenceEngine: cannot be carried over: the engine cannot be detected, "
                "and the endpoint picker would read vLLM's metrics; start it with `python3 -m "
                "sglang.launch_server`"
            ),
        ),
    ],
)
def test_unsupported_fields_of_routing_are_errors_or_warnings(
    documents: list[Any], expected: str
) -> None:
    assert expected in reject(*documents)
    label, _, rest = expected.partition(": ")
    assert f"{label}: warning: {rest}" in check(*documents, lossy=True)


@each_row(
    ("documents", "expected"),
    [
        (
            [serving(), server(inferenceEngine="SGLang")],
            "f#2: inferenceEngine: must match the engine of the pods, vllm",
        ),
        (
            [serving(), server(), route(rule({"weight": 1}))],
            (
                "f#3: rules[0].targetModels[0]: needs either modelServerName or "
                "externalModelProviderName"
            ),
        ),
        (
            [serving(), server(), route(rule(modelMatch={"body": {"model": "x"}}))],
            "f#3: rules[0].modelMatch.body.model: must be one of the route's models (m)",
        ),
        (
            [serving(), server(), route(rule(modelMatch={"uri": {"exact": "/", "prefix": "/"}}))],
            "f#3: rules[0].modelMatch.uri: needs one of exact, prefix or regex",
        ),
        (
            [serving(), server(), route(modelName=None)],
            "f#3: modelName: is required without loraAdapters",
        ),
    ],
)
def test_conflicting_routes_are_rejected(documents: list[Any], expected: str) -> None:
    assert expected in reject(*documents, lossy=True)


def _deployment(name: str = "mock", **spec: Any) -> Manifest:
    template = entry()
    template["metadata"] = {"labels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **spec,
        },
    }


def test_deployment_selected_by_server_becomes_a_service() -> None:
    documents = _deployment(), server(labels={"app": "mock"}), route(parentRefs=GATEWAY)
    (item,) = convert(*documents)
    assert item["metadata"]["name"] == "mock"
    worker, picker = item["spec"]["roles"]
    assert worker == {
        "name": "server",
        "componentType": "worker",
        "replicas": 3,
        "template": _deployment()["spec"]["template"],
        "port": 8000,
    }
    assert picker["httproute"]["parentRefs"] == GATEWAY
    made_of = read_source(*documents).render()
    (pool,) = [element for element in made_of if element["kind"] == "InferencePool"]
    (one, *_) = [element for element in made_of if element["kind"] == "LeaderWorkerSet"]
    labels = one["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"]
    selected = dict(pool["spec"]["selector"]["matchLabels"])
    selected.pop("leaderworkerset.sigs.k8s.io/worker-index")  # of LeaderWorkerSet itself
    assert selected.items() <= labels.items()
    assert not [element for element in made_of if element["kind"] == "PodGroup"]


def test_deployment_that_no_server_selects_is_rejected() -> None:
    (errors,) = reject(serving(), server(), _deployment())
    assert errors.startswith("f#3: kind: Deployment (apps/v1) is not an InferenceService")
    several = _deployment(), _deployment("other"), server(labels={"app": "mock"})
    assert reject(*several)[0].startswith(
        "f#2: kind: Deployment (apps/v1) is not an InferenceService"
    )
    lost = reject(_deployment(strategy={"type": "Recreate"}), server(labels={"app": "mock"}))
    assert lost == [
        (
            "f: strategy: cannot be carried over: is not supported; replicas are "
            "LeaderWorkerSets, which are updated one after another"
        )
    ]
    unread = reject(_deployment(minReadySeconds=5), server(labels={"app": "mock"}))
    assert [item for item in unread if item.startswith("f: minReadySeconds: ")], unread
