"""What a ModelServer or a ModelRoute asks for that is refused, or left out with a warning."""

from __future__ import annotations

from typing import Any

import pytest
from importers.kthena_samples import GATEWAY, entry, role, route, rule, server, serving
from importers.reads import problems, said

ONE_EACH = (role("prefill", replicas=1), role("decode", replicas=1))


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            [serving(), server(labels={"app": "x"})],
            (
                "f#2: workloadSelector.matchLabels: cannot be carried over: selects no pods of a "
                "ModelServing of this input"
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
                "several "
                "ModelServings (ms, b), and a pool holds those of one service; make a "
                "ModelServer and "
                "a rule for each"
            ),
        ),
        (
            [serving(*ONE_EACH), server(labels={"modelserving.volcano.sh/role": "decode"})],
            (
                "f#2: workloadSelector.matchLabels: cannot be carried over: selects decode without "
                "prefill, and the pool of a service holds all of its roles; make two services of "
                "them"
            ),
        ),
        (
            [serving(), server(), server("again")],
            (
                "f#3: spec: cannot be carried over: a service has one pool, and another "
                "ModelServer "
                "selects these pods already"
            ),
        ),
        (
            [serving(), server(workloadPort={"port": 8000, "protocol": "https"})],
            (
                "f#2: workloadPort.protocol: cannot be carried over: gateway and picker speak "
                "plain "
                "HTTP to the pods; end TLS at the Gateway"
            ),
        ),
        (
            [serving(), server(), route(rateLimit={"inputTokensPerUnit": 1, "unit": "minute"})],
            (
                "f#3: rateLimit: cannot be carried over: HTTPRoutes limit no tokens; use your "
                "gateway's own policy"
            ),
        ),
        (
            [serving(), server(), route(rule({"externalModelProviderName": "p"}))],
            (
                "f#3: rules[0].targetModels[0].externalModelProviderName: cannot be carried over: "
                "routes of ours lead to pods of the service; write a backendRef into httproute"
            ),
        ),
        (
            [serving(), server(), route(rule("x"))],
            (
                "f#3: rules[0].targetModels[0].modelServerName: cannot be carried over: x leads "
                "to no "
                "service of this input; read its documents together"
            ),
        ),
        (
            [serving(), server(), route(modelName="virtual")],
            (
                "f#3: modelName: cannot be carried over: requests for virtual reach an engine that "
                "serves m, and nothing rewrites them; give the engine --served-model-name virtual"
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
                "f#4: parentRefs: cannot be carried over: a service has one HTTPRoute, and another "
                "ModelRoute gives other parentRefs"
            ),
        ),
        (
            [serving(role(entryTemplate=entry("mock"))), server(inferenceEngine="SGLang")],
            (
                "f#2: inferenceEngine: cannot be carried over: no container's program is known, "
                "and "
                "the picker then reads vLLM's metrics; start it as `python3 -m "
                "sglang.launch_server`"
            ),
        ),
    ],
)
def test_what_is_lost_is_refused_or_said(documents: list[Any], expected: str) -> None:
    assert expected in problems(*documents)
    label, _, rest = expected.partition(": ")
    assert f"{label}: warning: {rest}" in said(*documents, lossy=True)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            [serving(), server(inferenceEngine="SGLang")],
            "f#2: inferenceEngine: the pods run vllm",
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
            "f#3: rules[0].modelMatch.body.model: is none of the route's models (m)",
        ),
        (
            [serving(), server(), route(rule(modelMatch={"uri": {"exact": "/", "prefix": "/"}}))],
            "f#3: rules[0].modelMatch.uri: needs one of exact, prefix and regex",
        ),
        (
            [serving(), server(), route(modelName=None)],
            "f#3: modelName: is required without loraAdapters",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(documents: list[Any], expected: str) -> None:
    assert expected in problems(*documents, lossy=True)
