"""Gangs of the Kubernetes scheduler: PodGroups, capacity, and changes between schedulers."""

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
)

from fusioninfer_pulumi.checks.update_checks import RunningLws, check_gang_joins
from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus
from fusioninfer_pulumi.topology.gang import get_lws_gang_reference

EIGHT = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}


def native(**policy: Any) -> Any:
    return {"schedulingStrategy": {"gangPolicy": {"backend": "Native", **policy}}}


def with_strategy(**strategy: Any) -> Any:
    return {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}, **strategy}}


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_pod_group_counts_all_pods(layout: str) -> None:
    manifest = prefill_decode(
        {"multinode": nodes(2), "replicas": 2},
        layout=layout,
        **with_strategy(priorityClassName="high"),
    )
    objects = rendered(manifest)
    (group,) = of_kind(objects, "PodGroup")
    assert objects.index(group) < objects.index(of_kind(objects, "LeaderWorkerSet")[0])
    assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": plan_of(manifest).total_pods}},
        "priorityClassName": "high",
    }
    for pod in pod_templates(manifest):
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}
        assert pod["spec"]["schedulerName"] == "default-scheduler"
    for lws in of_kind(objects, "LeaderWorkerSet"):
        inner = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
        assert not any(
            "volcano" in key or "group-name" in key for key in inner.get("annotations", {})
        )


def test_each_serving_group_has_a_pod_group() -> None:
    objects = rendered(prefill_decode(groups=2, **native()))
    groups = {
        item["metadata"]["name"]: item["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for item in of_kind(objects, "PodGroup")
    }
    assert set(groups.values()) == {plan_of(prefill_decode(**native())).total_pods}
    named = {
        lws["metadata"]["labels"]["fusioninfer.io/group-index"]: lws["spec"][
            "leaderWorkerTemplate"
        ]["workerTemplate"]["spec"]["schedulingGroup"]["podGroupName"]
        for lws in of_kind(objects, "LeaderWorkerSet")
    }
    assert sorted(named.values()) == sorted(groups)


@pytest.mark.parametrize("more", [{}, native(mode="Off")])
def test_single_pods_have_no_gang(more: Any) -> None:
    manifest = service(role(), **(more or native()))
    assert "PodGroup" not in kinds(manifest)
    (pod,) = pod_templates(manifest)
    assert not {"schedulingGroup", "schedulerName"} & pod["spec"].keys()


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_capacity_table_is_all_or_nothing(layout: str) -> None:
    # What Kubernetes 1.37.1 starts is in e2e/test_native.py.
    pod = template({"name": "vllm", "image": "e:1", "command": ["/serve"], **EIGHT})
    manifest = prefill_decode(
        {"multinode": nodes(2, launcher="none"), "template": pod, "replicas": 1},
        {"multinode": nodes(4, launcher="none"), "template": pod, "replicas": 2},
        layout=layout,
        **native(),
    )
    rows = compute_capacity_for_gpus(plan_of(manifest), [80, 64, 48, 32, 16])
    assert [(row.gpus, *row.running.values(), row.status, row.exact) for row in rows] == [
        (80, 1, 2, "Full", True),
        *((gpus, 0, 0, "Blocked", True) for gpus in (64, 48, 32, 16)),
    ]


def test_change_from_volcano_to_native_is_a_gang_join() -> None:
    """The PodGroups have one name: what runs in Volcano's is in none of Kubernetes'."""
    manifests = {"Volcano": prefill_decode(), "Native": prefill_decode(**native())}
    references = {
        name: {
            get_lws_gang_reference(lws) for lws in of_kind(rendered(manifest), "LeaderWorkerSet")
        }
        for name, manifest in manifests.items()
    }
    plan = plan_of(manifests["Native"])
    assert plan.gang is not None
    assert references["Native"] == {plan.gang.reference}
    assert not references["Native"] & references["Volcano"]

    def running(backend: str) -> dict[str, RunningLws | None]:
        (reference,) = references[backend]
        return {
            lws.name: RunningLws(reference, role.nodes, 1, is_outdated=True)
            for role in plan.roles
            for lws in role.lws
        }

    assert check_gang_joins(plan, running("Native")) == []
    assert check_gang_joins(plan, running("Volcano"))


def test_diff_notes_that_a_larger_gang_holds_back_pods() -> None:
    pod = {"multinode": nodes(2)}
    two, three = (prefill_decode(pod, {"replicas": count}, **native()) for count in (2, 3))
    difference = compare(rendered(two), rendered(three))
    assert (
        "PodGroup minCount 4 -> 5: the gang is all-or-nothing; unless all 5 pods fit, "
        "replacement pods of running replicas stay pending"
    ) in difference.notes


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (native(mode="Off"), "gang scheduling switched on"),
        ({}, "pod annotations, scheduling changed"),
    ],
)
def test_diff_names_the_reason_why_pods_join_a_gang(before: Any, reason: str) -> None:
    old, new = (rendered(prefill_decode(**fields)) for fields in (before, native()))
    assert {effect.restart_reason for effect in compare(old, new).effects} == {reason}
