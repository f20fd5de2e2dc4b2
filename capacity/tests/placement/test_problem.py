"""Which pools a role can use, and which claimed devices are counted."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rows import each_row

from capacity.tests.placement.test_packing import can_pack_exhaustively
from capacity.tests.placing import (
    LABEL,
    args,
    inventory,
    only,
    pair,
    pool,
    rejection,
    role,
    where,
    worker,
)
from fusioninfer_capacity import place
from fusioninfer_capacity.placement._selectors import find_mismatches, find_untolerated
from fusioninfer_capacity.placement.placing import place_services
from fusioninfer_capacity.placement.result import Status
from fusioninfer_pulumi.api import TaintArgs, TaintEffect
from fusioninfer_pulumi.loading import load_inventory

ZONE = "topology.kubernetes.io/zone"
LABELS = {"zone": "a", "size": "12", "kubernetes.io/os": "linux"}


def affinity(*expressions: Any) -> dict[str, Any]:
    """Return a node affinity with one term for each list of expressions."""
    terms = [
        expression if isinstance(expression, dict) else {"matchExpressions": expression}
        for expression in expressions
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@each_row(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": None}, True),
        ({"nodeSelector": {"zone": "a", "kubernetes.io/os": "linux"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"nodeSelector": {"unknown": "a"}}, False),
        ({"nodeName": "n1"}, False),
        (affinity([wants("zone", "In", "b", "a")]), True),
        (affinity([wants("zone", "In", "b")]), False),
        (affinity([wants("zone", "In", "b")], [wants("size", "Gt", "11")]), True),
        (affinity([wants("zone", "In", "a"), wants("size", "Lt", "12")]), False),
        (affinity([wants("zone", "NotIn", "b"), wants("other", "NotIn", "b")]), True),
        (affinity([wants("zone", "NotIn", "a")]), False),
        (affinity([wants("zone", "Exists"), wants("other", "DoesNotExist")]), True),
        (affinity([wants("other", "Exists")]), False),
        (affinity([wants("zone", "DoesNotExist")]), False),
        (affinity([wants("zone", "Gt", "1")]), False),  # no number
        (affinity([wants("other", "Gt", "1")]), False),
        (affinity([wants("size", "Like", "1")]), False),
        (affinity([]), False),  # an empty term selects nothing
        (affinity(), False),
        (affinity({"matchFields": [wants("metadata.name", "In", "n1")]}), False),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [wants("zone", "In", "b")]}}
        ]}}}, True),
        ({"affinity": {"podAntiAffinity": {}}}, True),
    ],
)  # fmt: skip
def test_selectors_match_like_the_scheduler(spec: Any, fits: bool) -> None:
    assert (not list(find_mismatches(spec, LABELS))) == fits


@each_row(
    ("toleration", "kept_away"),
    [
        (None, True),
        ({"operator": "Exists"}, False),
        ({"key": "team", "operator": "Exists"}, False),
        ({"key": "team", "value": "blue"}, False),
        ({"key": "team", "operator": "Equal", "value": "blue", "effect": "NoSchedule"}, False),
        ({"key": "team", "value": "red"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "other", "operator": "Exists"}, True),
        ({"key": "", "operator": "Equal", "value": "blue"}, True),
    ],
)
def test_tolerations_match_like_the_scheduler(toleration: Any, kept_away: bool) -> None:
    spec = {"tolerations": [toleration] if toleration else None}
    taint = TaintArgs(key="team", value="blue", effect=TaintEffect.NO_SCHEDULE)
    assert bool(list(find_untolerated(spec, [taint]))) == kept_away
    mild = TaintArgs(key="team", value="blue", effect=TaintEffect.PREFER_NO_SCHEDULE)
    assert not list(find_untolerated(spec, [mild]))


TEAM = {"key": "team", "value": "blue", "effect": "NoSchedule"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("needs", "first", "reason"),
    [
        pytest.param({"pod": {"nodeSelector": {"zone": "b"}}}, {"labels": {"zone": "a"}},
                     "nodeSelector requires zone=b, has zone=a", id="selector"),
        pytest.param({"pod": {"nodeSelector": {"zone": "b"}}}, {},
                     "nodeSelector requires zone=b, has no such label", id="unknown label"),
        pytest.param({"pod": affinity([wants("zone", "In", "b")])}, {"labels": {"zone": "a"}},
                     "node affinity requires zone In b", id="affinity"),
        pytest.param({"pod": {"nodeSelector": {LABEL: "b"}}}, {},
                     f"nodeSelector requires {LABEL}=b, has {LABEL}=a", id="pinned"),
        pytest.param({}, {"taints": [TEAM]}, "taint team=blue:NoSchedule is not tolerated "
                     "(tolerate it, or name the pool in placement.pools)", id="taint"),
        pytest.param({}, {"taints": [{**GPU_TAINT, "effect": "NoExecute"}]},
                     "taint nvidia.com/gpu=present:NoExecute is not tolerated "
                     "(tolerate it, or name the pool in placement.pools)", id="evicting taint"),
        pytest.param({"placement": {"pools": ["b"]}}, {}, "not among placement.pools",
                     id="named pools"),
        pytest.param({"placement": {"device": {"attributes": {"model": "H100"}}}},
                     {"device": {"attributes": {"model": "L4"}}}, "model L4, required H100",
                     id="attribute"),
        pytest.param({"placement": {"device": {"attributes": {"model": "H100"}}}}, {},
                     "model is unknown, required H100", id="no attribute"),
        pytest.param({"placement": {"device": {"minMemory": "80Gi"}}},
                     {"device": {"memory": "40Gi"}}, "memory 40Gi, required at least 80Gi",
                     id="memory"),
        pytest.param({"placement": {"device": {"minMemory": "80Gi"}}}, {},
                     "memory is unknown, required at least 80Gi", id="no memory"),
        pytest.param({}, {"resource": "amd.com/gpu"},
                     "has amd.com/gpu, but pods request nvidia.com/gpu", id="another accelerator"),
        pytest.param({}, {"accelerators": 4}, "a pod needs 8 accelerators, but nodes have 4",
                     id="nodes too small"),
    ],
)  # fmt: skip
def test_excluded_pool_has_a_reason(needs: Any, first: Any, reason: str) -> None:
    good: Any = {
        "device": {"memory": "81Gi", "attributes": {"model": "H100"}},
        "labels": {"zone": "b"},
    }
    stock = inventory({**pool("a", 4), **first}, pool("b", 4, **good))
    result = place([worker("w", **needs)], stock)
    assert where(result) == {"w": {"serve": "b"}}
    assert only(result).impossible == {"serve": {"a": (reason,)}}
    alone = inventory({**pool("a", 4), **first})
    if "pools" not in needs.get("placement", {}):
        assert rejection([worker("w", **needs)], alone) == (
            f"w: roles[0]: no pool is possible for serve: a: {reason}"
        )


def test_tainted_pool_needs_toleration_or_name() -> None:
    stock = inventory(pool("a", 4, taints=[TEAM, GPU_TAINT]))
    tolerant = worker("w", pod={"tolerations": [{"key": "team", "operator": "Exists"}]})
    named = worker("w", placement={"pools": ["a"]})
    assert where(place([tolerant], stock)) == where(place([named], stock)) == {"w": {"serve": "a"}}


def test_several_values_of_an_attribute_are_alternatives() -> None:
    kinds = {"attributes": {"model": ["H200", "H100"]}}
    stock = inventory(pool("a", 4, device={"attributes": {"model": "H100"}}))
    assert where(place([worker("w", placement={"device": kinds})], stock))


def test_both_templates_of_a_multi_node_role_count() -> None:
    split = role("serve", "worker", nodes=2)
    template = split.pop("template")
    pinned = {"spec": {**template["spec"], "nodeSelector": {LABEL: "b"}}}
    split |= {"leaderTemplate": template, "workerTemplate": pinned}
    service = {**worker("w"), "spec": {"roles": [split]}}
    assert where(place([service], inventory(pool("a", 4), pool("b", 4)))) == {"w": {"serve": "b"}}
    split["leaderTemplate"] = {"spec": {**template["spec"], "nodeSelector": {LABEL: "a"}}}
    assert rejection([service], inventory(pool("a", 4), pool("b", 4))) == (
        "w: roles[0]: no pool is possible for serve: "
        f"a: nodeSelector requires {LABEL}=b, has {LABEL}=a; "
        f"b: nodeSelector requires {LABEL}=a, has {LABEL}=b"
    )


def test_colocate_uses_an_attribute_or_a_label() -> None:
    # Alone, prefill would go to the first pool, but only the other pools share a zone.
    stock = inventory(
        pool("a", 1, labels={ZONE: "x"}),
        pool("b", 1, 4, labels={ZONE: "y"}),
        pool("c", 1, device={"attributes": {ZONE: "y"}}),
    )
    service = pair("s", (1, 1, 4), (1, 1, 8), placement={"colocate": ZONE})
    assert where(place([service], stock)) == {"s": {"prefill": "b", "decode": "c"}}
    elsewhere = pair("s", (1, 1, 8), (1, 1, 4), placement={"colocate": "fabric"})
    assert rejection([elsewhere], stock) == (
        "s: placement.colocate: its roles have no possible pools with the same fabric: "
        "a has none, b has none, c has none"
    )


def test_accelerators_in_use_are_not_free() -> None:
    stock = inventory(pool("a", 2, inUse=[1]), pool("b", 2, inUse=[8, 8]), pool("c", 2))
    assert where(place([worker("w", 2)], stock)) == {"w": {"serve": "c"}}
    assert where(place([worker("w", 1, gpus=7)], stock)) == {"w": {"serve": "a"}}


GPU = "gpu.nvidia.com"
NIC = "nic.example.com"


def claim(count: int = 8, name: str = GPU, **fields: Any) -> dict[str, Any]:
    return {"name": f"c{name[:3]}", "deviceClassName": name, "count": count, **fields}


def claiming(name: str, replicas: int = 1, nodes: int = 1, *claims: Any, **fields: Any) -> Any:
    return worker(name, replicas, nodes, None, resourceClaims=list(claims), **fields)


def dra(name: str, nodes: int, accelerators: int = 8, **fields: Any) -> dict[str, Any]:
    return pool(name, nodes, accelerators, resource=None, deviceClasses=[GPU], **fields)


def list_findings(manifest: Any, *pools: Any) -> list[str]:
    result = place([manifest], inventory(*pools))
    return [str(item) for listed in result.findings.values() for item in listed]


def test_claimed_devices_are_accelerators_of_the_pool() -> None:
    result = place([claiming("w", 2, 2, claim(4))], inventory(dra("a", 3)))
    (placed,) = only(result).roles
    assert (placed.accelerators, placed.device_classes) == (16, (GPU,))
    (remaining,) = result.pools
    assert (remaining.placed, remaining.left, remaining.whole_nodes) == (16, 8, 1)
    assert not result.findings


def test_claimed_devices_and_requested_accelerators_are_added_up() -> None:
    stock = inventory(pool("a", 2, deviceClasses=[GPU]))
    services = [worker("r"), claiming("c", 1, 1, claim())]
    assert where(place(services, stock)) == {"r": {"serve": "a"}, "c": {"serve": "a"}}
    assert "the closest combination, serve on a, requires 1 more node of a" in rejection(
        [*services, claiming("d", 1, 1, claim(1))], stock
    )


def test_pool_accepts_only_its_resources() -> None:
    stock = inventory(dra("claims", 2), pool("resources", 2))
    result = place([worker("r"), claiming("c", 1, 1, claim())], stock)
    assert where(result) == {"r": {"serve": "resources"}, "c": {"serve": "claims"}}
    resources, claims = result.placed
    assert resources is not None
    assert claims is not None
    assert resources.impossible["serve"] == {
        "claims": ("has gpu.nvidia.com, but pods request nvidia.com/gpu",)
    }
    assert claims.impossible["serve"] == {
        "resources": ("has nvidia.com/gpu, but pods claim gpu.nvidia.com",)
    }
    assert "a pod needs 8 accelerators, but nodes have 4" in rejection(
        [claiming("c", 1, 1, claim())], inventory(dra("small", 9, 4))
    )


@each_row(
    ("fields", "counted", "wanted"),
    [
        (claim(3, selectors=["true"]), 3, "selectors are not evaluated"),
        (claim(adminAccess=True), 0, None),
        (claim(2, NIC), 0, "cnic: no pool names DeviceClass nic.example.com"),
        ({"name": "x", "templateName": "t"}, 0, "x: its devices are defined by an object in the"),
        ({"name": "x", "claimName": "t"}, 0, "x: its devices are defined by an object in the"),
        (
            {"name": "x", "spec": {"devices": {"requests": [
                {"name": "a", "exactly": {"deviceClassName": GPU, "count": 2}},
                {"name": "b", "exactly": {"deviceClassName": GPU}}]}}},
            3,
            None,
        ),
        (
            {"name": "x", "spec": {"devices": {"requests": [
                {"name": "a", "exactly": {"deviceClassName": GPU, "allocationMode": "All"}}]}}},
            0,
            "x: the number of devices is unknown (allocationMode All)",
        ),
        (
            {"name": "x", "spec": {"devices": {"requests": [
                {"name": "a", "firstAvailable": [{"name": "y", "deviceClassName": GPU}]}]}}},
            0,
            "x: has alternatives",
        ),
    ],
)  # fmt: skip
def test_uncounted_devices_are_reported(fields: Any, counted: int, wanted: str | None) -> None:
    manifest = claiming("w", 1, 1, fields)
    result = place([manifest], inventory(dra("a", 1)))
    assert result.pools[0].placed == counted
    findings = list_findings(manifest, dra("a", 1))
    if wanted is not None:
        assert any(wanted in text and "roles[0].resourceClaims" in text for text in findings)
    elif counted:
        assert not findings


def test_claims_of_a_template_are_reported() -> None:
    spec = {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": "t"}]}
    (finding,) = list_findings(claiming("w", 1, 1, claim(), pod=spec), dra("a", 1))
    assert "own: is a claim in the user's pod template" in finding


def test_pool_without_resource_or_device_classes_is_rejected() -> None:
    with pytest.raises(
        Exception, match=r"pools\[0\].resource: is required if deviceClasses is empty"
    ):
        load_inventory({"poolLabel": LABEL, "pools": [pool("a", 1, resource=None)]})


#: A role as replicas, pods of each, accelerators of each, and whether they are claimed.
demands = st.tuples(
    st.integers(1, 2), st.integers(1, 2), st.sampled_from((1, 2, 4, 8)), st.booleans()
)
stocks = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from((4, 8)), st.sampled_from(("both", "claims", "no"))
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(st.tuples(demands, demands), min_size=1, max_size=2), stocks)
def test_search_places_as_many_as_exhaustive_search(pairs: Any, given_pools: Any) -> None:
    """The expected number comes from trying all pools and nodes, without the capacity model."""
    offers = {
        "both": {"deviceClasses": [GPU]},
        "claims": {"resource": None, "deviceClasses": [GPU]},
        "no": {},
    }
    stock = inventory(
        # Devices are counted only if a pool names their class.
        pool("none", 0, 8, deviceClasses=[GPU]),
        *(pool(f"p{at}", count, size, **offers[kind]) for at, (count, size, kind) in
          enumerate(given_pools)),
    )  # fmt: skip

    def build_role(name: str, kind: str, demand: Any) -> Any:
        replicas, nodes, size, claims = demand
        fields = {"resourceClaims": [claim(size)]} if claims else {}
        return role(name, kind, replicas, nodes, None if claims else size, **fields)

    services = [
        args(
            pair(
                f"s{at}",
                build_role("prefill", "prefiller", prefill),
                build_role("decode", "decoder", decode),
            )
        )
        for at, (prefill, decode) in enumerate(pairs)
    ]
    result = place_services(services, stock)
    placed = sum(item is not None and item.status is Status.PLACED for item in result.placed)

    def fits(assigned: Any) -> bool:
        for at, (count, size, kind) in enumerate(given_pools):
            pods: list[int] = []
            for demand, pool_index in assigned:
                replicas, nodes, amount, claims = demand
                if pool_index == at:
                    if (claims and kind == "no") or (not claims and kind == "claims"):
                        return False
                    pods += [amount] * (replicas * nodes)
            if not can_pack_exhaustively(tuple(pods), (size,) * count):
                return False
        return True

    best = 0
    indexes = range(len(given_pools))
    for kept in itertools.product((False, True), repeat=len(pairs)):
        roles = [
            demand for pair_, keep in zip(pairs, kept, strict=True) if keep for demand in pair_
        ]
        ways = itertools.product(indexes, repeat=len(roles))
        if sum(kept) > best and any(fits(list(zip(roles, way, strict=True))) for way in ways):
            best = sum(kept)
    assert placed == best
