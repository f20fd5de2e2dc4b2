"""Reasons of failures, derived from objects of real components and from tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from component.diagnosed import SET, pod
from rows import each_row

from fusioninfer_pulumi.component.diagnosis import (
    PodSnapshot,
    describe_pod_problem,
    explain_gang,
    explain_lws,
    explain_queue,
    is_lws_explained,
)

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnosis"
CASES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


@each_row("name", CASES)
def test_recorded_objects_have_the_recorded_explanations(name: str) -> None:
    """`e2e/test_diagnosis.py --write-transcripts` records the objects."""
    case = yaml.safe_load(CASES[name].read_text(encoding="utf-8"))
    seen = PodSnapshot(**case["snapshot"])
    assert explain_lws([SET], seen) == case["explanations"]["set"]
    assert explain_gang(seen) == case["explanations"]["gang"]
    assert is_lws_explained(SET, seen)


def test_every_failure_case_is_recorded() -> None:
    assert set(CASES) == {"crashing", "evicted", "gang", "no-room", "refused", "unpullable"}


def container(**status: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "vllm", "ready": False, **status}]}


KILLED = {"exitCode": 137, "reason": "OOMKilled"}


@each_row(
    ("findings", "messages"),
    [
        (pod(conditions=[{"type": "Ready", "status": "True"}]), None),
        (pod(phase="Pending"), "phase Pending, pulling images or mounting volumes"),
        (pod(), "phase unknown, not ready"),
        (pod(phase="Running", **container(state={"running": {}})),
         "container vllm: running but not ready"),
        (pod(phase="Pending", **container(state={"waiting": {"reason": "ContainerCreating"}})),
         "phase Pending, pulling images or mounting volumes"),
        (pod(**container(state={"waiting": {"reason": "ErrImagePull", "message": "no\n  such"}})),
         "container vllm: ErrImagePull: no such"),
        (pod(**container(state={"terminated": KILLED})),
         "container vllm: exit code 137 (OOMKilled)"),
        (pod(**container(state={"running": {}}, lastState={"terminated": KILLED}, restartCount=3)),
         "container vllm: exit code 137 (OOMKilled), restarted 3 times"),
        (pod(**container(state={"terminated": {"exitCode": 1, "message": "x" * 400}})),
         f"container vllm: exit code 1: {'x' * 299}…"),
        (pod(initContainerStatuses=[{"name": "init", "state": {"terminated": {"exitCode": 0}}}]),
         "phase unknown, not ready"),
        (pod(node=None), "not scheduled"),
        (pod(node=None, conditions=[{"type": "PodScheduled", "status": "False",
                                     "reason": "SchedulingGated", "message": "a gate"}]),
         "not scheduled, SchedulingGated: a gate"),
    ],
)  # fmt: skip
def test_pod_status_has_its_problem(findings: Any, messages: str | None) -> None:
    assert describe_pod_problem(findings, []) == messages


def event(message: str, *, kind: str = "Pod", name: str = "svc-inference-0-0", at: str = "") -> Any:
    about = {"kind": kind, "name": name}
    return {"metadata": {}, "involvedObject": about, "reason": "Why", "message": message,
            "lastTimestamp": at}  # fmt: skip


def test_pod_problem_has_two_latest_distinct_events() -> None:
    expected = {"old": "1", "new": "3", "mid": "2"}
    events = [event(text, at=at) for text, at in expected.items()]
    events += [event("new", at="2"), event("other", name="b")]
    assert describe_pod_problem(pod(phase="Pending"), events) == "Why: new; Why: mid"


def test_pods_with_same_reason_share_a_line() -> None:
    pods = [pod(f"svc-inference-0-{index}", phase="Pending") for index in range(4)]
    pods.append(pod("svc-inference-1-0", phase="Failed"))
    messages = explain_lws([SET], PodSnapshot(pods))
    reason = "phase Pending, pulling images or mounting volumes"
    assert messages == [f"pod svc-inference-0-0 and 3 more: {reason}"]


def test_lws_without_pods_shows_controller_events() -> None:
    result = [event("denied", kind="StatefulSet", name="svc-inference-0-1"),
            event("other", kind="StatefulSet", name="svc-inference-0-x"),
            event("crash", kind="LeaderWorkerSet", name=SET)]  # fmt: skip
    assert explain_lws([SET], PodSnapshot(events=result)) == [
        f"LeaderWorkerSet {SET}: Why: crash",
        "StatefulSet svc-inference-0-1: Why: denied",
    ]
    assert explain_lws([SET], PodSnapshot()) == [f"{SET} has no pods"]


def group(phase: str | None, *conditions: Any) -> dict[str, Any]:
    return {"metadata": {"name": "svc"}, "status": {"phase": phase, "conditions": conditions}}


def test_normal_recreate_group_event_is_not_a_reason() -> None:
    about = {"involvedObject": {"kind": "LeaderWorkerSet", "name": SET}, "metadata": {}}
    for kind, enough in (("Normal", False), ("Warning", True)):
        event = {**about, "type": kind, "reason": "RecreateGroup", "message": "it did restart"}
        assert is_lws_explained(SET, PodSnapshot(events=[event])) is enough


def test_volcano_condition_explains_gang() -> None:
    # Volcano keeps one condition of each type.
    new = {"type": "Unschedulable", "status": "True", "message": "no room"}
    waiting = [pod(node=None)]
    assert explain_gang(PodSnapshot(waiting, pod_groups=[group("Pending", new)])) == [
        "PodGroup svc: no room"
    ]
    assert explain_gang(PodSnapshot(waiting, pod_groups=[group(None)])) == [
        "PodGroup svc: the gang is not scheduled"
    ]
    # Volcano does not remove the condition.
    assert explain_gang(PodSnapshot(waiting, pod_groups=[group("Running", new)])) == []
    assert explain_gang(PodSnapshot([pod()], pod_groups=[group("Pending", new)])) == []


def test_native_condition_explains_gang() -> None:
    waiting = [pod(node=None)]

    def explain(**condition: str) -> list[str]:
        conditions = [{"type": "PodGroupInitiallyScheduled", **condition}] if condition else []
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        native = {"metadata": {"name": "svc"}, "spec": spec, "status": {"conditions": conditions}}
        return explain_gang(PodSnapshot(waiting, pod_groups=[native]))

    assert explain(status="False", message="no room") == ["PodGroup svc: no room"]
    assert explain() == ["PodGroup svc: the gang is not scheduled"]
    # The condition stays true, even if the gang lacks pods again.
    assert explain(status="True") == []


def workload(owner: str, **condition: str) -> dict[str, Any]:
    metadata = {"name": f"leaderworkerset-{owner}-0", "ownerReferences": [{"name": owner}]}
    return {
        "metadata": metadata,
        "status": {"conditions": [{"type": "QuotaReserved", **condition}]},
    }


def test_kueue_condition_explains_waiting_replicas() -> None:
    message = "couldn't assign flavors to pod set leader: insufficient unused quota"
    seen = PodSnapshot(
        workloads=[
            workload(SET, status="False", message=message),
            workload("svc-inference-1", status="False", message=message),
            workload("svc-inference-2", status="True", message="admitted"),
            workload("other-0", status="False", message=message),
            {"metadata": {"name": "new"}},
        ]
    )
    names = [SET, "svc-inference-1", "svc-inference-2"]
    assert explain_queue(names, seen) == [
        f"Kueue has not admitted LeaderWorkerSet {SET} and 1 more: {message}"
    ]
