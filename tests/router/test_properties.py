"""The pool's selector, held against every pod that a plan brings about and its neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from routed import ROUTE
from samples import Manifest
from strategies import services

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.manifests import render
from fusioninfer_pulumi.plan import ServicePlan, plan_service
from fusioninfer_pulumi.reading import load

STRATEGIES = ("prefix-cache", "kv-cache-utilization", "queue-size", "lora-affinity",
              "pd-disaggregation", None)  # fmt: skip

Labels = Mapping[str, str]


def matches(selector: Mapping[str, Any], pod: Labels) -> bool:
    return bool(selector["matchLabels"].items() <= pod.items())


def lws_labels(name: str, group: int, worker: int) -> dict[str, str]:
    """What LeaderWorkerSet's webhook puts on a pod."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    return {
        f"{prefix}name": name,
        f"{prefix}group-index": str(group),
        f"{prefix}group-key": "0123456789",
        f"{prefix}template-revision-hash": "abc",
        f"{prefix}worker-index": str(worker),
    }


def pods_of(plan: ServicePlan) -> Iterator[tuple[str, bool, Labels]]:
    """Component type, whether it serves, and labels of every pod of a service."""
    for each in render(plan):
        if each["kind"] == "Deployment":
            yield "router", False, each["spec"]["template"]["metadata"]["labels"]
        if each["kind"] != "LeaderWorkerSet":
            continue
        name, group = each["metadata"]["name"], each["spec"]["leaderWorkerTemplate"]
        kind = each["metadata"]["labels"]["fusioninfer.io/component-type"]
        for worker in range(group["size"]):
            key = (
                "leaderTemplate" if worker == 0 and "leaderTemplate" in group else "workerTemplate"
            )
            own = group[key]["metadata"]["labels"]
            yield kind, worker == 0, {**own, **lws_labels(name, 0, worker)}


@st.composite
def routed_services(draw: st.DrawFn) -> Manifest:
    manifest = draw(services(namespaces=("default",)))
    strategy = draw(st.sampled_from(STRATEGIES))
    router: Manifest = {"name": "router", "componentType": "router", "httproute": ROUTE}
    if strategy is not None:
        router["strategy"] = strategy
    template = draw(st.sampled_from((None, {"metadata": {"labels": {"role": "x", "team": "y"}}})))
    if template is not None:
        router["endpointPicker"] = {"template": template}
    if len(manifest["spec"]["roles"]) > 1 and draw(st.booleans()):  # else pairs are rare
        for role, kind in zip(manifest["spec"]["roles"], ("prefiller", "decoder"), strict=False):
            role["componentType"] = kind
        for role in manifest["spec"]["roles"]:
            role.pop("startupPolicy", None)  # a gang has no choice
    types = {role["componentType"] for role in manifest["spec"]["roles"]}
    for role in manifest["spec"]["roles"]:
        role["port"] = 8000
        if {"prefiller", "decoder"} <= types and role["componentType"] != "worker":
            role.setdefault("kvTransfer", {})
    at = draw(st.integers(0, len(manifest["spec"]["roles"])))
    manifest["spec"]["roles"].insert(at, router)
    return manifest


def accepted(manifest: Manifest) -> ServicePlan | None:
    (args,) = load(manifest)
    plan = plan_service(args)
    return None if any(each.severity is Severity.ERROR for each in plan.findings) else plan


def wanted(plan: ServicePlan, kind: str, *, serves: bool) -> bool:
    """The rule in other words: who answers a request that the picker sends."""
    types = {role.component_type.value for role in plan.roles}
    assert plan.router is not None
    pairs = plan.router.args.strategy is not None and (
        plan.router.args.strategy.value == "pd-disaggregation"
    )
    pairs = pairs or (plan.router.args.strategy is None and {"prefiller", "decoder"} <= types)
    if not serves or kind == "router":
        return False
    if pairs or "prefiller" not in types or types == {"prefiller"}:
        return True
    return kind == ("decoder" if "decoder" in types else "worker")


@settings(max_examples=40)
@given(routed_services())
def test_the_pool_holds_exactly_the_pods_that_serve(manifest: Manifest) -> None:
    plan = accepted(manifest)
    if plan is None:
        return
    (pool,) = [each for each in render(plan) if each["kind"] == "InferencePool"]
    selector = pool["spec"]["selector"]
    pods = list(pods_of(plan))
    for kind, serves, labels in pods:
        assert matches(selector, labels) == wanted(plan, kind, serves=serves), labels
    assert sum(kind == "router" for kind, _, _ in pods) == 1


@settings(max_examples=30)
@given(routed_services(), routed_services())
def test_no_selector_reaches_another_services_pods(one: Manifest, other: Manifest) -> None:
    other["metadata"]["name"] = one["metadata"]["name"] + "-x"
    plans = [plan for plan in map(accepted, (one, other)) if plan is not None]
    for mine, theirs in itertools.permutations(plans, 2):
        for each in render(mine):
            selected = {
                "InferencePool": lambda spec: spec["selector"],
                "Service": lambda spec: {"matchLabels": spec["selector"]},
                "Deployment": lambda spec: spec["selector"],
            }.get(each["kind"])
            if selected is not None:
                selector = selected(each["spec"])
                assert not any(matches(selector, labels) for _, _, labels in pods_of(theirs))


@settings(max_examples=25)
@given(routed_services())
def test_the_pickers_service_reaches_the_picker_alone(manifest: Manifest) -> None:
    plan = accepted(manifest)
    if plan is None:
        return
    (service,) = [each for each in render(plan) if each["kind"] == "Service"]
    selector = {"matchLabels": service["spec"]["selector"]}
    for kind, _, labels in pods_of(plan):
        assert matches(selector, labels) == (kind == "router")


def test_the_property_sees_services_of_every_kind() -> None:
    """The properties would be empty if most services were refused."""
    seen: dict[str, int] = {"accepted": 0, "refused": 0, "several nodes": 0, "pair": 0}

    # Always the same ones: how many of a kind are drawn by chance varies widely.
    @settings(derandomize=True, database=None, max_examples=50)
    @given(routed_services())
    def look(manifest: Manifest) -> None:
        plan = accepted(manifest)
        seen["accepted" if plan is not None else "refused"] += 1
        if plan is not None:
            types = {role.component_type.value for role in plan.roles}
            seen["several nodes"] += any(role.nodes > 1 for role in plan.roles)
            seen["pair"] += {"prefiller", "decoder"} <= types

    look()
    assert seen["accepted"] > seen["refused"]
    assert seen["several nodes"] > 5
    assert seen["pair"] > 5, seen
