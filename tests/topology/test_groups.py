"""Serving groups: copies of all roles, each with its own gang."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from samples import Manifest, nodes, plan_of, prefill_decode, problems, rendered, role, service

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.cli.plan_output import PlanView, build_plan_json
from fusioninfer_pulumi.component.status import compute_status
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus

STORY = {
    "prefill": {"replicas": 1, "multinode": nodes(2, launcher="none")},
    "decode": {"replicas": 2, "multinode": nodes(4, launcher="none")},
}


def grouped(groups: int | None, minimum: Any = None, **spec: Any) -> Manifest:
    """Return a smaller story 4 with serving groups."""
    more = {} if groups is None else {"groups": groups}
    policy = {} if minimum is None else {"gangPolicy": {"minRoleReplicas": minimum}}
    return prefill_decode(**STORY, schedulingStrategy=policy, **more, **spec)


def by_name(manifest: Manifest) -> dict[str, Manifest]:
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in rendered(manifest)}


def test_single_group_differs_from_plain_service_in_names_only() -> None:
    renamed = json.dumps(list(rendered(grouped(None))))
    for kept in ("prefill-0", "decode-0", "decode-1"):
        renamed = renamed.replace(f'"name": "svc-{kept}"', f'"name": "svc-0-{kept}"')
    wanted = json.loads(renamed)
    label = {"fusioninfer.io/group-index": "0"}
    for item in wanted:
        if item["kind"] == "PodGroup":
            item["metadata"]["name"] = "svc-0"
            item["metadata"]["labels"] |= label
        elif item["kind"] == "LeaderWorkerSet":
            item["metadata"]["labels"] |= label
            for key in ("leaderTemplate", "workerTemplate"):
                pod = item["spec"]["leaderWorkerTemplate"][key]["metadata"]
                pod["labels"] |= label
                pod["annotations"]["scheduling.k8s.io/group-name"] = "svc-0"
    assert list(rendered(grouped(1))) == wanted


def test_added_group_adds_objects_and_changes_no_existing_ones() -> None:
    for before, after in ((1, 2), (2, 3)):
        old, new = by_name(grouped(before)), by_name(grouped(after))
        assert new.items() >= old.items()
        added = {name.partition("/")[2].split("-")[1] for name in set(new) - set(old)}
        assert added == {str(before)}


@pytest.mark.parametrize("minimum", [None, {"prefill": 1, "decode": 1}])
def test_gang_minimum_counts_one_group(minimum: Any) -> None:
    whole = by_name(grouped(None, minimum))["PodGroup/svc"]["spec"]
    objects = by_name(grouped(3, minimum))
    assert [objects[f"PodGroup/svc-{group}"]["spec"] for group in range(3)] == [whole] * 3


def test_excessive_replicas_are_rejected_before_planning() -> None:
    started = time.process_time()
    # The rest of the document is still checked.
    findings = problems(service(role(replicas=1000), role("lone", template={}), groups=10_000))
    assert time.process_time() - started < 2  # planning so many replicas takes minutes
    assert findings == [
        "roles[0].replicas: must be at most 10000 over all groups, got 10000 x 1000",
        "roles[1].template.spec: is required: a mapping",
    ]


def collisions(*manifests: Manifest) -> list[str]:
    plans = plan_services([args for manifest in manifests for args in load(manifest)])
    return [str(finding) for plan in plans for finding in plan.findings
            if finding.severity is Severity.ERROR]  # fmt: skip


def test_group_name_collision_is_rejected() -> None:
    result = collisions(grouped(1), {**grouped(None), "metadata": {"name": "svc-0"}})
    assert result[0] == (
        'metadata.name: PodGroup "svc-0" would also belong to group 0 of service svc; rename one '
        "of them"
    )
    assert any('LeaderWorkerSet "svc-0-prefill-0"' in finding for finding in result)
    assert collisions(grouped(1), {**grouped(None), "metadata": {"name": "svc-1"}}) == []
    assert collisions(grouped(2), {**service(), "metadata": {"name": "svc-0"}}) == []


def test_plan_lists_the_gangs_of_the_groups() -> None:
    plan = plan_of(grouped(2))
    result = build_plan_json(PlanView(plan, compute_capacity_for_gpus(plan, [0])))
    assert result["groups"] == 2
    assert result["gang"] is None
    (first, second) = result["gangs"]
    assert first == {
        "group": 0,
        "podGroup": "svc-0",
        "minMember": 10,
        "minTaskMember": {"prefill-0": 2, "decode-0": 4, "decode-1": 4},
        "subGroupPolicy": None,
        "minimumGpus": 0,
    }
    assert second == {**first, "group": 1, "podGroup": "svc-1"}
    assert [(item["name"], item["replicas"]) for item in result["roles"]] == [
        ("prefill", 2), ("decode", 4),
    ]  # fmt: skip
    without = build_plan_json(PlanView(plan_of(grouped(None))))
    assert without["gang"]["podGroup"] == "svc"
    assert not {"groups", "gangs"} & set(without)


READY = {
    "metadata": {"generation": 1},
    "status": {
        "readyReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "observedGeneration": 1}],
    },
}
WAITING = {"metadata": {"generation": 1}, "status": {"conditions": [{"type": "Progressing"}]}}


def test_status_names_the_active_group() -> None:
    plan = plan_of(grouped(2))
    live: dict[str, Any] = {
        item.name: READY if item.group == 0 else WAITING
        for plan_role in plan.roles
        for item in plan_role.lws
    }
    live["svc-0"] = {"status": {"phase": "Running"}}
    waits = {"type": "Unschedulable", "message": "10 pods wait", "lastTransitionTime": "1"}
    live["svc-1"] = {"status": {"phase": "Inqueue", "conditions": [waits]}}
    status = compute_status(plan, live)
    active = status["conditions"][1]
    assert (active["status"], active["reason"]) == ("True", "Partial")
    assert active["message"] == "ready: prefill 1/2, decode 2/4"
    assert {name: item["phase"] for name, item in status["components"].items()} == {
        "prefill": "Deploying", "decode": "Deploying",
    }  # fmt: skip
    assert {
        index: (item["active"], item["message"]) for index, item in status["groups"].items()
    } == {"0": (True, "ready: prefill 1/1, decode 2/2"), "1": (False, "10 pods wait")}
    assert status["groups"]["1"]["components"]["decode"]["phase"] == "Pending"


def test_groups_without_a_ready_role_are_inactive() -> None:
    # A prefill pod of one group and decode pods of another are not paired.
    plan = plan_of(grouped(2))
    live: dict[str, Any] = dict.fromkeys(
        ("svc-0-prefill-0", "svc-1-decode-0", "svc-1-decode-1"), READY
    )
    status = compute_status(plan, live)
    assert status["conditions"][1]["status"] == "False"
    assert not any(group["active"] for group in status["groups"].values())
    everything = {item.name: READY for one in plan.roles for item in one.lws}
    assert compute_status(plan, everything)["conditions"][1]["reason"] == (
        "InferenceServiceAvailable"
    )
    assert "groups" not in compute_status(plan_of(grouped(None)), everything)
