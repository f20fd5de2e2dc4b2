"""Objects that services name, and that somebody else makes, against what is known of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.prerequisites._check import (
    check_named,
    named_objects,
)
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, _Reader
from fusioninfer_pulumi.component.prerequisites._table import (
    DEVICE_CLASS,
    PRIORITY_CLASS,
    QUEUE,
    NamedObject,
)
from tests import samples

CLAIM = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "count": 8}
SPEC = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "nic.example.com"}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "big.example.com"}]},
        ]
    }
}


def plan(name: str = "qwen", *, pod: Any = None, scheduling: Any = None, **role: Any) -> Any:
    template = samples.template(samples.container(), **(pod or {}))
    spec: dict[str, Any] = {
        "roles": [samples.role("serve", "worker", template=template, **role)],
        "schedulingStrategy": scheduling or {},
    }
    return plan_service(InferenceServiceArgs.model_validate(spec), name)


def told(*plans: Any, **there: bool) -> list[str]:
    """What is said where an object is there, or is not, by the first word of its name."""
    named = {
        item: there[item.name.partition(".")[0]]
        for item in named_objects(plans)
        if item.name.partition(".")[0] in there
    }
    return [str(finding) for finding in check_named(plans, ClusterFacts(named=named))]


def test_device_classes_that_are_not_there_are_named_with_who_needs_them() -> None:
    plans = (
        plan(resourceClaims=[CLAIM]),
        plan("other", resourceClaims=[CLAIM, {"name": "x", "spec": SPEC}]),
    )
    assert named_objects(plans) == {
        (DEVICE_CLASS, None, "gpu.nvidia.com"): ["qwen", "other"],
        (DEVICE_CLASS, None, "nic.example.com"): ["other"],
        (DEVICE_CLASS, None, "big.example.com"): ["other"],
    }
    (found,) = told(*plans, gpu=False, nic=True)
    assert "there is no DeviceClass gpu.nvidia.com; qwen, other need it: install the dri" in found
    assert not found.startswith("warning")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (plan(), {}),
        (
            plan(scheduling={"priorityClassName": "high"}),
            {(PRIORITY_CLASS, None, "high"): ["qwen"]},
        ),
        (plan(pod={"priorityClassName": "own"}), {(PRIORITY_CLASS, None, "own"): ["qwen"]}),
        (
            plan(multinode={"nodeCount": 2}, scheduling={"queue": "team"}),
            {(QUEUE, None, "team"): ["qwen"]},
        ),
        (
            plan(scheduling={"queue": "team", "schedulerName": "volcano"}),
            {(QUEUE, None, "team"): ["qwen"]},
        ),
        # Nobody reads it: the plan says so.
        (plan(scheduling={"queue": "team"}), {}),
    ],
    ids=["none", "priority", "a pod's priority", "gang", "volcano's pods", "no volcano"],
)
def test_what_is_named(given: Any, wanted: Any) -> None:
    assert named_objects([given]) == wanted


def test_classes_and_queues_that_are_not_there_are_warnings() -> None:
    scheduling = {"queue": "team", "priorityClassName": "high"}
    given = plan(multinode={"nodeCount": 2}, scheduling=scheduling)
    assert told(given, team=True, high=True) == []
    assert told(given) == []  # whoever may not ask is told nothing
    high, team = told(given, team=False, high=False)
    assert high == (
        "warning: Priority: there is no PriorityClass high; qwen needs it: no pod is admitted "
        "without it; create it, unless this program does first"
    )
    assert team.startswith("warning: Volcano: there is no Queue team; qwen needs it: no pod is ")


@pytest.mark.parametrize(
    ("apis", "answer", "wanted"),
    [
        ({"scheduling.volcano.sh": frozenset({"v1beta1"})}, {"kind": "Queue"}, True),
        ({"scheduling.volcano.sh": frozenset({"v1beta1"})}, None, False),
        ({"scheduling.volcano.sh": frozenset({"v1beta1"})}, "refused", None),
        # Volcano itself is missing: its definitions are told, not its objects.
        ({}, None, None),
        (None, None, None),
    ],
)
def test_an_object_is_looked_for_by_name(apis: Any, answer: Any, wanted: bool | None) -> None:
    asked: list[Any] = []

    def get(what: str, _call: Any, *given: Any) -> Any:
        asked.append((what, given))
        return answer

    custom = SimpleNamespace(get_cluster_custom_object=None)
    client = SimpleNamespace(CustomObjectsApi=lambda _: custom)
    api: Any = SimpleNamespace(client=client, connection=None, get=get)
    assert _Reader(api).has(NamedObject(QUEUE, None, "team"), apis) is wanted
    path = ("scheduling.volcano.sh", "v1beta1", "queues", "team")
    assert asked == ([("Queue team", path)] if apis else [])
