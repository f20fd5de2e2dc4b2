"""Weights of a Kthena ModelRoute: shares of several services."""

from __future__ import annotations

from typing import Any

import pytest
from importers.kthena_samples import GATEWAY, Manifest, entry, role, route, rule, server, serving
from importers.reads import converted, problems, warned

MODEL = {"name": "X-Gateway-Model-Name", "value": "m"}
OTHER = serving(role(entryTemplate={**entry(), "metadata": {"labels": {"v": "2"}}}), name="v2")
SHARES = {"modelServerName": "srv", "weight": 30}, {"modelServerName": "new", "weight": 70}


def pool(name: str, weight: int) -> Manifest:
    group = "inference.networking.k8s.io"
    return {"group": group, "kind": "InferencePool", "name": name, "weight": weight}


def test_weights_are_shares_of_the_route_of_the_largest() -> None:
    canary = route(rule(*SHARES), parentRefs=GATEWAY)
    documents = serving(), OTHER, server(), server("new", {"v": "2"}), canary
    first, second = (each["spec"]["roles"][-1]["httproute"] for each in converted(*documents))
    assert first == {"routedBy": "v2"}
    backends = [pool("ms-pool", 30), pool("v2-pool", 70)]
    matches = [{"headers": [MODEL]}]
    assert second == {
        "rules": [{"matches": matches, "backendRefs": backends}],
        "parentRefs": GATEWAY,
    }
    (told,) = [each for each in warned(*documents) if "InferencePools" in each]
    assert told.startswith("f#5: warning: rules[0].targetModels: lead to several InferencePools")


def test_a_target_with_a_rule_of_its_own_keeps_it() -> None:
    canary = route(rule(*SHARES), rule({"modelServerName": "srv"}))
    documents = serving(), OTHER, server(), server("new", {"v": "2"}), canary
    first, second = (each["spec"]["roles"][-1]["httproute"] for each in converted(*documents))
    assert first["rules"] == [{"matches": [{"headers": [MODEL]}]}]
    assert "routedBy" not in first
    assert len(second["rules"]) == 1


@pytest.mark.parametrize(
    ("one", "other", "fine"),
    [("9s", "9s", True), ("9s", "8s", False), (None, "9s", True), ("9s", None, False)],
)
def test_shared_requests_go_by_one_policy(one: Any, other: Any, fine: bool) -> None:
    first, second = ({"trafficPolicy": {"timeout": each}} if each else {} for each in (one, other))
    documents = (serving(), OTHER, server(**first), server("new", {"v": "2"}, **second),
                 route(rule(*SHARES)))  # fmt: skip
    if fine:
        converted(*documents)
    else:
        (lost,) = problems(*documents)
        assert lost.startswith("f#3: trafficPolicy: cannot be carried over: requests that new sh")
