"""The status of a service: phases and conditions derived from live objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from component.live import NEW, READY, ROLLING, Objects, group

from fusioninfer_pulumi import InferenceServiceArgs, ServicePlan, load, plan_service
from fusioninfer_pulumi.component.status import compute_status, is_ready

Story = Callable[[int], InferenceServiceArgs]


@pytest.fixture
def disaggregated(story: Story) -> ServicePlan:
    return plan_service(story(4))


@pytest.fixture
def partial(story: Story) -> Callable[..., ServicePlan]:
    """Return story 4 with minimum replicas for each role of its gang."""

    def plan(**minima: int) -> ServicePlan:
        roles = [role.model_dump(mode="json", by_alias=True, exclude_none=True)
                 for role in story(4).roles]  # fmt: skip
        (args,) = load(
            {
                "apiVersion": "fusioninfer.io/v1alpha1",
                "kind": "InferenceService",
                "metadata": {"name": "deepseek-r1-disagg"},
                "spec": {
                    "roles": roles,
                    "schedulingStrategy": {"gangPolicy": {"minRoleReplicas": minima}},
                },
            }
        )
        return plan_service(args)

    return plan


def lws(prefill: Any, *decode: Any) -> Objects:
    names = ("prefill-0", "decode-0", "decode-1")
    return {
        f"deepseek-r1-disagg-{name}": live
        for name, live in zip(names, (prefill, *decode), strict=True)
    }


def phase(name: str, **more: Any) -> Objects:
    return {"metadata": {}, "status": {"phase": name, **more}}


def scheduled(status: str) -> Objects:
    """Return a native PodGroup of Kubernetes."""
    condition = {"type": "PodGroupInitiallyScheduled", "status": status, "message": "no room"}
    return {"metadata": {}, "status": {"conditions": [condition]}}


def with_group(plan: ServicePlan, live: Objects, pod_group: Any) -> Objects:
    return {**live, plan.service: pod_group}


def status_of(plan: ServicePlan, live: Objects, pod_group: Any = None) -> dict[str, Any]:
    """Return the roles' phases, and status and reason of the conditions."""
    status = compute_status(plan, with_group(plan, live, pod_group))
    return {
        **{name: f"{item['phase']} {item['readyReplicas']}/{item['desiredReplicas']}"
           for name, item in status["components"].items()},
        **{condition["type"]: f"{condition['status']} {condition['reason']}"
           for condition in status["conditions"]},
    }  # fmt: skip


NO_FAILURE = "False InferenceServiceProcessing"
DONE = "True InferenceServiceProcessing"
PROGRESSING = "False InferenceServiceProcessing"

