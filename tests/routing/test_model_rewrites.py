"""Model rewrites: the rendered object, rejected values, and shares of requests."""

from __future__ import annotations

from typing import Any

import pytest
from routed import LLM_D, ROUTE, V1_5, only, routed
from rows import each_row
from samples import Manifest, container, role, template

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.cli.diff._notes import describe_traffic_shares
from fusioninfer_pulumi.loading import load


def serving(*names: str, name: str = "inference", adapters: str = "") -> Manifest:
    """Return a role that serves these names; `NAME=PATH` adds an adapter."""
    args = ["--model", "m", "--served-model-name", *names]
    args += ["--enable-lora", "--lora-modules", adapters] if adapters else []
    return role(name, template=template(container(args=args)))


def canary(*weights: int, **more: Any) -> Manifest:
    """Return a service that rewrites `chat` to `base` and `tuned`."""
    names = ("base", "tuned")
    targets = [{"model": n, "weight": w} for n, w in zip(names, weights, strict=True)]
    rewrites = [{"models": ["chat"], "targets": targets}]
    return routed(serving("base", adapters="tuned=/a"), modelRewrites=rewrites, **more)


def image(name: str) -> Manifest:
    """Return `endpointPicker` with an image."""
    return {"endpointPicker": {"image": name}}


API_VERSIONS = {
    "registry.k8s.io/gateway-api-inference-extension/epp:v1.3.1": "inference.networking.x-k8s.io",
    V1_5: "inference.networking.x-k8s.io",
    "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0": "llm-d.ai",
    LLM_D: "llm-d.ai",
}


@each_row("picker", API_VERSIONS)
def test_rewrite_has_the_api_group_that_the_picker_reads(picker: str) -> None:
    result = only(canary(95, 5, **image(picker)), "InferenceModelRewrite")
    assert result["apiVersion"] == f"{API_VERSIONS[picker]}/v1alpha2"
    assert result["spec"] == {
        "poolRef": {
            "group": "inference.networking.k8s.io",
            "kind": "InferencePool",
            "name": "svc-pool",
        },
        "rules": [
            {
                "matches": [{"model": {"type": "Exact", "value": "chat"}}],
                "targets": [
                    {"modelRewrite": "base", "weight": 95},
                    {"modelRewrite": "tuned", "weight": 5},
                ],
            }
        ],
    }


def test_catch_all_rewrite_is_last() -> None:
    any_, one = {"targets": [{"model": "m"}]}, {"models": ["a", "b"], "targets": [{"model": "m"}]}
    result = only(routed(modelRewrites=[any_, one]), "InferenceModelRewrite")
    named, other = result["spec"]["rules"]
    assert [match["model"]["value"] for match in named["matches"]] == ["a", "b"]
    assert other == {"targets": [{"modelRewrite": "m", "weight": 1}]}


AT = "roles[0].modelRewrites"


def test_services_of_a_split_may_rewrite_the_same_model() -> None:
    def named(service_: str, own: str, **route: Any) -> Manifest:
        rewrites = [{"models": ["chat"], "targets": [{"model": own}]}]
        result = routed(serving(own), modelRewrites=rewrites, httproute=route)
        result["metadata"]["name"] = service_
        return result

    first = named("chat", "v1", **ROUTE, split=[{"service": "chat-next", "weight": 5}])
    second = named("chat-next", "v2", routedBy="chat")
    expected = [
        str(finding)
        for plan in plan_services([args for item in (first, second) for args in load(item)])
        for finding in plan.findings
        if "fail" in str(finding)
    ]
    assert expected == []


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        ((95, 5), (50, 50), ["requests for chat: base 95 % -> 50 %, tuned 5 % -> 50 %"]),
        ((95, 5), (100, 0), ["requests for chat: base 95 % -> 100 %, tuned 5 % -> 0 %"]),
        ((95, 5), (190, 10), []),
    ],
)
def test_diff_notes_changed_shares_of_models(
    before: tuple[int, int], after: tuple[int, int], notes: list[str]
) -> None:
    old, new = (only(canary(*weights), "InferenceModelRewrite") for weights in (before, after))
    assert list(describe_traffic_shares(old["kind"], old, new)) == notes


def test_diff_notes_changed_shares_of_pools() -> None:
    def split(weight: int) -> Manifest:
        share = [{"service": "next", "weight": weight}]
        return only(routed(httproute={**ROUTE, "split": share}), "HTTPRoute")

    assert list(describe_traffic_shares("HTTPRoute", split(5), split(50))) == [
        "requests: svc-pool 95 % -> 50 %, next-pool 5 % -> 50 %, when next-pool is ready"
    ]
    alone = only(routed(httproute=ROUTE), "HTTPRoute")
    assert list(describe_traffic_shares("HTTPRoute", split(50), alone)) == [
        "requests: svc-pool 50 % -> 100 %, next-pool 50 % -> 0 %, when svc-pool is ready"
    ]


def test_diff_does_not_claim_to_wait_for_user_backends() -> None:
    def route(weight: int) -> Manifest:
        refs = [{"name": name, "kind": "InferencePool", "group": "inference.networking.k8s.io",
                 "weight": weight} for name in ("a", "b")]  # fmt: skip
        refs[0]["weight"] = 1
        return only(routed(httproute={**ROUTE, "rules": [{"backendRefs": refs}]}), "HTTPRoute")

    assert list(describe_traffic_shares("HTTPRoute", route(1), route(3))) == [
        "requests: a 50 % -> 25 %, b 50 % -> 75 %"
    ]
