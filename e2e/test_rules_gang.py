"""What the library refuses in a gang really deadlocks or breaks on the real scheduler.

Each manifest is one that the library rendered, with the refused thing put in by hand.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService
from e2e.refusals import in_lws, in_pod_group, in_templates, refused, warned_of
from fusioninfer_pulumi.kube import labels

NOTHING = {"prefill-0": 0, "decode-0": 0, "decode-1": 0}
FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
STORY = prefill_decode()
PARTIAL = prefill_decode(minimum={"prefill": 1, "decode": 1})


def edited(manifest: Object, role: int, **fields: Any) -> Object:
    """The service with other fields in one role."""
    changed = copy.deepcopy(manifest)
    changed["spec"]["roles"][role] |= fields
    return changed


def annotated(manifest: Object, key: str, value: str) -> Object:
    changed = copy.deepcopy(manifest)
    for role in changed["spec"]["roles"]:
        role["template"]["metadata"] = {"annotations": {key: value}}
    return changed


def annotate(key: str, value: str) -> Any:
    def edit(holder: Object) -> None:
        holder["metadata"].setdefault("annotations", {})[key] = value

    return edit


def assert_leaders_wait_alone(cluster: Cluster, service: LiveService) -> None:
    cluster.wait(lambda: len(service.pods()) >= 3, message=service.pods)
    cluster.settle(10)
    names = sorted(service.identities())
    assert names == ["svc-decode-0-0", "svc-decode-1-0", "svc-prefill-0-0"]
    assert service.bound() == NOTHING


@pytest.mark.proves("LeaderReady deadlocks with a gang")
def test_leader_ready_deadlocks(cluster: Cluster, namespace: str) -> None:
    refused(edited(STORY, 1, startupPolicy="LeaderReady"), "LeaderReady deadlocks")
    cluster.add_nodes(10)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_lws(lambda each: each["spec"].update(startupPolicy="LeaderReady")))
    assert_leaders_wait_alone(cluster, service)


def add_racks(cluster: Cluster, racks: int, nodes: int) -> dict[str, str]:
    """Nodes with a label `rack`; which node is in which."""
    return {
        name: f"r{rack}"
        for rack in range(racks)
        for name in cluster.add_nodes(nodes, labels={"rack": f"r{rack}"})
    }


@pytest.mark.proves("An exclusive topology deadlocks with a gang")
def test_an_exclusive_topology_deadlocks(cluster: Cluster, namespace: str) -> None:
    key = labels.LWS_EXCLUSIVE_TOPOLOGY
    refused({**STORY, "metadata": {"name": "svc", "annotations": {key: "rack"}}}, "deadlocks")
    add_racks(cluster, 3, 4)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_lws(annotate(key, "rack")))
    assert_leaders_wait_alone(cluster, service)


@pytest.mark.proves("An exclusive topology in pod templates binds only the leaders")
def test_an_exclusive_topology_of_the_pods_does_not_bind_the_workers(
    cluster: Cluster, namespace: str
) -> None:
    key = labels.LWS_EXCLUSIVE_TOPOLOGY
    refused(annotated(STORY, key, "rack"), "binds the leaders alone")
    add_racks(cluster, 3, 4)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_templates(annotate(key, "rack")))
    service.becomes(FULL)
    bound = {p["metadata"]["name"] for p in service.pods() if "affinity" in p["spec"]}
    assert bound == {"svc-decode-0-0", "svc-decode-1-0", "svc-prefill-0-0"}


@pytest.mark.proves("Several exclusive subgroups in a replica are never placed in a gang")
@pytest.mark.parametrize("where", [in_lws, in_templates])
def test_several_exclusive_subgroups_are_never_placed_in_a_gang(
    cluster: Cluster, namespace: str, where: Any
) -> None:
    key = labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY
    policy = {"subGroupSize": 2}
    several = inputs.service("svc", inputs.role("a", "worker", 1, 4, subGroupPolicy=policy))
    refused(annotated(several, key, "rack"), "several subgroups")
    add_racks(cluster, 4, 2)
    service = LiveService(cluster, namespace, several)
    service.apply(change=where(annotate(key, "rack")))
    service.becomes({"a-0": 0})

    single = inputs.service("one", inputs.role("a", "worker", 2, 2, subGroupPolicy=policy))
    alone = LiveService(cluster, namespace, annotated(single, key, "rack"))
    alone.apply()
    alone.becomes({"a-0": 2, "a-1": 2})


@pytest.mark.proves("The default scheduler starts parts of replicas")
def test_the_default_scheduler_tears_replicas(cluster: Cluster, namespace: str) -> None:
    strategy: dict[str, Any] = {"schedulerName": "default-scheduler"}
    refused(inputs.service("svc", *STORY["spec"]["roles"], **strategy), "does not support gangs")
    cluster.add_nodes(3)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_templates(lambda each: each["spec"].update(strategy)))
    cluster.wait(lambda: sum(service.bound().values()) == 3, message=service.bound)


@pytest.mark.proves("A role with another scheduler starts although its gang does not fit")
def test_a_role_with_another_scheduler_is_not_held_with_its_gang(
    cluster: Cluster, namespace: str
) -> None:
    other = edited(STORY, 0)
    other["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = "default-scheduler"
    refused(other, 'must be "volcano"')
    cluster.add_nodes(7)  # not enough for decode
    service = LiveService(cluster, namespace, STORY)
    change = in_templates(lambda e: e["spec"].update(schedulerName="default-scheduler"), "prefill")
    service.apply(change=change)
    service.becomes({**NOTHING, "prefill-0": 2})


@pytest.mark.proves("Pods with another group-name annotation leave the gang, which never starts")
def test_another_group_name_breaks_the_gang(cluster: Cluster, namespace: str) -> None:
    refused(annotated(STORY, labels.GROUP_NAME, "own"), "is set by fusioninfer-pulumi")
    cluster.add_nodes(10)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_templates(annotate(labels.GROUP_NAME, "own"), "prefill"))
    service.becomes(NOTHING)


@pytest.mark.proves("With another task-spec annotation the gang never starts")
def test_another_task_breaks_the_gang(cluster: Cluster, namespace: str) -> None:
    refused(annotated(STORY, labels.TASK_SPEC, "own"), "is set by fusioninfer-pulumi")
    cluster.add_nodes(10)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_templates(annotate(labels.TASK_SPEC, "own"), "prefill"))
    service.becomes(NOTHING)


@pytest.mark.proves("minMember below the sum of minTaskMember starts broken replicas")
def test_a_minimum_below_the_sum_of_the_tasks_tears_replicas(
    cluster: Cluster, namespace: str
) -> None:
    cluster.add_nodes(8)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=in_pod_group(lambda each: each["spec"].update(minMember=6)))
    cluster.wait(lambda: sum(service.bound().values()) == 8, message=service.bound)
    torn = {task: n for task, n in service.bound().items() if n not in (0, FULL[task])}
    assert torn, service.bound()


@pytest.mark.proves("minMember of all pods makes a partial gang all-or-nothing")
def test_a_partial_gang_with_all_pods_as_its_minimum_is_all_or_nothing(
    cluster: Cluster, namespace: str
) -> None:
    cluster.add_nodes(8)
    service = LiveService(cluster, namespace, PARTIAL)
    service.apply(change=in_pod_group(lambda each: each["spec"].update(minMember=10)))
    service.becomes(NOTHING)


@pytest.mark.proves("A minimum above a role's replicas never starts")
def test_a_minimum_above_the_replicas_never_starts(cluster: Cluster, namespace: str) -> None:
    refused(prefill_decode(minimum={"decode": 3}), "must be at most the role's replicas")

    def above(group: Object) -> None:
        group["spec"]["subGroupPolicy"][1]["minSubGroups"] = 3

    cluster.add_nodes(14)
    service = LiveService(cluster, namespace, PARTIAL)
    service.apply(change=in_pod_group(above))
    service.becomes(NOTHING)


@pytest.mark.proves("With a minimum of 0 for every role the PodGroup completes at once")
def test_a_minimum_of_nothing_is_completed_at_once(cluster: Cluster, namespace: str) -> None:
    refused(prefill_decode(minimum={"prefill": 0, "decode": 0}), "must be above 0")

    def nothing(group: Object) -> None:
        group["spec"]["minMember"] = 0
        for policy in group["spec"]["subGroupPolicy"]:
            policy["minSubGroups"] = 0

    service = LiveService(cluster, namespace, PARTIAL)
    service.apply(change=in_pod_group(nothing))
    service.becomes(NOTHING)
    group = service.pod_group() or {}
    assert group["status"]["phase"] == "Completed"


@pytest.mark.proves("A subgroup size below the replica's splits replicas")
def test_a_subgroup_smaller_than_its_replica_tears_replicas(
    cluster: Cluster, namespace: str
) -> None:
    def smaller(group: Object) -> None:
        group["spec"]["subGroupPolicy"][1]["subGroupSize"] = 2
        group["spec"]["minMember"] = 4

    cluster.add_nodes(8)
    service = LiveService(cluster, namespace, PARTIAL)
    service.apply(change=in_pod_group(smaller))
    cluster.wait(lambda: sum(service.bound().values()) == 8, message=service.bound)
    assert any(n not in (0, FULL[task]) for task, n in service.bound().items()), service.bound()


@pytest.mark.proves("Pods without resource requests do not count in the gang")
@pytest.mark.parametrize(("resources", "started"), [({}, 4), ({"requests": {"cpu": "1"}}, 0)])
def test_a_gang_does_not_wait_for_pods_without_requests(
    cluster: Cluster, namespace: str, resources: Object, started: int
) -> None:
    loose = prefill_decode()
    spec = loose["spec"]["roles"][0]["template"]["spec"]
    spec["containers"][0]["resources"] = resources
    spec["nodeSelector"] = {"no": "such-node"}
    if not resources:
        warned_of(loose, "no container requests resources")
    cluster.add_nodes(10)
    service = LiveService(cluster, namespace, loose)
    service.apply()
    service.becomes({"prefill-0": 0, "decode-0": started, "decode-1": started})
