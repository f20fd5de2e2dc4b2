"""Gangs whose pods claim devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster
from e2e.objects import make_devices

CLAIM = "resource.k8s.io/v1/ResourceClaim"
ENABLED = {"predicates": {"predicate.DynamicResourceAllocationEnable": True}}
DEVICES = 8
NO_GANG = {"gangPolicy": {"mode": "Off"}}
CASES: dict[str, list[Any]] = {
    # Volcano's arguments, scheduling strategy, nodes with devices; pods bound and allocated.
    "By default Volcano ignores device claims, so claiming gangs never start": [
        (None, {}, 3, (3, 0)), (None, {}, 1, (3, 0)),
    ],
    "With DynamicResourceAllocationEnable, Volcano allocates a gang's devices or places nothing": [
        (ENABLED, {}, 3, (3, 3)), (ENABLED, {}, 2, (0, 0)),
    ],
    "The default scheduler allocates claimed devices without a gang": [(None, NO_GANG, 3, (3, 3))],
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters(cluster: Cluster) -> Iterator[dict[bool, Cluster]]:
    with Cluster(arguments=ENABLED) as enabled:
        yield {False: cluster, True: enabled}


@pytest.mark.parametrize(
    ("arguments", "scheduling", "nodes", "expected"),
    [
        pytest.param(*case, marks=pytest.mark.verifies(claim))
        for claim, cases in CASES.items()
        for case in cases
    ],
)
def test_claiming_pods_are_bound_and_allocated_as_expected(
    clusters: dict[bool, Cluster], arguments: Any, scheduling: Any, nodes: int, expected: Any
) -> None:
    """One prefill and two decode pods each claim all devices of a node; one node has none."""
    cluster = clusters[arguments is not None]
    namespace = cluster.new_namespace("claims")
    driver = f"{namespace}.example.com"
    names = cluster.add_nodes(nodes, gpus=0)
    without_devices = cluster.add_nodes(1, gpus=0)
    objects = make_devices(driver, dict.fromkeys(names, DEVICES))
    claims = [{"name": "gpus", "deviceClassName": driver, "count": DEVICES}]
    roles = [
        inputs.role("prefill", "prefiller", 1, 1, 0, resourceClaims=claims),
        inputs.role("decode", "decoder", 2, 1, 0, resourceClaims=claims),
    ]
    plan = inputs.build_plan(inputs.service("svc", *roles, **scheduling))
    try:
        cluster.apply(objects)
        cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
        cluster.wait(lambda: len(cluster.list(CLAIM, namespace)) == plan.total_pods, 60)
        cluster.wait_scheduling_cycles(8)
        pools = {
            item["status"]["allocation"]["devices"]["results"][0]["pool"]
            for item in cluster.list(CLAIM, namespace)
            if item.get("status", {}).get("allocation")
        }
        assert (len(cluster.bound_pods(namespace)), len(pools)) == expected
    finally:
        cluster.delete_namespace(namespace)
        cluster.wait(lambda: not cluster.exists("v1/Namespace", namespace), 60)
        for item in reversed(objects):
            cluster.delete(item["kind"], item["metadata"]["name"])
        cluster.remove_nodes([*names, *without_devices])
