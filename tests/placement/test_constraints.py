"""What keeps a role off a pool: selectors, affinity, taints, devices, co-location."""

from __future__ import annotations

from typing import Any

import pytest

from fusioninfer_pulumi.api import TaintArgs, TaintEffect
from fusioninfer_pulumi.placement import place
from fusioninfer_pulumi.placement.selectors import mismatches, untolerated
from tests.placing import LABEL, inventory, only, pair, pool, refusal, role, where, worker

ZONE = "topology.kubernetes.io/zone"
LABELS = {"zone": "a", "size": "12", "kubernetes.io/os": "linux"}


def affinity(*expressions: Any) -> dict[str, Any]:
    """Node affinity of one term for each list of expressions."""
    terms = [each if isinstance(each, dict) else {"matchExpressions": each} for each in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
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
def test_selectors_are_judged_as_by_the_scheduler(spec: Any, fits: bool) -> None:
    assert (not list(mismatches(spec, LABELS))) == fits


@pytest.mark.parametrize(
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
def test_tolerations_are_judged_as_by_the_scheduler(toleration: Any, kept_away: bool) -> None:
    spec = {"tolerations": [toleration] if toleration else None}
    taint = TaintArgs(key="team", value="blue", effect=TaintEffect.NO_SCHEDULE)
    assert bool(list(untolerated(spec, [taint]))) == kept_away
    mild = TaintArgs(key="team", value="blue", effect=TaintEffect.PREFER_NO_SCHEDULE)
    assert not list(untolerated(spec, [mild]))


TEAM = {"key": "team", "value": "blue", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("needs", "first", "reason"),
    [
        pytest.param({"pod": {"nodeSelector": {"zone": "b"}}}, {"labels": {"zone": "a"}},
                     "nodeSelector wants zone=b, has zone=a", id="selector"),
        pytest.param({"pod": {"nodeSelector": {"zone": "b"}}}, {},
                     "nodeSelector wants zone=b, has no such label", id="unknown label"),
        pytest.param({"pod": affinity([wants("zone", "In", "b")])}, {"labels": {"zone": "a"}},
                     "node affinity wants zone In b", id="affinity"),
        pytest.param({"pod": {"nodeSelector": {LABEL: "b"}}}, {},
                     f"nodeSelector wants {LABEL}=b, has {LABEL}=a", id="pinned"),
        pytest.param({}, {"taints": [TEAM]}, "taint team=blue:NoSchedule is not tolerated "
                     "(tolerate it, or name the pool in placement.pools)", id="taint"),
        pytest.param({"placement": {"pools": ["b"]}}, {}, "not among placement.pools",
                     id="named pools"),
        pytest.param({"placement": {"device": {"attributes": {"model": "H100"}}}},
                     {"device": {"attributes": {"model": "L4"}}}, "model L4, wanted H100",
                     id="attribute"),
        pytest.param({"placement": {"device": {"attributes": {"model": "H100"}}}}, {},
                     "model is not stated, wanted H100", id="no attribute"),
        pytest.param({"placement": {"device": {"minMemory": "80Gi"}}},
                     {"device": {"memory": "40Gi"}}, "memory 40Gi, wanted at least 80Gi",
                     id="memory"),
        pytest.param({"placement": {"device": {"minMemory": "80Gi"}}}, {},
                     "memory is not stated, wanted at least 80Gi", id="no memory"),
        pytest.param({}, {"resource": "amd.com/gpu"},
                     "offers amd.com/gpu, pods ask for nvidia.com/gpu", id="another accelerator"),
        pytest.param({}, {"accelerators": 4}, "nodes have 4 accelerators, a pod needs 8",
                     id="nodes too small"),
    ],
)  # fmt: skip
def test_a_pool_that_is_not_allowed_says_why(needs: Any, first: Any, reason: str) -> None:
    good: Any = {
        "device": {"memory": "81Gi", "attributes": {"model": "H100"}},
        "labels": {"zone": "b"},
    }
    stock = inventory({**pool("a", 4), **first}, pool("b", 4, **good))
    found = place([worker("w", **needs)], stock)
    assert where(found) == {"w": {"serve": "b"}}
    assert only(found).impossible == {"serve": {"a": (reason,)}}
    alone = inventory({**pool("a", 4), **first})
    if "pools" not in needs.get("placement", {}):
        assert refusal([worker("w", **needs)], alone) == (
            f"w: roles[0]: no pool can take serve: a: {reason}"
        )


def test_an_own_toleration_or_a_named_pool_opens_a_tainted_one() -> None:
    stock = inventory(pool("a", 4, taints=[TEAM, GPU]))
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
    torn = {"spec": {**template["spec"], "nodeSelector": {LABEL: "a"}}}
    split["leaderTemplate"] = torn
    assert refusal([service], inventory(pool("a", 4), pool("b", 4))) == (
        "w: roles[0]: no pool can take serve: "
        f"a: nodeSelector wants {LABEL}=b, has {LABEL}=a; "
        f"b: nodeSelector wants {LABEL}=a, has {LABEL}=b"
    )


def test_roles_are_kept_together_by_an_attribute_or_a_label() -> None:
    # Prefill alone would go to the first pool, but only the others share their zone with decode.
    stock = inventory(
        pool("a", 1, labels={ZONE: "x"}),
        pool("b", 1, 4, labels={ZONE: "y"}),
        pool("c", 1, device={"attributes": {ZONE: "y"}}),
    )
    service = pair("s", (1, 1, 4), (1, 1, 8), placement={"colocate": ZONE})
    assert where(place([service], stock)) == {"s": {"prefill": "b", "decode": "c"}}
    elsewhere = pair("s", (1, 1, 8), (1, 1, 4), placement={"colocate": "fabric"})
    assert refusal([elsewhere], stock) == (
        "s: placement.colocate: no pools that its roles may be on have the same fabric: "
        "a does not state it, b does not state it, c does not state it"
    )


def test_accelerators_that_others_hold_are_not_free() -> None:
    stock = inventory(pool("a", 2, inUse=[1]), pool("b", 2, inUse=[8, 8]), pool("c", 2))
    assert where(place([worker("w", 2)], stock)) == {"w": {"serve": "c"}}
    assert where(place([worker("w", 1, gpus=7)], stock)) == {"w": {"serve": "a"}}
