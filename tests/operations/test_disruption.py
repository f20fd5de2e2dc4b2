"""Disruption budgets: replicas are converted to pods, and selectors select one role."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from routed import pair
from rows import each_row
from samples import nodes, prefill_decode, rendered, role, service

Manifest = dict[str, Any]


def budgets(manifest: Manifest) -> dict[str, Manifest]:
    return {
        item["metadata"]["name"]: item["spec"]
        for item in rendered(manifest)
        if item["kind"] == "PodDisruptionBudget"
    }


def min_available(fields: Manifest, replicas: int, size: int = 1) -> int:
    """Return the pods that a role's budget requires."""
    multinode = {"multinode": nodes(size, launcher="none")} if size > 1 else {}
    result = role(replicas=replicas, disruptionBudget=fields, **multinode)
    (spec,) = budgets(service(result)).values()
    pods: int = spec["minAvailable"]
    return pods


@each_row(
    ("fields", "replicas", "down"),
    [
        ({}, 1, 1),
        ({}, 4, 1),
        ({"maxUnavailable": 2}, 4, 2),
        ({"maxUnavailable": 9}, 4, 4),
        ({"maxUnavailable": 0}, 4, 0),
        ({"maxUnavailable": "50%"}, 5, 2),
        ({"maxUnavailable": "10%"}, 5, 1),
        ({"maxUnavailable": "0%"}, 5, 0),
        ({"maxUnavailable": "100%"}, 3, 3),
        ({"minAvailable": 0}, 3, 3),
        ({"minAvailable": 3}, 4, 1),
        ({"minAvailable": 4}, 4, 0),
        ({"minAvailable": "50%"}, 5, 2),
        ({"minAvailable": "1%"}, 5, 4),
        ({"minAvailable": "100%"}, 5, 0),
    ],
)
@each_row("size", [1, 4])
def test_replica_budget_is_converted_to_pods(
    fields: Manifest, replicas: int, down: int, size: int
) -> None:
    assert min_available(fields, replicas, size) == replicas * size - down


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.data())
def test_evictions_in_any_order_take_down_at_most_the_allowed_replicas(
    replicas: int, size: int, allowed: int, data: st.DataObject
) -> None:
    """An eviction is allowed while more pods are healthy than the budget requires."""
    needed = min_available({"maxUnavailable": allowed}, replicas, size)
    healthy = {(replica, pod) for replica in range(replicas) for pod in range(size)}
    while len(healthy) > needed:
        replica, pod = data.draw(st.sampled_from(sorted(healthy)))
        healthy.discard((replica, pod))
        # LeaderWorkerSet may delete the replica's other pods before or after the next eviction.
        if data.draw(st.booleans()):
            healthy -= {item for item in healthy if item[0] == replica}
    down = {r for r in range(replicas) if sum(item[0] == r for item in healthy) < size}
    assert len(down) <= allowed


def test_selector_selects_only_the_role() -> None:
    manifest = pair()
    manifest["spec"]["disruptionBudget"] = {"unhealthyPods": "IfHealthyBudget"}
    assert budgets(manifest) == {
        f"svc-{name}": {
            "minAvailable": 0,
            "selector": {
                "matchLabels": {
                    "fusioninfer.io/service": "svc",
                    "fusioninfer.io/component-type": kind,
                    "fusioninfer.io/role-name": name,
                }
            },
            "unhealthyPodEvictionPolicy": "IfHealthyBudget",
        }
        for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
    }


def test_budget_of_a_role_overrides_the_services() -> None:
    manifest = prefill_decode(
        {"replicas": 3, "disruptionBudget": {"maxUnavailable": 2}},
        {"replicas": 3},
        disruptionBudget={},
    )
    result = budgets(manifest)
    assert {name: spec["minAvailable"] for name, spec in result.items()} == {
        "svc-prefill": 1,
        "svc-decode": 2,
    }
    assert result["svc-decode"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_one_budget_covers_the_pods_of_all_serving_groups() -> None:
    built = role(replicas=2, multinode=nodes(3, launcher="none"))
    result = budgets(service(built, groups=3, disruptionBudget={}))
    assert {name: spec["minAvailable"] for name, spec in result.items()} == {"svc-inference": 17}


def test_role_scaled_to_zero_has_no_budget() -> None:
    assert budgets(service(role(replicas=0, disruptionBudget={}))) == {}
