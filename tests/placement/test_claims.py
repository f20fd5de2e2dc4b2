"""Devices that pods claim take accelerators of the same ledger."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusioninfer_pulumi.loading import load_inventory
from fusioninfer_pulumi.placement import place
from fusioninfer_pulumi.placement.placing import place_services
from fusioninfer_pulumi.placement.result import Status
from tests.placement.test_packing import tried
from tests.placing import LABEL, args, inventory, only, pair, pool, refusal, role, where, worker

GPU = "gpu.nvidia.com"
NIC = "nic.example.com"


def claim(count: int = 8, name: str = GPU, **more: Any) -> dict[str, Any]:
    return {"name": f"c{name[:3]}", "deviceClassName": name, "count": count, **more}


def claiming(name: str, replicas: int = 1, nodes: int = 1, *claims: Any, **more: Any) -> Any:
    return worker(name, replicas, nodes, None, resourceClaims=list(claims), **more)


def dra(name: str, nodes: int, accelerators: int = 8, **more: Any) -> dict[str, Any]:
    return pool(name, nodes, accelerators, resource=None, deviceClasses=[GPU], **more)


def notes(manifest: Any, *pools: Any) -> list[str]:
    found = place([manifest], inventory(*pools))
    return [str(each) for listed in found.findings.values() for each in listed]


def test_claimed_devices_are_accelerators_of_the_pool() -> None:
    found = place([claiming("w", 2, 2, claim(4))], inventory(dra("a", 3)))
    (placed,) = only(found).roles
    assert (placed.accelerators, placed.device_classes) == (16, (GPU,))
    (left,) = found.pools
    assert (left.placed, left.left, left.whole_nodes) == (16, 8, 1)
    assert not found.findings


def test_claims_and_resources_share_one_ledger() -> None:
    both = pool("a", 2, deviceClasses=[GPU])
    stock = inventory(both)
    listed = [worker("r"), claiming("c", 1, 1, claim())]
    assert where(place(listed, stock)) == {"r": {"serve": "a"}, "c": {"serve": "a"}}
    assert "no place; nearest is serve on a, which lacks 1 more node of a" in refusal(
        [*listed, claiming("d", 1, 1, claim(1))], stock
    )


def test_a_pool_takes_only_what_it_offers() -> None:
    stock = inventory(dra("claims", 2), pool("resources", 2))
    listed = [worker("r"), claiming("c", 1, 1, claim())]
    found = place(listed, stock)
    assert where(found) == {"r": {"serve": "resources"}, "c": {"serve": "claims"}}
    asking, claims = found.placed
    assert asking is not None
    assert claims is not None
    assert asking.impossible["serve"] == {
        "claims": ("offers gpu.nvidia.com, pods ask for nvidia.com/gpu",)
    }
    assert claims.impossible["serve"] == {
        "resources": ("offers nvidia.com/gpu, pods claim gpu.nvidia.com",)
    }
    assert "nodes have 4 accelerators, a pod needs 8" in refusal(
        [claiming("c", 1, 1, claim())], inventory(dra("small", 9, 4))
    )


@pytest.mark.parametrize(
    ("given", "counted", "wanted"),
    [
        (claim(3, selectors=["true"]), 3, "selectors are not evaluated"),
        (claim(adminAccess=True), 0, None),
        (claim(2, NIC), 0, "cnic: no pool names DeviceClass nic.example.com"),
        ({"name": "x", "templateName": "t"}, 0, "x: what it asks for stands in an object of the"),
        ({"name": "x", "claimName": "t"}, 0, "x: what it asks for stands in an object of the"),
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
            "x: asks for All devices, not for a number",
        ),
        (
            {"name": "x", "spec": {"devices": {"requests": [
                {"name": "a", "firstAvailable": [{"name": "y", "deviceClassName": GPU}]}]}}},
            0,
            "x: has alternatives",
        ),
    ],
)  # fmt: skip
def test_what_is_not_counted_is_said(given: Any, counted: int, wanted: str | None) -> None:
    manifest = claiming("w", 1, 1, given)
    found = place([manifest], inventory(dra("a", 1)))
    assert found.pools[0].placed == counted
    told = notes(manifest, dra("a", 1))
    if wanted is not None:
        assert any(wanted in text and "roles[0].resourceClaims" in text for text in told)
    elif counted:
        assert not told


def test_claims_of_a_template_are_said() -> None:
    spec = {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": "t"}]}
    told = notes(claiming("w", 1, 1, claim(), pod=spec), dra("a", 1))
    assert [text for text in told if "own: is a claim of the pod template's own" in text]
    assert len(told) == 1


def test_a_pool_offers_something() -> None:
    with pytest.raises(Exception, match=r"pools\[0\].resource: must name a resource"):
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
@settings(max_examples=60, deadline=None)
def test_it_places_as_many_as_trying_everything(pairs: Any, given_pools: Any) -> None:
    """Counts devices by hand, and puts each pod on each node: no ledger, no capacity model."""
    offers = {
        "both": {"deviceClasses": [GPU]},
        "claims": {"resource": None, "deviceClasses": [GPU]},
        "no": {},
    }
    stock = inventory(
        # A class that no pool has would not be counted.
        pool("none", 0, 8, deviceClasses=[GPU]),
        *(pool(f"p{at}", count, size, **offers[kind]) for at, (count, size, kind) in
          enumerate(given_pools)),
    )  # fmt: skip

    def one(name: str, kind: str, demand: Any) -> Any:
        replicas, nodes, size, claims = demand
        more = {"resourceClaims": [claim(size)]} if claims else {}
        return role(name, kind, replicas, nodes, None if claims else size, **more)

    services = [
        args(pair(f"s{at}", one("prefill", "prefiller", left), one("decode", "decoder", right)))
        for at, (left, right) in enumerate(pairs)
    ]
    found = place_services(services, stock)
    placed = sum(each is not None and each.status is Status.PLACED for each in found.placed)

    def holds(chosen: Any) -> bool:
        for at, (count, size, kind) in enumerate(given_pools):
            pods: list[int] = []
            for demand, where_to in chosen:
                replicas, nodes, amount, claims = demand
                if where_to == at:
                    if (claims and kind == "no") or (not claims and kind == "claims"):
                        return False
                    pods += [amount] * (replicas * nodes)
            if not tried(tuple(pods), (size,) * count):
                return False
        return True

    best = 0
    indexes = range(len(given_pools))
    for kept in itertools.product((False, True), repeat=len(pairs)):
        roles = [
            demand for pair_, keep in zip(pairs, kept, strict=True) if keep for demand in pair_
        ]
        ways = itertools.product(indexes, repeat=len(roles))
        if sum(kept) > best and any(holds(list(zip(roles, way, strict=True))) for way in ways):
            best = sum(kept)
    assert placed == best
