"""`place` chooses pools for all services together, explains them, and keeps running roles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rows import each_row

from capacity.tests.placing import (
    LABEL,
    args,
    inventory,
    only,
    pair,
    pod_specs,
    pool,
    rejection,
    role,
    where,
    worker,
)
from fusioninfer_capacity import place
from fusioninfer_capacity.placement.placing import place_services
from fusioninfer_capacity.placement.result import Missing, Origin, PoolLeft, Status
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError, Severity

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SPARE = {"key": "spare", "effect": "NoExecute"}


def test_prefill_and_decode_are_placed_jointly() -> None:
    # Prefill needs the nodes of 8 GPUs. Decode fits both pools.
    stock = inventory(pool("a", 2), pool("b", 3, 4))
    service = pair("s", (2, 1, 8), (3, 1, 4))
    assert where(place([service], stock)) == {"s": {"prefill": "a", "decode": "b"}}
    assert where(place([worker("d", 3, 1, 4)], stock))["d"] == {"serve": "b"}


def test_services_are_placed_jointly() -> None:
    # Alone, the first service takes the cheap pool, which is the only possible pool of the second.
    stock = inventory(pool("cheap", 2), pool("dear", 2, cost=1))
    free, pinned = worker("free", 2), worker("pinned", 2, placement={"pools": ["cheap"]})
    assert where(place([free], stock)) == {"free": {"serve": "cheap"}}
    assert where(place([free, pinned], stock)) == {
        "free": {"serve": "dear"},
        "pinned": {"serve": "cheap"},
    }


def test_selectors_and_tolerations_are_added_to_user_fields() -> None:
    fields = {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spare", "operator": "Exists"}],
        "hostIPC": True,
    }
    stock = inventory(pool("a", 4, taints=[GPU, SPARE], labels={"disk": "fast"}))
    (result,) = place([worker("w", nodes=2, pod=fields)], stock).services
    (spec,) = pod_specs(result)
    assert spec["nodeSelector"] == {"disk": "fast", LABEL: "a"}
    assert spec["tolerations"] == [
        {"key": "spare", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
    ]
    assert spec["hostIPC"] is True
    assert not plan_service(result).findings


def test_both_templates_of_serving_roles_select_the_pool() -> None:
    split = role("serve", "worker", nodes=2)
    template = split.pop("template")
    split |= {"leaderTemplate": template, "workerTemplate": template}
    router = {"name": "router", "componentType": "router", "httproute": {}}
    service = {**worker("w"), "spec": {"roles": [router, split]}}
    (result,) = place([service], inventory(pool("a", 4))).services
    assert [spec["nodeSelector"] for spec in pod_specs(result)] == [{LABEL: "a"}] * 2
    assert result.roles[0].name == "router"
    assert where(place([service], inventory(pool("a", 4)))) == {"w": {"serve": "a"}}


def test_selector_label_value_selects_the_pool() -> None:
    stock = inventory(pool("a", 4, labels={LABEL: "gke-a-123"}))
    (result,) = place([worker("w")], stock).services
    assert pod_specs(result)[0]["nodeSelector"] == {LABEL: "gke-a-123"}


def test_outputs_in_templates_are_kept(output: Callable[..., Any]) -> None:
    secret = output("v1", secret=True)
    service = worker("w")
    container = service["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "KEY", "value": secret}]
    service["metadata"]["namespace"] = output("team")
    result = place([service], inventory(pool("a", 4)))
    (manifest,) = result.services
    assert pod_specs(manifest)[0]["containers"][0]["env"][0]["value"] is secret
    assert where(result) == {"w": {"serve": "a"}}


def test_placed_manifest_has_no_placement_fields() -> None:
    wanted = worker("w", placement={"pools": ["a"]})
    findings = plan_service(args(wanted)).findings
    assert [(finding.severity, finding.path) for finding in findings] == [
        (Severity.WARNING, "roles[0].placement")
    ]
    assert "place" in findings[0].message
    (result,) = place([wanted], inventory(pool("a", 1))).services
    assert not plan_service(result).findings


def test_record_has_reasons_and_free_capacity() -> None:
    stock = inventory(pool("a", 2, cost=2), pool("b", 3, inUse=[3]), pool("c", 3, 4))
    result = place([pair("s", (1, 1, 8), (1, 1, 2))], stock)
    record = only(result)
    assert record.status is Status.PLACED
    assert [(item.name, item.pool, item.replicas, item.wanted, item.accelerators, item.origin)
            for item in record.roles] == [
        ("prefill", "b", 1, 1, 8, Origin.CHOSEN), ("decode", "b", 1, 1, 2, Origin.CHOSEN)
    ]  # fmt: skip
    assert [(term.name, term.value) for term in record.terms] == [
        ("riskyPools", 0),
        ("cost", "0"),
        ("pools", 1),
        ("strandedAccelerators", -2),
        ("wholeNodeAccelerators", 8),
        ("order", "2, 2"),
    ]
    reasons = {tuple(item.pools.values()): item.reason for item in record.rejected}
    assert reasons == {
        ("a", "a"): "price: 20 instead of 0",
        ("a", "b"): "price: 16 instead of 0",
        ("a", "c"): "price: 16 instead of 0",
        ("b", "a"): "price: 4 instead of 0",
        ("b", "c"): "pools used: 2 instead of 1",
    }
    assert record.impossible == {
        "prefill": {"c": ("a pod needs 8 accelerators, but nodes have 4",)},
        "decode": {},
    }
    assert result.pools[1] == PoolLeft(
        "b", nodes=3, accelerators=24, in_use=3, placed=10, left=11, whole_nodes=1, certain=True
    )


def test_rejected_pools_name_missing_accelerators() -> None:
    stock = inventory(pool("a", 2), pool("b", 1))
    result = place([worker("first", 2), worker("second", 1)], stock)
    reasons = [[item.reason for item in record.rejected] for record in result.placed if record]
    assert reasons == [
        ["too small: 1 more node of b (8 accelerators)"],
        ["no capacity left by the other services: 1 more node of a (8 accelerators)"],
    ]


def test_first_pool_wins_a_tie() -> None:
    result = place([worker("w")], inventory(pool("b", 2), pool("a", 2)))
    assert where(result) == {"w": {"serve": "b"}}
    assert only(result).rejected[0].reason == "as good, but later in the inventory"


def test_missing_capacity_names_closest_pools() -> None:
    stock = inventory(pool("a", 4), pool("b", 2))
    services = [worker("small", 4), pair("big", (1, 1), (1, 3))]
    assert rejection(services, stock) == (
        "big: placement: does not fit; the closest combination, prefill on a, decode on b, "
        "requires 1 more node of a (8 accelerators) and 1 more node of b (8 accelerators)"
    )
    result = place_services([args(service) for service in services], stock)
    record = result.placed[1]
    assert record is not None
    assert (record.status, record.roles) == (Status.UNPLACED, ())
    assert record.nearest is not None
    assert record.nearest.missing == (Missing("a", 1, 8), Missing("b", 1, 8))
    # The service and the pools are unchanged.
    assert result.services[1] == args(services[1])
    assert [item.left for item in result.pools] == [0, 16]


def test_maximum_number_of_services_is_placed() -> None:
    stock = inventory(pool("a", 4))
    result = place_services(
        [args(worker("big", 4)), args(worker("one", 2)), args(worker("two", 2))], stock
    )
    assert where(result) == {"big": {}, "one": {"serve": "a"}, "two": {"serve": "a"}}


def test_gang_minimum_is_placed_if_capacity_is_short() -> None:
    partial = {"gangPolicy": {"minRoleReplicas": {"prefill": 1, "decode": 1}}}
    service = pair("s", (1, 1), (2, 2), schedulingStrategy=partial)
    full = only(place([service], inventory(pool("a", 5))))
    assert (full.status, [item.replicas for item in full.roles]) == (Status.PLACED, [1, 2])
    result = place([service], inventory(pool("a", 4)))
    minimum = only(result)
    assert (minimum.status, [item.replicas for item in minimum.roles]) == (Status.MINIMUM, [1, 1])
    assert "prefill 1 of 1, decode 1 of 2" in result.findings[0][0].message
    assert "requires 1 more node of a" in rejection([service], inventory(pool("a", 2)))
    assert "requires 2 more nodes of a" in rejection(
        [pair("s", (1, 1), (2, 2))], inventory(pool("a", 3))
    )


def test_serving_groups_have_separate_minima() -> None:
    service = pair("s", (1, 1), (2, 1), groups=3)
    (record,) = place([service], inventory(pool("a", 9))).placed
    assert record is not None
    assert [(item.replicas, item.accelerators) for item in record.roles] == [(3, 24), (6, 48)]
    assert "requires 1 more node of a" in rejection([service], inventory(pool("a", 8)))
    service["spec"]["schedulingStrategy"] = {"gangPolicy": {"minRoleReplicas": {"decode": 1}}}
    minimum = only(place([service], inventory(pool("a", 6))))
    assert minimum.status is Status.MINIMUM
    assert [item.replicas for item in minimum.roles] == [3, 3]


def test_autoscaled_role_is_placed_with_its_maximum() -> None:
    scaled = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": "5"}]}
    service = worker("w", 2, autoscaling=scaled)
    service["spec"]["layout"] = "PerRole"
    full = only(place([service], inventory(pool("a", 4))))
    assert (full.status, full.roles[0].accelerators) == (Status.PLACED, 32)
    minimum = only(place([service], inventory(pool("a", 3))))
    assert minimum.status is Status.MINIMUM
    assert (minimum.roles[0].replicas, minimum.roles[0].wanted) == (2, 4)
    assert "requires 1 more node of a" in rejection([service], inventory(pool("a", 1)))


def test_pods_of_several_sizes_in_a_pool_are_avoided_or_reported() -> None:
    # Four pods of 1 GPU could spread over all nodes and leave none for the pod of 8 GPUs.
    small, large = worker("small", 4, 1, 1), worker("large", 1, 1, 8)
    apart = place([small, large], inventory(pool("a", 3), pool("b", 1)))
    assert set(where(apart)["small"].values()) != set(where(apart)["large"].values())
    assert all(item.certain for item in apart.pools)
    result = place([small, large], inventory(pool("a", 3)))
    assert result.findings[0][0].message.startswith("pods of several sizes share pool a")
    assert not result.pools[0].certain


def test_pods_without_accelerators_are_placed_and_not_counted() -> None:
    result = place([worker("w", 3, gpus=None)], inventory(pool("a", 0)))
    assert where(result) == {"w": {"serve": "a"}}
    assert [finding.severity for finding in result.findings[0]] == [Severity.INFO]


def test_roles_scaled_to_zero_need_no_capacity() -> None:
    result = place([pair("s", (1, 1), (0, 4))], inventory(pool("a", 1)))
    assert where(result) == {"s": {"prefill": "a", "decode": "a"}}
    assert result.pools[0].left == 0


def test_running_service_is_not_moved_but_the_move_is_suggested() -> None:
    stock = inventory(pool("a", 4), pool("b", 2))
    before = {"small": {"serve": "a"}}
    message = rejection([worker("small", 2), worker("large", 4)], stock, previous=before)
    assert message == (
        "large: placement: does not fit; the closest combination, serve on a, requires 2 more "
        "nodes of a (16 accelerators); it would fit if small/serve to b "
        "moved: remove these roles from the previous placement"
    )
    assert where(place([worker("small", 2), worker("large", 4)], stock)) == {
        "small": {"serve": "b"},
        "large": {"serve": "a"},
    }


def test_no_move_is_suggested_that_displaces_another_service() -> None:
    message = rejection(
        [worker("new", 4), worker("runs", 4)],
        inventory(pool("a", 4)),
        previous={"runs": {"serve": "a"}},
    )
    assert message.startswith("new: placement: does not fit")
    assert message.endswith("accelerators)")


@pytest.mark.parametrize("form", ["record", "json", "mapping", "namespaced"])
def test_a_previous_placement_has_several_forms(form: str, tmp_path: Path) -> None:
    stock = inventory(pool("a", 4), pool("b", 4))
    old = place([worker("w", 2, placement={"pools": ["b"]})], stock)
    manifest = [{"service": "w", "namespace": "default", "placement": {
        "roles": [{"name": "serve", "pool": "b", "accelerators": 16}]}}]  # fmt: skip
    (tmp_path / "placed.json").write_text(json.dumps(manifest))
    previous: Any = {
        "record": old,
        "json": tmp_path / "placed.json",
        "mapping": {"w": {"serve": "b"}},
        "namespaced": {"default/w": {"serve": "b"}, "other/w": {"serve": "a"}},
    }[form]
    result = place([worker("w", 2)], stock, previous=previous)
    assert [(item.pool, item.origin) for item in only(result).roles] == [("b", Origin.KEPT)]


INVALID_ROLE = {"name": "serve", "pool": "a", "accelerators": "many"}


@each_row("wrong", [
    {"w": "a"}, {"w": {"serve": 1}}, [{"service": "w"}], [1],
    [{"service": "w", "namespace": "default", "placement": {"roles": [INVALID_ROLE]}}],
])  # fmt: skip
def test_previous_placement_with_wrong_structure_is_rejected(wrong: Any) -> None:
    message = rejection([worker("w")], inventory(pool("a", 1)), previous=wrong)
    assert message.startswith("must be the JSON of `place` or `plan --inventory`, or a")


def test_previous_placement_that_is_not_json_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InvalidServiceError, match=r"x\.json: not JSON"):
        place([worker("w")], inventory(pool("a", 1)), previous=tmp_path / "x.json")


def test_moved_role_is_reported() -> None:
    result = place([worker("w", 2)], inventory(pool("a", 2)), previous={"w": {"serve": "gone"}})
    ((finding,),) = result.findings.values()
    assert (finding.severity, finding.message) == (
        Severity.WARNING,
        "serve moves from gone to a: all of its replicas restart",
    )


@each_row(
    ("services", "expected"),
    [
        ([worker("w"), worker("w")],
         "w: metadata.name: is also the name of service 1 of the list"),
        ([worker("w", placement={"pools": ["x"]})],
         'w: roles[0].placement.pools[0]: unknown pool "x"; the inventory has a'),
        ([worker("w", pod={"nodeSelector": ["a"]})],
         "roles[0].template.spec.nodeSelector: must be a mapping, got"),
        ([worker("w", pod={"affinity": {"nodeAffinity": 3}})],
         "roles[0].template.spec.affinity.nodeAffinity: must be a mapping"),
        ([worker("w", pod={"tolerations": "all"})],
         "roles[0].template.spec.tolerations: must be a list, got"),
        ([worker("w", nodes=0)], "roles[0].multinode"),
        ([worker("w", -1)], "roles[0].replicas: must be at least 0, got -1"),
        ([worker("w" * 64)], "metadata.name: "),
    ],
)  # fmt: skip
def test_unplaceable_services_are_rejected(services: Any, expected: str) -> None:
    if "multinode" in expected:
        services[0]["spec"]["roles"][0]["multinode"] = {"nodeCount": 0}
    assert rejection(services, inventory(pool("a", 9))).startswith(expected)


def test_a_service_needs_a_name() -> None:
    flat = {"roles": worker("w")["spec"]["roles"]}
    assert "name" in rejection([flat], inventory(pool("a", 1)))


def test_output_in_pool_selection_is_rejected(output: Callable[..., Any]) -> None:
    selector = {"nodeSelector": {"zone": output("a")}}
    message = rejection([worker("w", pod=selector)], inventory(pool("a", 1)))
    assert message.startswith(
        "w: roles[0].template.spec.nodeSelector.zone: is read to choose a pool"
    )


def test_too_many_combinations_are_rejected() -> None:
    roles = [role(f"r{index}", "worker") for index in range(5)]
    service = {**worker("w"), "spec": {"roles": roles}}
    stock = inventory(*(pool(f"p{index}", 9) for index in range(6)))
    assert rejection([service], stock) == (
        "w: placement: its roles have 7776 possible combinations of pools, more than the maximum "
        "of 5000; name pools in placement.pools"
    )


def test_all_problems_are_reported_by_service() -> None:
    services = [worker("a", 9), worker("b", placement={"pools": ["x"]}), worker("c", gpus=16)]
    with pytest.raises(InvalidServiceError) as errors:
        place(services, inventory(pool("p", 1)))
    assert errors.value.titles == ("a", "b", "c")
    assert [(finding.rule, finding.location) for finding in errors.value.findings] == [
        ("service-not-placed", ("placement",)),
        ("pool-unknown", ("roles", 0, "placement", "pools", 0)),
        ("service-not-placed", ("roles", 0)),
    ]
    assert [line.partition(":")[0] for line in str(errors.value).splitlines()] == ["a", "b", "c"]
