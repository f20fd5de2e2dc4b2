"""Inventories and placements read from live objects."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from capacity.tests.placing import LABEL, inventory, only, pair, pool, role, where, worker
from fusioninfer_capacity import place, read_inventory
from fusioninfer_capacity.placement import cluster
from fusioninfer_capacity.placement.cluster import build_inventory, build_placement
from fusioninfer_capacity.placement.result import PreviousPool
from fusioninfer_pulumi.api import DeviceArgs, TaintArgs, TaintEffect
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.plan.service_objects import render

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, pool: str | None, gpus: int = 8, **fields: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "zone": "a", **fields.pop("labels", {})}
    labels |= {LABEL: pool} if pool else {}
    resource = fields.pop("resource", "nvidia.com/gpu")
    ready = {"type": "Ready", "status": fields.pop("ready", "True")}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": fields,
        "status": {"allocatable": {"cpu": "8", resource: str(gpus)}, "conditions": [ready]},
    }


def pod(node: str | None, gpus: int, owner: str | None = None, phase: str = "Running") -> Any:
    limits = {"nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {
            "namespace": "team",
            "labels": {"fusioninfer.io/service": owner} if owner else None,
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def test_nodes_of_a_label_become_a_pool() -> None:
    result = build_inventory(
        [
            node("n1", "a", labels={"nvidia.com/gpu.product": "H100", "x": "1"}, taints=[GPU]),
            node("n2", "a", 7, labels={"nvidia.com/gpu.product": "H100", "x": "2"}),
            node("n3", "b", labels={"nvidia.com/gpu.memory": "81559"}),
        ],
        [],
    )
    assert result.pool_label == LABEL
    first, second = result.pools
    assert (first.name, first.nodes, first.accelerators, first.in_use) == ("a", 2, 8, [1])
    assert first.labels == {"zone": "a", LABEL: "a", "nvidia.com/gpu.product": "H100"}
    assert first.device == DeviceArgs(attributes={"model": "H100"})
    taint = TaintArgs(key="nvidia.com/gpu", value="present", effect=TaintEffect.NO_SCHEDULE)
    assert first.taints == [taint]
    assert second.device.memory == "81559Mi"
    assert where(place([worker("w", 1, 2, 7)], result)) == {"w": {"serve": "a"}}


@each_row(
    "away",
    [
        node("n2", "a", ready="False"),
        node("n2", "a", unschedulable=True),
        node("n2", "a", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
        node("n2", "a", 0),
        node("n2", None),
        {"metadata": {"name": "n2", "labels": {LABEL: "a"}}, "spec": {}},
    ],
)
def test_unschedulable_nodes_are_ignored(away: Any) -> None:
    (only_pool,) = build_inventory([node("n1", "a"), away], []).pools
    assert only_pool.nodes == 1


def test_pods_of_other_services_use_their_requests() -> None:
    pods = [
        pod("n1", 3), pod("n1", 1), pod("n2", 8, "own"), pod("n3", 8, "other"),
        pod("n3", 8, phase="Succeeded"), pod(None, 8), pod("elsewhere", 8),
    ]  # fmt: skip
    nodes = [node(f"n{index}", "a") for index in (1, 2, 3)]
    assert build_inventory(nodes, pods, services=["own"]).pools[0].in_use == [8, 4]
    assert build_inventory(nodes, pods, services=["team/own"]).pools[0].in_use == [8, 4]
    assert build_inventory(nodes, pods, services=["x/own"]).pools[0].in_use == [8, 8, 4]


def test_other_labels_and_accelerators_are_read() -> None:
    odd = [node("n1", None, labels={"pool": "x"}, resource="amd.com/gpu")]
    (found,) = build_inventory(odd, [], pool_label="pool").pools
    assert (found.name, found.resource) == ("x", "amd.com/gpu")
    with pytest.raises(InvalidServiceError, match=r"has the label cloud\.google\.com"):
        build_inventory(odd, [])
    with pytest.raises(InvalidServiceError, match="has the label nothing"):
        build_inventory(odd, [], pool_label="nothing")


def lws_of(*placed: Any) -> list[Any]:
    return [
        item
        for args in placed
        for item in render(plan_service(args))
        if item["kind"] == "LeaderWorkerSet"
    ]


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_live_leader_worker_sets_show_where_services_run(layout: str) -> None:
    stock = inventory(pool("a", 9), pool("b", 9, labels={LABEL: "gke-b"}))
    prefill = role("prefill", "prefiller", 2, 2, placement={"pools": ["a"]})
    decode = role("decode", "decoder", 2, 1, 4, placement={"pools": ["b"]})
    service = pair("s", prefill, decode, layout=layout)
    first = place([service], stock)
    assert len({role.pool for role in only(first).roles}) == 2
    before = build_placement(lws_of(*first.services), stock)
    assert before == {
        "default/s": {"prefill": PreviousPool("a", 32), "decode": PreviousPool("b", 8)}
    }
    again = place([worker("new", 5), service], stock, previous=before)
    assert where(again)["s"] == where(first)["s"]


def test_leader_worker_sets_outside_the_inventory_are_ignored() -> None:
    stock = inventory(pool("a", 9))
    lws = lws_of(*place([worker("w")], stock).services)
    assert build_placement(lws, inventory(pool("b", 9))) == {}
    del lws[0]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"]
    assert build_placement(lws, stock) == {}


SLICE = {
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "n2",
        "pool": {"name": "n2", "generation": 1},
        "devices": [{"name": "gpu-0"}],
    }
}
CLASS = {
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


class Api(KubernetesApi):
    """A cluster of two nodes, one with a device.

    Reads of `forbidden` kinds fail; ResourceSlices exist only if `serves_slices`.
    """

    forbidden: frozenset[str] = frozenset()
    serves_slices = True

    def __init__(self, *_: Any) -> None:
        self.unread: dict[str, None] = {}

    def list_objects(self, _api: str, kind: str, *_: Any, **__: Any) -> Any:
        if kind in self.forbidden:
            self.unread[f"{kind}: 403 Forbidden"] = None
            return None
        kinds = {
            "Node": [node("n1", "a"), node("n2", "b", 0)],
            "ResourceSlice": [SLICE] if self.serves_slices else None,
            "DeviceClass": [CLASS],
        }
        return kinds.get(kind, [])


@pytest.mark.parametrize(
    ("forbidden", "serves_slices", "pools"),
    [
        ({"Pod"}, True, None),
        ({"ResourceSlice"}, True, ["a"]),
        ({"ResourceClaim"}, True, None),
        ((), True, ["a", "b"]),
        ((), False, ["a"]),
    ],
)
def test_forbidden_reads_are_reported_or_skipped(
    monkeypatch: pytest.MonkeyPatch, forbidden: Any, serves_slices: bool, pools: list[str] | None
) -> None:
    fields = {"forbidden": frozenset(forbidden), "serves_slices": serves_slices}
    monkeypatch.setattr(cluster, "KubernetesApi", type("Api", (Api,), fields))
    if pools is None:
        with pytest.raises(UnreadableError, match=f"{next(iter(forbidden))}: 403 Forbidden"):
            read_inventory()
    else:
        assert [item.name for item in read_inventory().pools] == pools
