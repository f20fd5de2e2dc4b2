"""Selectors of pools and pickers, tested with all pods of a plan and of other services."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from profiles import examples
from samples import Manifest, plan_of
from strategies import component_types, plans, services

from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Labels = Mapping[str, str]


def matches(selector: Mapping[str, Any], pod: Labels) -> bool:
    return bool(selector["matchLabels"].items() <= pod.items())


def lws_labels(name: str, group: int, worker: int) -> dict[str, str]:
    """Return the labels that LeaderWorkerSet's webhook sets."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    return {
        f"{prefix}name": name,
        f"{prefix}group-index": str(group),
        f"{prefix}group-key": "0123456789",
        f"{prefix}template-revision-hash": "abc",
        f"{prefix}worker-index": str(worker),
    }


def pods_of(plan: ServicePlan) -> Iterator[tuple[str, bool, Labels]]:
    """Yield component type, whether it is a leader, and labels of each pod."""
    for item in render(plan):
        if item["kind"] == "Deployment":
            yield "router", False, item["spec"]["template"]["metadata"]["labels"]
        if item["kind"] != "LeaderWorkerSet":
            continue
        name, group = item["metadata"]["name"], item["spec"]["leaderWorkerTemplate"]
        kind = item["metadata"]["labels"]["fusioninfer.io/component-type"]
        for worker in range(group["size"]):
            key = (
                "leaderTemplate" if worker == 0 and "leaderTemplate" in group else "workerTemplate"
            )
            labels = group[key]["metadata"]["labels"]
            yield kind, worker == 0, {**labels, **lws_labels(name, 0, worker)}


PAIRS = pytest.mark.parametrize("pairs", [False, True])
"""Test each property of services with and without a prefill/decode pair."""


def routed_plans(pairs: bool = False) -> st.SearchStrategy[ServicePlan]:
    """Return plans of services with a picker, and with prefill and decode roles if `pairs`."""

    def is_wanted(manifest: Manifest) -> bool:
        # A complete configuration could choose any pods.
        fields = "endpointPickerConfig" in str(manifest)
        return not fields and (not pairs or {"prefiller", "decoder"} <= component_types(manifest))

    return plans(routed=True, wanted=is_wanted).filter(lambda plan: plan.picker is not None)


def wanted(plan: ServicePlan, kind: str, *, serves: bool) -> bool:
    """Return whether the picker may send requests to a pod."""
    types = {role.component_type.value for role in plan.roles}
    assert plan.routing is not None
    pairs = plan.routing.router.strategy is not None and (
        plan.routing.router.strategy.value == "pd-disaggregation"
    )
    pairs = pairs or (plan.routing.router.strategy is None and {"prefiller", "decoder"} <= types)
    if not serves or kind == "router":
        return False
    if pairs or "prefiller" not in types or types == {"prefiller"}:
        return True
    return kind == ("decoder" if "decoder" in types else "worker")


@PAIRS
@examples(0.5)
@given(st.data())
def test_pool_selects_exactly_the_serving_pods(pairs: bool, data: st.DataObject) -> None:
    plan = data.draw(routed_plans(pairs))
    (pool,) = [item for item in render(plan) if item["kind"] == "InferencePool"]
    selector = pool["spec"]["selector"]
    pods = list(pods_of(plan))
    for kind, serves, labels in pods:
        assert matches(selector, labels) == wanted(plan, kind, serves=serves), labels
    assert sum(kind == "router" for kind, _, _ in pods) == 1


@PAIRS
@examples(0.5)
@given(st.data())
def test_no_selector_reaches_another_services_pods(pairs: bool, data: st.DataObject) -> None:
    one, neighbor = data.draw(routed_plans(pairs)), data.draw(services(routed=True))
    neighbor["metadata"]["name"] = one.service + "-x"
    other = plan_of(neighbor)
    assume(not filter_errors(other.findings))
    for mine, theirs in itertools.permutations((one, other)):
        for item in render(mine):
            selected = {
                "InferencePool": lambda spec: spec["selector"],
                "Service": lambda spec: {"matchLabels": spec["selector"]},
                "Deployment": lambda spec: spec["selector"],
            }.get(item["kind"])
            if selected is not None:
                selector = selected(item["spec"])
                assert not any(matches(selector, labels) for _, _, labels in pods_of(theirs))


@PAIRS
@examples(0.5)
@given(st.data())
def test_picker_service_selects_only_the_picker(pairs: bool, data: st.DataObject) -> None:
    plan = data.draw(routed_plans(pairs))
    (service,) = [item for item in render(plan) if item["kind"] == "Service"]
    selector = {"matchLabels": service["spec"]["selector"]}
    for kind, _, labels in pods_of(plan):
        assert matches(selector, labels) == (kind == "router")
