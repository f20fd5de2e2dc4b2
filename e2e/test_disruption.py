"""Evictions with disruption budgets, on the real disruption controller."""

from __future__ import annotations

import pytest

from e2e.harness import ApiError, Cluster, Object
from e2e.harness.stages import BEHAVIOR, DELAY, SLOW
from e2e.inputs import role, service
from e2e.live import LiveService, get_task


def evict(live: LiveService, task: str, *, worker: bool = False) -> bool:
    """Evict a replica's leader or last worker, as a drain does; return whether it was allowed."""
    names = sorted(pod["metadata"]["name"] for pod in live.pods() if get_task(pod) == task)
    name = names[-1 if worker else 0]
    metadata = {"name": name, "namespace": live.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    try:
        path = f"/api/v1/namespaces/{live.namespace}/pods/{name}/eviction"
        live.cluster.request("POST", path, body)
    except ApiError as error:
        if error.status == 429:
            return False
        raise
    return True


def make_slow_role(name: str, kind: str, replicas: int, nodes: int, **more: object) -> Object:
    """Return a role whose pods start slowly, so that tests can evict pods meanwhile."""
    manifest = role(name, kind, replicas, nodes, 0, **more)
    manifest["template"]["metadata"] = {"annotations": {BEHAVIOR: SLOW, DELAY: "4s"}}
    return manifest


def wait_for_budget(live: LiveService, name: str, allowed: int, pods: int) -> None:
    """Wait until all pods of a budget are healthy and it allows this many evictions."""

    def status() -> Object:
        budget: Object = live.cluster.get("PodDisruptionBudget", name, live.namespace)
        return dict(budget.get("status") or {})

    wanted = {"disruptionsAllowed": allowed, "expectedPods": pods, "currentHealthy": pods}
    live.cluster.wait(lambda: wanted.items() <= status().items(), 90, status)


@pytest.mark.verifies("A disruption budget admits evictions of one replica at a time")
@pytest.mark.parametrize(("nodes", "worker"), [(1, False), (2, False), (2, True)])
def test_evictions_take_down_one_replica_at_a_time(
    cluster: Cluster, namespace: str, nodes: int, *, worker: bool
) -> None:
    manifest = service("svc", make_slow_role("inference", "worker", 3, nodes, disruptionBudget={}))
    live = LiveService(cluster, namespace, manifest)
    cluster.add_nodes(8)
    live.apply()
    wait_for_budget(live, "svc-inference", 1, 3 * nodes)
    before = live.read_uids("inference-0")

    assert evict(live, "inference-0", worker=worker)
    for name in ("inference-1", "inference-2"):
        assert not evict(live, name)
        assert not evict(live, name, worker=True)

    # All pods of the replica are replaced, and then the next eviction is allowed.
    def is_replaced() -> bool:
        now = live.read_uids("inference-0")
        return len(now) == nodes and not set(now.values()) & set(before.values())

    cluster.wait(is_replaced, 90, lambda: (live.count_bound(), before))
    wait_for_budget(live, "svc-inference", 1, 3 * nodes)
    assert evict(live, "inference-1")


@pytest.mark.verifies("Budgets of several roles select disjoint pods")
def test_each_role_has_a_separate_budget(cluster: Cluster, namespace: str) -> None:
    manifest = service(
        "svc",
        make_slow_role("prefill", "prefiller", 2, 1),
        make_slow_role("decode", "decoder", 2, 2, disruptionBudget={"maxUnavailable": 2}),
    )
    manifest["spec"]["disruptionBudget"] = {"minAvailable": 1}
    live = LiveService(cluster, namespace, manifest)
    cluster.add_nodes(8)
    live.apply()
    wait_for_budget(live, "svc-prefill", 1, 2)
    wait_for_budget(live, "svc-decode", 2, 4)
    assert evict(live, "prefill-0")
    assert not evict(live, "prefill-1")
    assert evict(live, "decode-0", worker=True)
    # The API server rejects pods with two budgets by an error other than 429.
    assert isinstance(evict(live, "decode-1"), bool)
