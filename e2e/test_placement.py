"""Placed services and device claims on the real schedulers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.objects import make_devices
from fusioninfer_capacity.placement.placing import place_services
from fusioninfer_capacity.placement.result import Status, read_previous
from fusioninfer_pulumi import Placement, load, place, plan_service, read_inventory, read_placement
from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load_inventory

LABEL = "cloud.google.com/gke-nodepool"
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TEAM = {"key": "team", "value": "blue", "effect": "NoExecute"}
CASES = 12


def make_role(name: str, replicas: int, nodes: int, gpus: int, **more: Any) -> Object:
    kind = {"prefill": "prefiller", "decode": "decoder"}.get(name, "worker")
    return inputs.role(name, kind, replicas, nodes, gpus, **more)


def add_pools(cluster: Cluster, inventory: InventoryArgs) -> None:
    for pool in inventory.pools:
        labels = {**pool.labels, LABEL: inventory.selector_value(pool)}
        taints = [taint.model_dump(mode="json") for taint in pool.taints]
        cluster.add_nodes(
            pool.nodes, pool.accelerators, labels=labels, taints=taints, prefix=pool.name
        )


def apply_services(
    cluster: Cluster, namespace: str, services: Sequence[InferenceServiceArgs]
) -> None:
    objects = [item for args in services for item in inputs.render_objects(plan_service(args))]
    cluster.apply(objects, namespace=namespace)


def count_bound(cluster: Cluster, namespace: str) -> Counter[tuple[str, str, str]]:
    pools = {
        node["metadata"]["name"]: node["metadata"]["labels"][LABEL]
        for node in cluster.list("v1/Node")
    }
    return Counter(
        (
            pod["metadata"]["labels"]["fusioninfer.io/service"],
            pod["metadata"]["labels"]["fusioninfer.io/role-name"],
            pools[pod["spec"]["nodeName"]],
        )
        for pod in cluster.bound_pods(namespace)
    )


def count_placed(placement: Placement) -> Counter[tuple[str, str, str]]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for record, args in zip(placement.placed, placement.services, strict=True):
        assert record is not None
        nodes = {role.name: role.nodes for role in plan_service(args).roles}
        for role in record.roles:
            counts[record.service, role.name, role.pool] += role.replicas * nodes[role.name]
    return +counts


def wait_for_bound(cluster: Cluster, namespace: str, wanted: Counter[tuple[str, str, str]]) -> None:
    cluster.wait(
        lambda: count_bound(cluster, namespace) == wanted,
        120,
        lambda: f"bound {count_bound(cluster, namespace)}, wanted {wanted}",
    )


INVENTORY = load_inventory(
    {
        "poolLabel": LABEL,
        "pools": [
            {"name": "big", "nodes": 4, "accelerators": 8, "taints": [GPU]},
            {"name": "small", "nodes": 6, "accelerators": 4, "taints": [TEAM]},
            {"name": "far", "nodes": 4, "accelerators": 8, "labels": {"zone": "z2"}},
        ],
    }
)
NEAR = {"placement": {"pools": ["big", "small"]}}


@pytest.mark.verifies(
    "Services placed together run on the chosen pools; the cluster reads back the same"
)
def test_placed_services_run_on_their_pools(cluster: Cluster, namespace: str) -> None:
    prefill = make_role("prefill", 2, 1, 8, **NEAR)
    services = load_all(
        namespace,
        inputs.service("chat", prefill, make_role("decode", 4, 1, 4, **NEAR)),
        inputs.service("reason", make_role("serve", 1, 2, 8)),
        inputs.service("far", make_role("serve", 2, 2, 8)),
    )
    add_pools(cluster, INVENTORY)
    placement = place(services, INVENTORY)
    apply_services(cluster, namespace, placement.services)
    wait_for_bound(cluster, namespace, count_placed(placement))
    assert {pool for _, _, pool in count_placed(placement)} == {"big", "small", "far"}
    kubeconfig = str(cluster.kubeconfig)
    live = read_inventory(kubeconfig, services=services)
    assert {pool.name: (pool.nodes, pool.accelerators, pool.in_use) for pool in live.pools} == {
        pool.name: (pool.nodes, pool.accelerators, []) for pool in INVENTORY.pools
    }
    taken = {pool.name: sum(pool.in_use) for pool in read_inventory(kubeconfig).pools}
    assert taken == {left.pool: left.placed for left in placement.pools}
    assert read_placement(live, kubeconfig) == read_previous(placement)
    again = place(services, live, previous=read_placement(live, kubeconfig))
    assert count_placed(again) == count_placed(placement)


@pytest.mark.verifies(
    f"Of {CASES} random sets of services, all certain placements are schedulable together"
)
def test_random_placements_are_bound(cluster: Cluster) -> None:
    rng = random.Random(7)
    tried = 0
    while tried < CASES:
        namespace = cluster.new_namespace("placed")
        services, inventory = generate_case(rng, namespace, tried)
        placement = place_services(services, inventory)
        risky = not all(pool.certain for pool in placement.pools)
        placed = [
            args
            for record, args in zip(placement.placed, placement.services, strict=True)
            if record is not None and record.status is Status.PLACED
        ]
        if not risky and len(placed) > 1:
            tried += 1
            add_pools(cluster, inventory)
            apply_services(cluster, namespace, placed)
            wait_for_bound(cluster, namespace, count_placed(placement))
        cluster.delete_namespace(namespace)
        nodes = cluster.list("v1/Node", selector=LABEL)
        cluster.remove_nodes([node["metadata"]["name"] for node in nodes])


def generate_case(
    rng: random.Random, namespace: str, number: int
) -> tuple[list[InferenceServiceArgs], InventoryArgs]:
    """Return three random services, and pools of about their size."""

    def generate_role(name: str) -> Object:
        shape = rng.randint(1, 2), rng.randint(1, 2), rng.choice((4, 8))
        return make_role(name, *shape)

    services = []
    for index in range(3):
        names = ("prefill", "decode") if rng.random() < 0.6 else ("serve",)
        services.append(inputs.service(f"s{number}-{index}", *map(generate_role, names)))
    pools = [
        {"name": f"p{index}", "nodes": rng.randint(1, 4), "accelerators": rng.choice((4, 8, 8))}
        for index in range(3)
    ]
    inventory = load_inventory({"poolLabel": LABEL, "pools": pools})
    return load_all(namespace, *services), inventory


def load_all(namespace: str, *manifests: Object) -> list[InferenceServiceArgs]:
    return [
        args
        for manifest in manifests
        for args in load({**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}})
    ]


DRIVER = "gpu.nvidia.com"


def make_claiming(name: str, replicas: int, count: int) -> Object:
    claims = [{"name": "gpus", "deviceClassName": DRIVER, "count": count}]
    return inputs.service(name, make_role("serve", replicas, 1, 0, resourceClaims=claims))


@pytest.mark.verifies(
    "Services that claim devices are placed by ResourceSlices and allocated there"
)
def test_claims_are_allocated_on_chosen_pools(cluster: Cluster, namespace: str) -> None:
    sizes = {"small": (3, 4), "large": (2, 8)}
    nodes = [
        (name, size)
        for pool, (count, size) in sizes.items()
        for name in cluster.add_nodes(count, 0, labels={LABEL: pool}, prefix=pool)
    ]
    device_class, *slices = make_devices(DRIVER, dict(nodes))
    # NVIDIA's driver also publishes other types of devices.
    selector = device_class["spec"]["selectors"][0]["cel"]
    selector["expression"] += f" && device.attributes['{DRIVER}'].type == 'gpu'"
    cluster.apply([device_class, *slices])
    try:
        inventory = read_inventory(str(cluster.kubeconfig))
        pools = {pool.name: (pool.nodes, pool.accelerators) for pool in inventory.pools}
        assert pools == sizes
        assert all(pool.device_classes == [DRIVER] for pool in inventory.pools)
        services = load_all(namespace, make_claiming("halves", 3, 4), make_claiming("wholes", 2, 8))
        placed = place(services, inventory)
        assert count_placed(placed) == Counter(
            {("halves", "serve", "small"): 3, ("wholes", "serve", "large"): 2}
        )
        apply_services(cluster, namespace, placed.services)
        wait_for_bound(cluster, namespace, count_placed(placed))
        assert count_bound(cluster, namespace) == count_placed(placed)
        # Allocated devices are in use for other services, but free for these.
        full = read_inventory(str(cluster.kubeconfig))
        assert [pool.in_use for pool in full.pools] == [[8, 8], [4, 4, 4]]
        free = read_inventory(str(cluster.kubeconfig), services=placed.services)
        assert [pool.in_use for pool in free.pools] == [[], []]
        text = "does not fit; the closest combination, serve on"
        with pytest.raises(InvalidServiceError, match=text):
            place(load_all(namespace, make_claiming("more", 1, 1)), full)
    finally:
        for item in slices:
            cluster.delete("ResourceSlice", item["metadata"]["name"])
