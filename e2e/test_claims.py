"""Gangs whose pods claim devices: what Volcano makes of their claims, told and not told to look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import inputs
from e2e.devices import devices
from e2e.harness import Cluster

CLAIM = "resource.k8s.io/v1/ResourceClaim"
TOLD = {"predicates": {"predicate.DynamicResourceAllocationEnable": True}}
DEVICES = 8


@pytest.fixture(scope="module")
def output() -> Iterator[Cluster]:
    """A cluster whose Volcano looks at claims."""
    with Cluster(arguments=TOLD) as started:
        yield started


def _found(cluster: Cluster, nodes: int, **scheduling: Any) -> tuple[int, dict[str, str]]:
    """Bound pods of prefill 1 + decode 2 that claim a node's devices each; their allocated claims.

    So many nodes have devices; one more has none.
    """
    namespace = cluster.new_namespace("claims")
    driver = f"{namespace}.example.com"
    names = cluster.add_nodes(nodes, gpus=0)
    bare = cluster.add_nodes(1, gpus=0)
    made = devices(driver, dict.fromkeys(names, DEVICES))
    claims = [{"name": "gpus", "deviceClassName": driver, "count": DEVICES}]
    roles = [
        inputs.role("prefill", "prefiller", 1, 1, 0, resourceClaims=claims),
        inputs.role("decode", "decoder", 2, 1, 0, resourceClaims=claims),
    ]
    plan = inputs.plan_of(inputs.service("svc", *roles, **scheduling))
    try:
        cluster.apply(made)
        cluster.apply(inputs.with_namespace(inputs.objects_of(plan), namespace))
        cluster.wait(lambda: len(cluster.list(CLAIM, namespace)) == plan.total_pods, 60)
        cluster.settle(8)
        bound = cluster.bound(namespace)
        allocated = {
            each["metadata"]["name"]: each["status"]["allocation"]["devices"]["results"][0]["pool"]
            for each in cluster.list(CLAIM, namespace)
            if each.get("status", {}).get("allocation")
        }
    finally:
        cluster.delete_namespace(namespace)
        cluster.wait(lambda: not cluster.exists("v1/Namespace", namespace), 60)
        for each in reversed(made):
            cluster.delete(each["kind"], each["metadata"]["name"])
        cluster.remove_nodes([*names, *bare])
    return len(bound), allocated


@pytest.mark.proves("By default Volcano ignores device claims, so claiming gangs never start")
@pytest.mark.parametrize("nodes", [3, 1])
def test_volcano_ignores_claims_by_default(cluster: Cluster, nodes: int) -> None:
    assert _found(cluster, nodes) == (3, {})


@pytest.mark.proves(
    "With DynamicResourceAllocationEnable, Volcano allocates a gang's devices or places nothing"
)
@pytest.mark.parametrize(("nodes", "running"), [(3, 3), (2, 0)])
def test_volcano_allocates_claims_if_enabled(output: Cluster, nodes: int, running: int) -> None:
    bound, allocated = _found(output, nodes)
    assert (bound, len(set(allocated.values()))) == (running, running)


@pytest.mark.proves("The default scheduler allocates claimed devices without a gang")
def test_default_scheduler_allocates_claims(cluster: Cluster) -> None:
    bound, allocated = _found(cluster, 3, gangPolicy={"mode": "Off"})
    assert (bound, len(set(allocated.values()))) == (3, 3)
