"""What Kueue gets of a service, and what it is not asked for."""

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
    problems,
    rendered,
    role,
    rules,
    service,
    template,
    warnings,
)

from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus
from fusioninfer_pulumi.topology.capacity_model import GangForm, NodePool, RoleDemand, capacity

QUEUE = "kueue.x-k8s.io/queue-name"


def kueue(queue: Any = "team", **policy: Any) -> Any:
    strategy = {"gangPolicy": {"backend": "Kueue", **policy}}
    return {"schedulingStrategy": strategy | ({"queue": queue} if queue else {})}


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_queue_is_a_label_of_each_lws_only(layout: str) -> None:
    manifest = prefill_decode(layout=layout, **kueue())
    assert "PodGroup" not in kinds(manifest)
    sets = of_kind(rendered(manifest), "LeaderWorkerSet")
    assert {each["metadata"]["labels"][QUEUE] for each in sets} == {"team"}
    others = [each for each in rendered(manifest) if each["kind"] != "LeaderWorkerSet"]
    assert not any(QUEUE in each["metadata"].get("labels", {}) for each in others)
    for pod in pod_templates(manifest):
        assert "schedulerName" not in pod["spec"]
    for each in sets:
        inner = each["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
        # Kueue sets it on each pod; on the template it would name the pod's own workload.
        assert QUEUE not in inner["labels"]
        assert not any(
            "volcano" in key or "group-name" in key for key in inner.get("annotations", {})
        )


def test_single_pods_wait_in_the_queue_too_and_mode_off_leaves_it() -> None:
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


def test_pods_restart_for_no_queue() -> None:
    """The queue is no part of the pods: moving a service to Kueue's queue keeps its revision."""
    manifests = (service(role()), service(role(), **kueue()))
    plain, queued = (of_kind(rendered(each), "LeaderWorkerSet")[0] for each in manifests)
    key = "fusioninfer.io/revision"
    assert plain["metadata"]["labels"][key] == queued["metadata"]["labels"][key]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            kueue(minRoleReplicas={"decode": 1}),
            (
                "schedulingStrategy.gangPolicy.minRoleReplicas: Kueue admits each replica on its "
                "own and has no minimum for each role; remove it, or use backend Volcano"
            ),
        ),
        (
            kueue(networkTopology={"groupPolicy": {"highestTierAllowed": 1}}),
            (
                "schedulingStrategy.gangPolicy.networkTopology: HyperNodes are Volcano's; Kueue "
                "reads the annotation kueue.x-k8s.io/podset-required-topology of the pod "
                "templates; remove it, or use backend Volcano"
            ),
        ),
        (
            kueue(None),
            (
                "schedulingStrategy.queue: is required with backend Kueue: name a LocalQueue of "
                "the namespace; without one Kueue admits nothing"
            ),
        ),
    ],
)
def test_unsupported_kueue_fields_are_rejected(strategy: Any, expected: str) -> None:
    assert problems(prefill_decode(**strategy)) == [expected]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"requiredReplicas": "LowestOrdinals"}, "Kueue has no minimum for each role"),
        ({"minResources": True}, "Kueue counts the requests of every replica"),
    ],
)
def test_field_without_effect_with_kueue_is_a_warning(policy: Any, reason: str) -> None:
    (field,) = policy
    assert warnings(service(role(), **kueue(**policy))) == [
        f"warning: schedulingStrategy.gangPolicy.{field}: has no effect: {reason}"
    ]


def test_kueue_reports_roles_that_start_apart() -> None:
    assert ("roles-start-apart", "schedulingStrategy.gangPolicy.backend") in rules(
        prefill_decode(**kueue())
    )
    alone = service(role(multinode=nodes(2), startupPolicy="LeaderReady"), **kueue())
    exclusive = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    assert problems(alone) == []
    assert problems(prefill_decode(metadata={"annotations": exclusive}, **kueue())) == []
    assert "roles-start-apart" not in dict(rules(alone))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"podLabels": {QUEUE: "team"}}, "podLabels"),
        ({"roles": {"podLabels": {QUEUE: "team"}}}, "roles[0].podLabels"),
        (
            {"roles": {"template": template(metadata={"labels": {QUEUE: "team"}})}},
            "roles[0].template.metadata.labels",
        ),
    ],
)
def test_pods_that_kueue_would_never_start_are_rejected(changed: Any, field: str) -> None:
    """Seen with the real one: e2e/test_kueue.py."""
    changed = dict(changed)
    labelled = service(role(**changed.pop("roles", {})), **changed, **kueue())
    reason = "keeps the pods from starting, while Kueue counts them as admitted"
    remedy = "it labels pods of a LeaderWorkerSet itself; remove it"
    assert problems(labelled) == [f"{field}[{QUEUE}]: {reason}: {remedy}"]
    labelled["spec"].pop("schedulingStrategy")
    (problem,) = problems(labelled)
    assert problem.startswith(f"{field}[{QUEUE}]: keeps the pods of a LeaderWorkerSet from ")
    assert "gangPolicy.backend: Kueue" in problem
    labelled["metadata"]["labels"] = {QUEUE: "team"}
    assert ("kueue-label", f"{field}[{QUEUE}]") in rules(labelled)


def test_label_of_the_service_is_a_queue_that_the_plan_does_not_know() -> None:
    manifest = service(role(), metadata={"labels": {QUEUE: "team"}})
    reason = "is copied to all objects, so replicas wait in a queue that the plan does not know"
    remedy = "set schedulingStrategy.queue and gangPolicy.backend: Kueue instead"
    assert warnings(manifest) == [f"warning: metadata.labels[{QUEUE}]: {reason}; {remedy}"]


def test_capacity_table_is_each_replica_by_itself() -> None:
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


def test_quota_that_no_node_can_give_is_an_upper_bound() -> None:
    roles = [RoleDemand("a", 3, (8,), 0)]
    # Two nodes of twelve: quota for three pods, and nodes for two.
    assert capacity(roles, GangForm.REPLICA, [NodePool(2, 12)]).exact is False
    assert capacity(roles, GangForm.REPLICA, [NodePool(3, 12)]).exact is True
    assert capacity(roles, GangForm.REPLICA, [NodePool(1, 16)]).exact is True


def test_kueue_admits_groups_in_part() -> None:
    eight = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    single = {"replicas": 1, "template": template({"name": "vllm", "image": "e:1", **eight})}
    plan = plan_of(prefill_decode(single, single, groups=2, **kueue()))
    assert plan.gangs == ()
    (short, full) = compute_capacity_for_gpus(plan, [16, 32])
    # Two pods of four: perhaps of two groups, and perhaps both of one role.
    assert (dict(short.running), short.exact) == ({"prefill": 2, "decode": 2}, False)
    assert (dict(full.running), full.exact) == ({"prefill": 2, "decode": 2}, True)
