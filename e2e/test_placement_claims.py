"""Services whose pods claim devices, placed by what ResourceSlices say, under kube-scheduler."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e import inputs
from e2e.devices import devices
from e2e.harness import Cluster, Object
from e2e.test_placement import LABEL, bound_on, promised, run, wait_for
from fusioninfer_pulumi import load, place, read_inventory
from fusioninfer_pulumi.findings import InvalidServiceError

DRIVER = "gpu.nvidia.com"


def claiming(name: str, namespace: str, replicas: int, count: int) -> Object:
    built = inputs.service(
        name,
        inputs.role(
            "serve",
            "worker",
            replicas,
            1,
            0,
            resourceClaims=[{"name": "gpus", "deviceClassName": DRIVER, "count": count}],
        ),
    )
    built["metadata"]["namespace"] = namespace
    return built


@pytest.mark.proves("Services that claim devices are placed by ResourceSlices and allocated there")
def test_claims_are_allocated_on_chosen_pools(cluster: Cluster, namespace: str) -> None:
    sizes = {"small": (3, 4), "large": (2, 8)}
    nodes = [
        (name, size)
        for pool, (count, size) in sizes.items()
        for name in cluster.add_nodes(count, 0, labels={LABEL: pool}, prefix=pool)
    ]
    device_class, *slices = devices(DRIVER, dict(nodes))
    # NVIDIA's driver publishes other types of devices, too.
    selector = device_class["spec"]["selectors"][0]["cel"]
    selector["expression"] += f" && device.attributes['{DRIVER}'].type == 'gpu'"
    cluster.apply([device_class, *slices])
    try:
        stock = read_inventory(str(cluster.kubeconfig))
        found = {pool.name: (pool.nodes, pool.accelerators) for pool in stock.pools}
        assert found == sizes
        assert all(pool.device_classes == [DRIVER] for pool in stock.pools)
        services = [
            each
            for manifest in (
                claiming("halves", namespace, 3, 4),
                claiming("wholes", namespace, 2, 8),
            )
            for each in load(manifest)
        ]
        placed = place(services, stock)
        assert promised(placed) == Counter(
            {("halves", "serve", "small"): 3, ("wholes", "serve", "large"): 2}
        )
        run(cluster, namespace, placed.services)
        wait_for(cluster, namespace, promised(placed))
        assert bound_on(cluster, namespace) == promised(placed)
        # What is allocated now is in use for others, and free for the services themselves.
        full = read_inventory(str(cluster.kubeconfig))
        assert [pool.in_use for pool in full.pools] == [[8, 8], [4, 4, 4]]
        own = read_inventory(str(cluster.kubeconfig), services=placed.services)
        assert [pool.in_use for pool in own.pools] == [[], []]
        (one_more,) = load(claiming("more", namespace, 1, 1))
        with pytest.raises(InvalidServiceError, match="does not fit; the closest choice, serve on"):
            place([one_more], full)
    finally:
        for each in slices:
            cluster.delete("ResourceSlice", each["metadata"]["name"])