#: Description, LeaderWorkerSets, PodGroup, phases of prefill and decode, condition Active.
TABLE = [
    ("nothing was read", {}, None,
     "Unknown 0/1", "Unknown 0/2", "Unknown InferenceServiceCreating"),
    ("created, no controller looked yet", lws(NEW, NEW, NEW), {"metadata": {}, "status": None},
     "Pending 0/1", "Pending 0/2", PROGRESSING),
    ("gang waits for the queue", lws(ROLLING, ROLLING, ROLLING), phase("Pending"),
     "Pending 0/1", "Pending 0/2", "False GangNotScheduled"),
    ("gang waits for room", lws(ROLLING, ROLLING, ROLLING), phase("Inqueue"),
     "Pending 0/1", "Pending 0/2", "False GangNotScheduled"),
    ("Kubernetes' own gang waits for room", lws(ROLLING, ROLLING, ROLLING), scheduled("False"),
     "Pending 0/1", "Pending 0/2", "False GangNotScheduled"),
    ("Kubernetes' own gang was placed, pods start",
     lws(ROLLING, ROLLING, ROLLING), scheduled("True"),
     "Deploying 0/1", "Deploying 0/2", PROGRESSING),
    ("gang was placed, pods start", lws(ROLLING, ROLLING, ROLLING), phase("Running"),
     "Deploying 0/1", "Deploying 0/2", PROGRESSING),
    ("only prefill is ready", lws(READY, ROLLING, ROLLING), phase("Running"),
     "Running 1/1", "Deploying 0/2", PROGRESSING),
    ("one decode replica is missing", lws(READY, ROLLING, READY), phase("Running"),
     "Running 1/1", "Deploying 1/2", "True Partial"),
    ("all are ready", lws(READY, READY, READY), phase("Running"),
     "Running 1/1", "Running 2/2", "True InferenceServiceAvailable"),
    ("all are ready, the PodGroup's phase lags", lws(READY, READY, READY), phase("Inqueue"),
     "Running 1/1", "Running 2/2", "True InferenceServiceAvailable"),
    ("all were ready in an older spec",
     lws(group(generation=3), group(generation=3), group(generation=3)), phase("Running"),
     "Deploying 0/1", "Deploying 0/2", PROGRESSING),
    ("a rollout reached decode", lws(READY, group(generation=3), READY), phase("Running"),
     "Running 1/1", "Deploying 1/2", "True Partial"),
    ("a set is gone", lws(READY, READY, None), phase("Running"),
     "Running 1/1", "Deploying 1/2", "True Partial"),
    ("a role is gone", lws(None, READY, READY), phase("Running"),
     "Unknown 0/1", "Running 2/2", PROGRESSING),
]  # fmt: skip


