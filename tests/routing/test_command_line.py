"""Output of the command line about routers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from routed import pair, routed
from samples import Manifest

from fusioninfer_pulumi.cli.main import main

UNKNOWN = "unknown: no route has a known host name or Gateway"
BALANCED = "3 x prefix match + 2 x free KV cache + 2 x short queue"

ROUTE = {
    "parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "https"}],
    "hostnames": ["a.example.com", "b.example.com"],
}
CASES: dict[str, tuple[Manifest, tuple[str, str, str]]] = {
    "a route": (
        routed(httproute=ROUTE, strategy="queue-size"),
        (
            (
                "a.example.com, b.example.com -> Gateway infra/shared (https) -> HTTPRoute "
                "svc-httproute -> InferencePool svc-pool -> endpoint picker svc-epp (gaie-1.2) -> "
                "1 inference pod, port 8000"
            ),
            "each request goes to the pod with the highest score: 100 x short queue",
            "http://a.example.com",
        ),
    ),
    "an own Gateway": (
        routed(httproute=None, gateway={}),
        (
            (
                "any host -> Gateway svc-gateway -> HTTPRoute svc-httproute -> InferencePool "
                "svc-pool -> endpoint picker svc-epp (gaie-1.2) -> 1 inference pod, port 8000"
            ),
            f"each request goes to the pod with the highest score: {BALANCED}",
            "http://<address> (the address of the Gateway, once assigned)",
        ),
    ),
    "no route": (
        routed(httproute=None),
        (
            (
                "no route -> InferencePool svc-pool -> endpoint picker svc-epp (gaie-1.2) -> "
                "1 inference "
                "pod, port 8000"
            ),
            f"each request goes to the pod with the highest score: {BALANCED}",
            UNKNOWN,
        ),
    ),
    "another service's route": (
        routed(httproute={"routedBy": "stable"}),
        (
            (
                "the route of service stable -> InferencePool svc-pool -> "
                "endpoint picker svc-epp "
                "(gaie-1.2) -> 1 inference pod, port 8000"
            ),
            f"each request goes to the pod with the highest score: {BALANCED}",
            UNKNOWN,
        ),
    ),
    "routes made elsewhere": (
        routed(httproute={"refs": [{"name": "a", "namespace": "infra"}, {"name": "b"}]}),
        (
            (
                "HTTPRoute infra/a, b (managed elsewhere) -> InferencePool svc-pool -> "
                "endpoint picker svc-epp "
                "(gaie-1.2) -> 1 inference pod, port 8000"
            ),
            f"each request goes to the pod with the highest score: {BALANCED}",
            UNKNOWN,
        ),
    ),
    "prefill and decode": (
        pair(httproute={"hostnames": ["a.example.com"], "parentRefs": [{"name": "g"}]}),
        (
            (
                "a.example.com -> Gateway g -> HTTPRoute svc-httproute -> InferencePool svc-pool "
                "-> endpoint picker svc-epp (llm-d-0.10) -> 1 prefill + 1 decode pods, port 8000"
            ),
            (
                "a prefill pod computes the prompt, a decode pod (of the same pair revision, if "
                f"possible) generates; the highest score wins: {BALANCED}"
            ),
            "http://a.example.com",
        ),
    ),
}


def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, manifest: Manifest, *words: str) -> str:
    path = tmp_path / "service.yaml"
    path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    command, *options = words
    assert main([command, str(path), *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_plan_shows_requests_strategy_and_endpoint(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str
) -> None:
    manifest, (requests, strategy, url) = CASES[case]
    lines = run(capsys, tmp_path, manifest, "plan").splitlines()
    expected = {
        line.split()[0]: line.partition("  ")[2].strip() for line in lines if line[:1].isupper()
    }
    assert (expected["Requests"], expected["Strategy"], expected["Endpoint"]) == (
        requests,
        strategy,
        url,
    )


def test_plan_shows_the_shares_of_pools_and_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    targets = [{"model": "m", "weight": 95}, {"model": "n", "weight": 5}]
    manifest = routed(
        httproute={"parentRefs": [{"name": "g"}], "split": [{"service": "next", "weight": 10}]},
        modelRewrites=[{"models": ["chat"], "targets": targets}],
    )
    lines = run(capsys, tmp_path, manifest, "plan").splitlines()
    assert "Shares    svc-pool 90 %, next-pool 10 %" in lines
    assert "Models    chat -> m 95 %, n 5 %" in lines


def test_json_lists_the_routers_objects_but_not_its_role(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest = routed(httproute=ROUTE)
    (plan,) = json.loads(run(capsys, tmp_path, manifest, "plan", "--output", "json"))
    assert [role["name"] for role in plan["roles"]] == ["inference"]
    assert plan["totalPods"] == 1
    rendered: Any = json.loads(run(capsys, tmp_path, manifest, "render", "--output", "json"))
    assert plan["objects"] == [
        {
            "apiVersion": item["apiVersion"],
            "kind": item["kind"],
            "namespace": item["metadata"]["namespace"],
            "name": item["metadata"]["name"],
        }
        for item in rendered["items"]
    ]
    assert "InferencePool" in {item["kind"] for item in plan["objects"]}
