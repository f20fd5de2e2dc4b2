"""Services that Kueue admits: queue labels, no gangs, and capacity."""

from __future__ import annotations

from typing import Any

import pytest
from samples import (
    kinds,
    nodes,
    of_kind,
    plan_of,
    pod_templates,
    prefill_decode,
    rendered,
    role,
    service,
    template,
    warnings,
)

from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus
from fusioninfer_pulumi.topology.capacity_model import (
    GangScope,
    NodePool,
    RoleDemand,
    compute_gang_capacity,
)

QUEUE = "kueue.x-k8s.io/queue-name"


def kueue(queue: Any = "team", **policy: Any) -> Any:
    strategy = {"gangPolicy": {"backend": "Kueue", **policy}}
    return {"schedulingStrategy": strategy | ({"queue": queue} if queue else {})}


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_queue_label_is_only_on_lws(layout: str) -> None:
    manifest = prefill_decode(layout=layout, **kueue())
    assert "PodGroup" not in kinds(manifest)
    sets = of_kind(rendered(manifest), "LeaderWorkerSet")
    assert {entry["metadata"]["labels"][QUEUE] for entry in sets} == {"team"}
    other_items = [entry for entry in rendered(manifest) if entry["kind"] != "LeaderWorkerSet"]
    assert not any(QUEUE in other["metadata"].get("labels", {}) for other in other_items)
    for pod in pod_templates(manifest):
        assert "schedulerName" not in pod["spec"]
    for item in sets:
        inner = item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
        # Kueue sets it on each pod; on the template it would name the pod's own workload.
        assert QUEUE not in inner["labels"]
        assert not any(
            "volcano" in key or "group-name" in key for key in inner.get("annotations", {})
        )


def test_single_pods_are_queued_unless_mode_is_off() -> None:
    (lws, *_) = of_kind(rendered(service(role(), **kueue())), "LeaderWorkerSet")
    assert lws["metadata"]["labels"][QUEUE] == "team"
    off = service(role(), **kueue(mode="Off"))
    (lws, *_) = of_kind(rendered(off), "LeaderWorkerSet")
    assert QUEUE not in lws["metadata"]["labels"]
    assert warnings(off) == [
        (
            "warning: schedulingStrategy.queue: has no effect: with gangPolicy.mode Off replicas "
            "do not wait in a LocalQueue"
        )
    ]


def test_queue_change_restarts_no_pods() -> None:
    """The queue is not part of the pods: moving a service to Kueue's queue keeps its revision."""
    manifests = (service(role()), service(role(), **kueue()))
    plain, queued = (of_kind(rendered(manifest), "LeaderWorkerSet")[0] for manifest in manifests)
    key = "fusioninfer.io/revision"
    assert plain["metadata"]["labels"][key] == queued["metadata"]["labels"][key]


def test_capacity_table_counts_each_replica_separately() -> None:
    # What Kueue 0.15.2 admits is in e2e/test_kueue.py.
    eight = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = template({"name": "vllm", "image": "e:1", "command": ["/serve"], **eight})
    manifest = prefill_decode(
        {"multinode": nodes(2, launcher="none"), "template": pod, "replicas": 1},
        {"multinode": nodes(4, launcher="none"), "template": pod, "replicas": 2},
        **kueue(),
    )
    rows = compute_capacity_for_gpus(plan_of(manifest), [80, 64, 48, 32, 16, 8])
    assert [(row.gpus, *row.running.values(), row.status, row.exact) for row in rows] == [
        (80, 1, 2, "Full", True),
        (64, 1, 2, "Partial", False),
        (48, 1, 1, "Partial", True),
        (32, 1, 1, "Partial", False),
        (16, 1, 0, "Partial", True),
        (8, 0, 0, "Blocked", True),
    ]


def test_quota_that_nodes_cannot_fill_gives_an_upper_bound() -> None:
    roles = [RoleDemand("a", 3, (8,), 0)]
    # Two nodes of twelve: quota for three pods, and nodes for two.
    assert compute_gang_capacity(roles, GangScope.REPLICA, [NodePool(2, 12)]).exact is False
    assert compute_gang_capacity(roles, GangScope.REPLICA, [NodePool(3, 12)]).exact is True
    assert compute_gang_capacity(roles, GangScope.REPLICA, [NodePool(1, 16)]).exact is True


def test_kueue_may_admit_part_of_a_group() -> None:
    eight = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    single = {"replicas": 1, "template": template({"name": "vllm", "image": "e:1", **eight})}
    plan = plan_of(prefill_decode(single, single, groups=2, **kueue()))
    assert plan.gangs == ()
    (short, full) = compute_capacity_for_gpus(plan, [16, 32])
    # Two pods of four: perhaps of two groups, and perhaps both of one role.
    assert (dict(short.running), short.exact) == ({"prefill": 2, "decode": 2}, False)
    assert (dict(full.running), full.exact) == ({"prefill": 2, "decode": 2}, True)