@pytest.mark.parametrize(
    ("live", "pod_group", "prefill", "decode", "active"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_status_of_all_or_nothing_gang(
    disaggregated: ServicePlan, live: Any, pod_group: Any, prefill: str, decode: str, active: str
) -> None:
    assert status_of(disaggregated, live, pod_group) == {
        "prefill": prefill,
        "decode": decode,
        "Initialized": DONE if live else "Unknown InferenceServiceCreating",
        "Active": active,
        "Failed": NO_FAILURE,
    }


def test_active_condition_has_latest_scheduler_message(disaggregated: ServicePlan) -> None:
    conditions = [
        {"type": "Unschedulable", "message": "new", "lastTransitionTime": "2026-01-02T00:00:00Z"},
        {"type": "Unschedulable", "message": "old", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Scheduled", "message": "no", "lastTransitionTime": "2026-01-03T00:00:00Z"},
    ]
    live = lws(ROLLING, ROLLING, ROLLING)
    expected = compute_status(
        disaggregated, with_group(disaggregated, live, phase("Inqueue", conditions=conditions))
    )
    assert expected["conditions"][1]["message"] == "new"
    # Volcano leaves the condition in place when the gang runs.
    later = compute_status(
        disaggregated, with_group(disaggregated, live, phase("Running", conditions=conditions))
    )
    assert later["conditions"][1]["reason"] == "InferenceServiceProcessing"
    silent = compute_status(disaggregated, with_group(disaggregated, live, phase("Inqueue")))
    assert silent["conditions"][1]["message"] == "the PodGroup is Inqueue"


def test_status_of_partial_gang(partial: Callable[..., ServicePlan]) -> None:
    plan = partial(prefill=1, decode=1)
    part = status_of(plan, lws(READY, READY, ROLLING), phase("Running"))
    assert part["Active"] == "True Partial"
    assert status_of(plan, lws(READY, ROLLING, ROLLING), phase("Running"))["Active"] == PROGRESSING
    blocked = status_of(plan, lws(ROLLING, ROLLING, ROLLING), phase("Inqueue"))
    assert blocked["Active"] == "False GangNotScheduled"


def test_optional_role_does_not_affect_active(partial: Callable[..., ServicePlan]) -> None:
    plan = partial(prefill=0, decode=1)
    result = status_of(plan, lws(ROLLING, READY, ROLLING), phase("Running"))
    assert result["Active"] == "True Partial"
    assert result["prefill"] == "Deploying 0/1"
    assert status_of(plan, lws(READY, ROLLING, ROLLING), phase("Running"))["Active"] == PROGRESSING


def test_status_of_single_worker(story: Story) -> None:
    plan = plan_service(story(1))
    name = "qwen-inference-inference-0"
    assert status_of(plan, {name: READY}) == {
        "inference": "Running 1/1",
        "Initialized": DONE,
        "Active": "True InferenceServiceAvailable",
        "Failed": NO_FAILURE,
    }
    assert status_of(plan, {name: ROLLING})["inference"] == "Deploying 0/1"


def scaled_to_zero(story: Story, *roles: str) -> ServicePlan:
    args = story(4)
    changed = [
        role.model_copy(update={"replicas": 0}) if role.name in roles else role
        for role in args.roles
    ]
    return plan_service(args.model_copy(update={"roles": changed}))


def test_service_scaled_to_zero_is_inactive(story: Story) -> None:
    result = status_of(scaled_to_zero(story, "prefill", "decode"), {})
    assert result == {
        "prefill": "Running 0/0",
        "decode": "Running 0/0",
        "Initialized": DONE,
        "Active": "False Parked",
        "Failed": NO_FAILURE,
    }


def test_role_scaled_to_zero_does_not_affect_active(story: Story) -> None:
    plan = scaled_to_zero(story, "prefill")
    live = {f"deepseek-r1-disagg-decode-{index}": READY for index in range(2)}
    result = status_of(plan, live, phase("Running"))
    assert result["prefill"] == "Running 0/0"
    assert result["Active"] == "True InferenceServiceAvailable"
    nothing = status_of(plan, {})
    assert nothing["Initialized"] == "Unknown InferenceServiceCreating"
    assert nothing["Active"] == "Unknown InferenceServiceCreating"


def test_known_failures_set_failed_condition(disaggregated: ServicePlan) -> None:
    live = lws(READY, READY, READY)
    why = {"deepseek-r1-disagg-decode-1": "OOMKilled", "another-service-0": "no business of ours"}
    status = compute_status(disaggregated, with_group(disaggregated, live, phase("Running")), why)
    assert status["components"]["decode"]["phase"] == "Failed"
    assert status["components"]["prefill"]["phase"] == "Running"
    assert status["conditions"][2] == {
        "type": "Failed",
        "status": "True",
        "reason": "InferenceServiceFailed",
        "message": "deepseek-r1-disagg-decode-1: OOMKilled",
    }


READY_TABLE = [
    ("available in this generation", READY, True),
    ("numbers off the wire", group(ready=1.0, generation=2.0, observed=2.0), True),
    ("LeaderWorkerSet before 0.9 observes nothing", group(observed=None), True),
    ("generation unknown", group(generation=None), True),
    ("observed later than read", group(generation=1), True),
    ("condition of an older spec", group(generation=3), False),
    ("status of an older spec", group(generation=3, observed=None, own=2), False),
    ("the condition's own generation wins", group(generation=2, own=1), True),
    ("not available", group("False"), False),
    ("availability unknown", group("Unknown"), False),
    ("available without a ready group", group(ready=0), False),
    ("no count of ready groups", group(ready=None), False),
    ("no condition yet", group(None), False),
    ("no status yet", NEW, False),
    ("no metadata", {"status": READY["status"]}, True),
    ("all of several", {**group(ready=3), "spec": {"replicas": 3}}, True),
    ("some of several", {**group(ready=2), "spec": {"replicas": 3}}, False),
    ("one without a number", {**READY, "spec": {}}, True),
    ("does not exist", None, False),
    ("empty", {}, False),
]


@pytest.mark.parametrize(("live", "ready"), [row[1:] for row in READY_TABLE],
                         ids=[row[0] for row in READY_TABLE])  # fmt: skip
def test_lws_readiness_by_status(live: Any, ready: bool) -> None:
    assert is_ready(live) is ready
