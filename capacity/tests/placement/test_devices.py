"""Devices of a live cluster: their nodes, DeviceClasses, and the pods that claim them."""

from __future__ import annotations

from typing import Any

from rows import each_row

from capacity.tests.placement.test_cluster import lws_of, node
from capacity.tests.placement.test_problem import GPU, claim, claiming
from capacity.tests.placing import LABEL, inventory, pool, where
from fusioninfer_capacity import place
from fusioninfer_capacity.placement.cluster import build_inventory, build_placement
from fusioninfer_capacity.placement.devices import LiveDevices
from fusioninfer_capacity.placement.result import PreviousPool
from fusioninfer_pulumi.api import DeviceArgs

#: Expression in the DeviceClass of NVIDIA's driver.
NVIDIA = f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'gpu'"


def device(name: str, kind: str = "gpu", model: str = "H100") -> dict[str, Any]:
    attributes = {"type": {"string": kind}, "productName": {"string": model}}
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": name, "attributes": attributes, "capacity": capacity}


def slice_of(node: str, *devices: Any, driver: str = GPU, generation: int = 1) -> dict[str, Any]:
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {"spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}}


def gpus(node: str, count: int = 8, **fields: Any) -> dict[str, Any]:
    return slice_of(node, *(device(f"gpu-{index}") for index in range(count)), **fields)


def device_class(name: str = GPU, *expressions: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions or (NVIDIA,)]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def make_claim(
    on: str, *indexes: int, by: str | None = None, admin: bool = False
) -> dict[str, Any]:
    results = [
        {"driver": GPU, "pool": on, "device": f"gpu-{index}", **({"adminAccess": True} if admin
         else {})} for index in indexes
    ]  # fmt: skip
    users = [{"resource": "pods", "name": by}] if by else []
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return {"metadata": {"namespace": "team"}, "status": status}


def pod_of(name: str, service: str) -> dict[str, Any]:
    labels = {"fusioninfer.io/service": service}
    return {
        "metadata": {"namespace": "team", "name": name, "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    }


def node_without_gpus(name: str, group: str = "a") -> dict[str, Any]:
    """Return a node without extended resources."""
    result = node(name, group, 0)
    del result["status"]["allocatable"]["nvidia.com/gpu"]
    return result


def read(*slices: Any, classes: Any = None, claims: Any = (), **fields: Any) -> Any:
    names = list(dict.fromkeys(item["spec"]["nodeName"] for item in slices))
    live = LiveDevices(slices, classes or [device_class()], list(claims))
    return build_inventory(
        [node_without_gpus(name) for name in names], fields.pop("pods", ()), devices=live, **fields
    )


def test_devices_of_slices_become_accelerators_of_the_pool() -> None:
    stock = read(gpus("n1"), gpus("n2", 6))
    (found,) = stock.pools
    assert (found.nodes, found.accelerators, found.in_use) == (2, 8, [2])
    assert (found.resource, found.device_classes) == (None, [GPU])
    assert found.device == DeviceArgs(memory="80Gi", attributes={"model": "H100"})
    assert found.labels == {"zone": "a", LABEL: "a"}
    assert where(place([claiming("w", 1, 1, claim())], stock)) == {"w": {"serve": "a"}}


def test_devices_of_other_pods_are_in_use() -> None:
    claims = [
        make_claim("n1", 0, 1, by="foreign"),
        make_claim("n1", 2, by="own-0"),
        make_claim("n2", 0, 1, 2),
        make_claim("n2", 5, admin=True),
    ]
    pods = [pod_of("own-0", "own"), pod_of("foreign", "other")]
    for services, wanted in ((["own"], [3, 2]), (["team/own"], [3, 2]), ([], [3, 3])):
        result = read(gpus("n1"), gpus("n2"), claims=claims, pods=pods, services=services)
        assert result.pools[0].in_use == wanted


def test_only_newest_generation_of_slices_counts() -> None:
    (found,) = read(gpus("n1", 8), gpus("n1", 4, generation=2)).pools
    assert found.accelerators == 4


def test_nodes_that_share_slices_are_left_out() -> None:
    shared = gpus("n2")
    del shared["spec"]["nodeName"]
    live = LiveDevices([gpus("n1"), shared], [device_class()], ())
    (found,) = build_inventory(
        [node_without_gpus("n1"), node_without_gpus("n2")], (), devices=live
    ).pools
    assert found.nodes == 1


@each_row(
    ("expressions", "counted"),
    [
        ([f'device.driver == "{GPU}"'], 3),
        ([NVIDIA], 2),
        ([f"device.driver == '{GPU}'", f'device.attributes["{GPU}"].type=="mig"'], 1),
        ([f'device.attributes["{GPU}"].productName == "H100"'], 3),
        ([f'device.attributes["{GPU}"].productName == "none"'], 0),
        ([f"device.driver == '{GPU}' || true"], 0),
        ([f"device.driver == '{GPU}'", "device.capacity['x'].y.isGreaterThan(quantity('1'))"], 0),
    ],
)
def test_only_simple_device_classes_are_counted(expressions: list[str], counted: int) -> None:
    mixed = slice_of("n1", device("a"), device("b"), device("c", "mig"))
    live = LiveDevices([mixed], [device_class("x", *expressions)], ())
    assert sum(len(item) for item in live.find_classes("n1").values()) == counted


def test_equal_device_classes_are_one_pool() -> None:
    classes = [device_class(), device_class("same"), device_class("mig", "device.driver == 'm'")]
    (found,) = read(gpus("n1"), classes=classes).pools
    assert found.device_classes == [GPU, "same"]


def test_other_devices_are_not_counted() -> None:
    nics = slice_of("n1", device("n"), driver="nic.example.com")
    live = LiveDevices([nics], [device_class("nic", "device.driver == 'nic.example.com'")], ())
    assert not live.find_classes("n1")


def test_v1beta1_slices_are_read() -> None:
    old = slice_of(
        "n1", {"name": "a", "basic": {k: v for k, v in device("a").items() if k != "name"}}
    )
    (found,) = read(old).pools
    assert (found.accelerators, found.device.memory) == (1, "80Gi")


def test_extended_resources_take_precedence_over_devices() -> None:
    live = LiveDevices([gpus("n1")], [device_class()], ())
    (found,) = build_inventory([node("n1", "a", 4)], (), devices=live).pools
    assert (found.accelerators, found.resource, found.device_classes) == (4, "nvidia.com/gpu", [])


def test_live_leader_worker_sets_do_not_show_claimed_devices() -> None:
    stock = inventory(pool("a", 9, resource=None, deviceClasses=[GPU]))
    placed = place([claiming("w", 2, 1, claim())], stock)
    before = build_placement(lws_of(*placed.services), stock)
    assert before == {"default/w": {"serve": PreviousPool("a", None)}}
