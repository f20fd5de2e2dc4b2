"""Placement by network topology in the PodGroup."""

from __future__ import annotations

from typing import Any

import pytest
from samples import Manifest, nodes, plan_of, prefill_decode, problems, rendered, warnings

from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus

HARD = {"mode": "hard", "highestTierAllowed": 1}


def placed(topology: Any, minimum: Any = None, **spec: Any) -> Manifest:
    policy = {"networkTopology": topology}
    if minimum is not None:
        policy["minRoleReplicas"] = minimum
    two = {"multinode": nodes(2, launcher="none")}
    return prefill_decode(two, two, schedulingStrategy={"gangPolicy": policy}, **spec)


def pod_groups(manifest: Manifest) -> list[Manifest]:
    return [item["spec"] for item in rendered(manifest) if item["kind"] == "PodGroup"]


def test_group_policy_is_added_to_pod_group() -> None:
    (spec,) = pod_groups(placed({"groupPolicy": HARD}))
    assert spec["networkTopology"] == HARD
    assert "minTaskMember" in spec


def test_every_serving_group_has_network_topology() -> None:
    specs = pod_groups(placed({"groupPolicy": {"mode": "soft"}}, groups=2))
    assert [spec["networkTopology"] for spec in specs] == [{"mode": "soft"}] * 2


@pytest.mark.parametrize("minimum", [None, {"decode": 1}])
def test_role_policy_makes_each_replica_a_subgroup(minimum: Any) -> None:
    (spec,) = pod_groups(placed({"rolePolicy": HARD}, minimum))
    assert "minTaskMember" not in spec
    assert "networkTopology" not in spec
    prefill, decode = spec["subGroupPolicy"]
    assert prefill["networkTopology"] == decode["networkTopology"] == HARD
    assert (prefill["minSubGroups"], decode["minSubGroups"]) == (1, 1 if minimum else 2)
    # As all-or-nothing as a gang of all pods, if no minimum is set.
    assert spec["minMember"] == (4 if minimum else 6)


def test_hard_topology_mode_is_the_default_and_needs_a_tier() -> None:
    assert pod_groups(placed({"groupPolicy": {"highestTierAllowed": 2}}))[0]["networkTopology"] == {
        "mode": "hard",
        "highestTierAllowed": 2,
    }
    (finding,) = problems(placed({"rolePolicy": {}}))
    assert finding == (
        "schedulingStrategy.gangPolicy.networkTopology.rolePolicy.highestTierAllowed: is required "
        "for mode hard, because Volcano ignores the mode otherwise"
    )


def test_empty_network_topology_is_a_warning() -> None:
    result = "networkTopology: has no effect: neither groupPolicy nor rolePolicy is set; set one"
    assert any(warning.endswith(result) for warning in warnings(placed({})))


def test_capacity_is_an_upper_bound_with_network_topology() -> None:
    plan = plan_of(placed({"groupPolicy": HARD}))
    assert [item.exact for item in compute_capacity_for_gpus(plan, [0])] == [False]
    assert [item.exact for item in compute_capacity_for_gpus(plan_of(placed(None)), [0])] == [True]
