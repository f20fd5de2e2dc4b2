"""Which scheduler, queue and priority pods get, with a gang and without."""

from __future__ import annotations

from typing import Any

import pytest
from samples import (
    kinds,
    pod_templates,
    prefill_decode,
    problems,
    rendered,
    role,
    scheduling,
    service,
    template,
    warnings,
)

OFF = {"gangPolicy": {"mode": "Off"}}
NO_GANG = "these pods are not gang-scheduled (gangPolicy.mode: On turns it on)"


def test_priority_class_goes_on_the_pod_group_and_on_the_pods() -> None:
    manifest = prefill_decode(**scheduling(priorityClassName="high"))
    assert rendered(manifest)[0]["spec"]["priorityClassName"] == "high"
    assert {each["spec"]["priorityClassName"] for each in pod_templates(manifest)} == {"high"}
    single = service(**scheduling(priorityClassName="high"))
    assert pod_templates(single)[0]["spec"]["priorityClassName"] == "high"


def test_pod_template_may_not_contradict_the_service() -> None:
    own = service(
        role(template=template(priorityClassName="low", schedulerName="mine")),
        **scheduling(priorityClassName="high", schedulerName="volcano"),
    )
    assert problems(own) == [
        (
            'roles[0].template.spec.schedulerName: must be "volcano" like the service\'s, or '
            "absent; "
            'got "mine"'
        ),
        (
            'roles[0].template.spec.priorityClassName: must be "high" like the service\'s, or '
            "absent; "
            'got "low"'
        ),
    ]
    same = service(
        role(template=template(priorityClassName="high", schedulerName="volcano")),
        **scheduling(priorityClassName="high", schedulerName="volcano"),
    )
    assert problems(same) == []


def test_queue_is_named_by_the_pod_group_or_by_the_pods() -> None:
    gang = prefill_decode(**scheduling(queue="research"))
    assert rendered(gang)[0]["spec"]["queue"] == "research"
    key = "scheduling.volcano.sh/queue-name"
    assert all(key not in each["metadata"]["annotations"] for each in pod_templates(gang))
    loose = service(**scheduling(queue="research", schedulerName="volcano"))
    assert pod_templates(loose)[0]["metadata"]["annotations"] == {key: "research"}
    assert kinds(loose) == ["LeaderWorkerSet/svc-inference-0", "Service/svc"]


def test_queue_of_a_pod_template_is_not_overwritten_in_silence() -> None:
    key = "scheduling.volcano.sh/queue-name"
    own = role(template=template(metadata={"annotations": {key: "mine"}}))
    assert problems(service(own, **scheduling(queue="research", schedulerName="volcano"))) == [
        (
            f'roles[0].template.metadata.annotations[{key}]: must be "research" like '
            'schedulingStrategy.queue, or absent; got "mine"'
        )
    ]
    assert problems(service(own, **scheduling(queue="mine", schedulerName="volcano"))) == []
    assert problems(service(own)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"gangPolicy": {"minRoleReplicas": {}, "minResources": True}},
            [
                "gangPolicy.minRoleReplicas: has no effect: " + NO_GANG,
                "gangPolicy.minResources: has no effect: " + NO_GANG,
            ],
        ),
        (
            {"queue": "research"},
            [
                (
                    "queue: has no effect: queues belong to Volcano, and these pods use another "
                    "scheduler"
                )
            ],
        ),
        ({"queue": "research", "schedulerName": "volcano"}, []),
        ({"schedulerName": "default-scheduler"}, []),
    ],
)
def test_field_without_effect_is_a_warning(fields: dict[str, Any], expected: list[str]) -> None:
    assert warnings(service(**scheduling(**fields))) == [
        f"warning: schedulingStrategy.{each}" for each in expected
    ]


def test_another_scheduler_is_used_as_given() -> None:
    manifest = prefill_decode(**scheduling(schedulerName="volcano-next"))
    assert problems(manifest) == []
    assert {each["spec"]["schedulerName"] for each in pod_templates(manifest)} == {"volcano-next"}


def test_without_a_gang_the_pods_are_as_the_user_wrote_them() -> None:
    manifest = prefill_decode(**scheduling(**OFF))
    assert kinds(manifest) == [
        "LeaderWorkerSet/svc-prefill-0",
        "LeaderWorkerSet/svc-decode-0",
        "LeaderWorkerSet/svc-decode-1",
        "Service/svc",
    ]
    for each in pod_templates(manifest):
        assert "annotations" not in each["metadata"]
        assert "schedulerName" not in each["spec"]
