"""Disruption budgets under the real disruption controller: evictions that pass, and that do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from e2e.harness import ApiError, Cluster, Object
from e2e.harness.stages import BEHAVIOUR, DELAY, SLOW
from e2e.inputs import role, service
from e2e.live import LiveService, task_of

REPLICAS = 3
BUDGET: Object = {"disruptionBudget": {}}


def evict(cluster: Cluster, namespace: str, name: str, *, dry_run: bool = False) -> bool:
    """Asks for an eviction as a drain does; whether it was granted."""
    body: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"dryRun": ["All"]} if dry_run else {},
    }
    try:
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
    except ApiError as error:
        if error.status == 429:
            return False
        raise
    return True


def budget(cluster: Cluster, namespace: str, name: str = "svc-inference") -> Object:
    status: Object = cluster.get("PodDisruptionBudget", name, namespace).get("status", {})
    return status


def slow(made: Object) -> Object:
    """Let pods of a role take so long to become ready that a test can ask for other evictions."""
    made["template"]["metadata"] = {"annotations": {BEHAVIOUR: SLOW, DELAY: "4s"}}
    return made


def running(cluster: Cluster, namespace: str, nodes: int, **fields: object) -> LiveService:
    """A service whose pods are all ready and counted by its budgets."""
    made = slow(role("inference", "worker", REPLICAS, nodes, 0, **BUDGET))
    live = LiveService(cluster, namespace, service("svc", {**made, **fields}))
    cluster.add_nodes(8)
    live.apply()
    settled(cluster, namespace, live)
    return live


def settled(cluster: Cluster, namespace: str, live: LiveService) -> None:
    total = live.plan.total_pods
    cluster.wait(
        lambda: (
            (seen := budget(cluster, namespace)).get("currentHealthy") == total
            and seen["disruptionsAllowed"] == total - seen["desiredHealthy"]
        ),
        90,
        lambda: (budget(cluster, namespace), live.bound()),
    )


def of(live: LiveService, task: str, *, worker: bool = False) -> str:
    """A pod of a replica: its leader, or its last worker."""
    names = sorted(pod["metadata"]["name"] for pod in live.pods() if task_of(pod) == task)
    return str(names[-1] if worker else names[0])


@pytest.mark.proves("A disruption budget admits evictions of one replica at a time")
@pytest.mark.parametrize(("nodes", "worker"), [(1, False), (2, False), (2, True)])
def test_evictions_take_down_one_replica_at_a_time(
    cluster: Cluster, namespace: str, nodes: int, *, worker: bool
) -> None:
    live = running(cluster, namespace, nodes)
    assert budget(cluster, namespace)["expectedPods"] == REPLICAS * nodes
    before = live.identities("inference-0")

    assert evict(cluster, namespace, of(live, "inference-0", worker=worker))
    for other in ("inference-1", "inference-2"):
        assert not evict(cluster, namespace, of(live, other))
        assert not evict(cluster, namespace, of(live, other, worker=True))

    # The whole replica is made anew, and then there is room for the next eviction.
    cluster.wait(
        lambda: (
            len(now := live.identities("inference-0")) == nodes
            and not set(now.values()) & set(before.values())
        ),
        90,
        lambda: (live.bound(), before),
    )
    settled(cluster, namespace, live)
    assert evict(cluster, namespace, of(live, "inference-1"))


@pytest.mark.proves("A budget of whole replicas, counted in pods, would evict two at once")
def test_budget_in_pods_evicts_two_replicas(cluster: Cluster, namespace: str) -> None:
    # With the group made anew at once it is a race between the two evictions.
    live = running(cluster, namespace, 2, restartPolicy="None")
    whole = {"spec": {"minAvailable": (REPLICAS - 1) * 2}}
    cluster.patch("PodDisruptionBudget", "svc-inference", whole, namespace)
    cluster.wait(lambda: budget(cluster, namespace)["disruptionsAllowed"] == 2)
    hit = {
        task: evict(cluster, namespace, of(live, task, worker=True))
        for task in ("inference-0", "inference-1")
    }
    assert all(hit.values())


def _missing(cluster: Cluster, namespace: str, live: LiveService) -> None:
    """Replica 0 has no pods, as between the end of a group and its next start."""
    scale = {"spec": {"replicas": 0}}
    cluster.patch("LeaderWorkerSet", "svc-inference-0", scale, namespace)
    cluster.wait(lambda: len(live.pods()) == (REPLICAS - 1) * 2, 60, live.bound)


@pytest.mark.proves("A replica without pods uses up the budget")
def test_replica_without_pods_uses_up_budget(cluster: Cluster, namespace: str) -> None:
    live = running(cluster, namespace, 2)
    _missing(cluster, namespace, live)
    cluster.wait(lambda: budget(cluster, namespace)["currentHealthy"] == (REPLICAS - 1) * 2)
    assert not evict(cluster, namespace, of(live, "inference-1"), dry_run=True)

    own = {"spec": {"minAvailable": None, "maxUnavailable": 1}}
    cluster.patch("PodDisruptionBudget", "svc-inference", own, namespace)

    def allowed() -> bool:
        return evict(cluster, namespace, of(live, "inference-1"), dry_run=True)

    cluster.wait(allowed, 30, lambda: budget(cluster, namespace))


@pytest.mark.proves("Budgets of several roles select disjoint pods")
def test_each_role_has_a_separate_budget(cluster: Cluster, namespace: str) -> None:
    manifest = service(
        "svc",
        slow(role("prefill", "prefiller", 2, 1, 0)),
        slow(role("decode", "decoder", 2, 2, 0, disruptionBudget={"maxUnavailable": 2})),
    )
    manifest["spec"]["disruptionBudget"] = {"minAvailable": 1}
    live = LiveService(cluster, namespace, manifest)
    cluster.add_nodes(8)
    live.apply()
    for name, allowed, pods in (("svc-prefill", 1, 2), ("svc-decode", 2, 4)):
        look = partial(budget, cluster, namespace, name)

        def settled(look: Callable[[], Object] = look, wanted: object = (allowed, pods)) -> bool:
            seen = look()
            return (seen.get("disruptionsAllowed"), seen.get("expectedPods")) == wanted

        cluster.wait(settled, 90, look)
    assert evict(cluster, namespace, of(live, "prefill-0"))
    assert not evict(cluster, namespace, of(live, "prefill-1"))
    assert evict(cluster, namespace, of(live, "decode-0", worker=True))
    # The API server rejects, by an error and not by 429, what is under two budgets.
    assert isinstance(evict(cluster, namespace, of(live, "decode-1")), bool)


@pytest.mark.proves("Unready pods can be evicted while the budget is used up")
def test_unready_pods_do_not_block_drain(cluster: Cluster, namespace: str) -> None:
    live = running(cluster, namespace, 1)
    name = of(live, "inference-0")
    status = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.patch("v1/Pod", name, status, namespace, patch_type="strategic", subresource="status")
    cluster.wait(lambda: budget(cluster, namespace)["disruptionsAllowed"] == 0)
    assert not evict(cluster, namespace, of(live, "inference-1"))
    assert evict(cluster, namespace, name)
