"""Network topologies of gangs, and topology spread of leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.harness.resources import read_objects
from e2e.live import LiveService

PLUGIN = "network-topology-aware"
HARD = {"mode": "hard", "highestTierAllowed": 1}


@pytest.fixture(scope="module")
def topology() -> Iterator[Cluster]:
    """Start a cluster with two switches of three nodes each as HyperNodes."""
    with Cluster(plugins=(PLUGIN,)) as started:
        for switch in ("a", "b"):
            names = started.add_nodes(3, gpus=8)
            members = [
                {"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names
            ]
            started.apply(read_objects("switch", switch=switch, members=members))
        started.wait_scheduling_cycles(5)
        yield started


def _schedule(cluster: Cluster, service: Object) -> list[tuple[str, str]]:
    """Return LeaderWorkerSet and node of each bound pod after scheduling has finished."""
    namespace = cluster.new_namespace("topology")
    plan = inputs.build_plan(service)
    cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
    cluster.wait(lambda: len(cluster.pods(namespace)) == plan.total_pods, 60)
    cluster.wait_scheduling_cycles(10)
    bound = [
        (pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"], pod["spec"]["nodeName"])
        for pod in cluster.bound_pods(namespace)
    ]
    cluster.delete_namespace(namespace)
    cluster.wait(lambda: not cluster.exists("v1/Namespace", namespace), 60)
    return bound


def _make_service(
    gang: dict[str, Any], prefill: int = 1, decode: int = 1, nodes: int = 2
) -> Object:
    roles = [
        inputs.role("prefill", "prefiller", prefill, nodes),
        inputs.role("decode", "decoder", decode, nodes),
    ]
    manifest = inputs.service("svc", *roles)
    manifest["spec"]["schedulingStrategy"] = {"gangPolicy": gang}
    return manifest


def _find_switches(cluster: Cluster) -> dict[str, str]:
    return {
        member["selector"]["exactMatch"]["name"]: switch["metadata"]["name"]
        for switch in cluster.list("HyperNode")
        for member in switch["spec"]["members"]
    }


@pytest.mark.verifies("A hard groupPolicy places a gang below one switch, or it stays pending")
def test_gang_stays_below_one_switch(topology: Cluster) -> None:
    free = _schedule(topology, _make_service({}))
    assert len(free) == 4
    # Each switch has three nodes, and the gang needs four.
    assert _schedule(topology, _make_service({"networkTopology": {"groupPolicy": HARD}})) == []
    small = _make_service({"networkTopology": {"groupPolicy": HARD}}, nodes=1)
    placed = _schedule(topology, small)
    assert len(placed) == 2
    assert len({_find_switches(topology)[node] for _, node in placed}) == 1


@pytest.mark.verifies("A hard rolePolicy keeps each replica's pods below one switch")
def test_replica_stays_below_one_switch(topology: Cluster) -> None:
    three = {"prefill": 1, "decode": 2}
    assert len(_schedule(topology, _make_service({}, **three))) == 6
    rule = {"networkTopology": {"rolePolicy": HARD}}
    assert _schedule(topology, _make_service(rule, **three)) == []
    minimum = {"minRoleReplicas": {"prefill": 1, "decode": 1}}
    placed = _schedule(topology, _make_service({**rule, **minimum}, **three))
    assert len(placed) == 4
    switches = _find_switches(topology)
    by_lws: dict[str, set[str]] = {}
    for name, node in placed:
        by_lws.setdefault(name, set()).add(switches[node])
    assert by_lws.keys() == {"svc-prefill-0", "svc-decode-0"}
    assert all(len(below) == 1 for below in by_lws.values())


@pytest.mark.verifies("Two serving groups with a hard groupPolicy use separate switches")
def test_groups_use_separate_switches(topology: Cluster) -> None:
    grouped = _make_service({"networkTopology": {"groupPolicy": HARD}}, nodes=1)
    grouped["spec"]["groups"] = 3
    placed = _schedule(topology, grouped)
    switches = _find_switches(topology)
    by_group: dict[str, set[str]] = {}
    for name, node in placed:
        by_group.setdefault(name.split("-")[1], set()).add(switches[node])
    # Three nodes have capacity for one group of two pods; a third group would need both switches.
    assert len(by_group) == 2
    assert sorted(next(iter(below)) for below in by_group.values()) == ["switch-a", "switch-b"]
    assert all(len(below) == 1 for below in by_group.values())


ZONE = "topology.kubernetes.io/zone"
SPREAD = [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]


@pytest.mark.verifies(
    "Leaders are spread over zones: by Volcano in a gang, by kube-scheduler without one"
)
@pytest.mark.parametrize(
    ("nodes", "small", "minimum"),
    [(1, 2, None), (2, 2, None), (2, 8, {"inference": 1})],
    ids=["no gang", "all-or-nothing", "partial"],
)
def test_leaders_are_spread(
    cluster: Cluster, namespace: str, nodes: int, small: int, minimum: dict[str, int] | None
) -> None:
    cluster.add_nodes(8, labels={ZONE: "large"})
    cluster.add_nodes(small, labels={ZONE: "small"})
    role = inputs.role("inference", "worker", 4, nodes, topologySpread=SPREAD)
    live = LiveService(cluster, namespace, inputs.service("svc", role, minimum=minimum))
    live.apply()
    live.wait_bound({f"inference-{index}": nodes for index in range(4)})
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "")
        for node in cluster.list("v1/Node")
    }
    leader = "leaderworkerset.sigs.k8s.io/worker-index=0"
    nodes_of_leaders = [pod["spec"]["nodeName"] for pod in cluster.bound_pods(namespace, leader)]
    assert Counter(zones[node] for node in nodes_of_leaders) == {"large": 2, "small": 2}
