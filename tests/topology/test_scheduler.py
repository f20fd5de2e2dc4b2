"""Which scheduler, queue and priority pods get, with a gang and without."""

from __future__ import annotations

from samples import (
    container,
    kinds,
    pod_templates,
    prefill_decode,
    problems,
    rendered,
    role,
    scheduling,
    service,
    template,
)

OFF = {"gangPolicy": {"mode": "Off"}}


def test_priority_class_goes_on_the_pod_group_and_on_the_pods() -> None:
    manifest = prefill_decode(**scheduling(priorityClassName="high"))
    assert rendered(manifest)[0]["spec"]["priorityClassName"] == "high"
    assert {each["spec"]["priorityClassName"] for each in pod_templates(manifest)} == {"high"}
    single = service(**scheduling(priorityClassName="high"))
    assert pod_templates(single)[0]["spec"]["priorityClassName"] == "high"


def test_queue_is_named_by_the_pod_group_or_by_the_pods() -> None:
    gang = prefill_decode(**scheduling(queue="research"))
    assert rendered(gang)[0]["spec"]["queue"] == "research"
    key = "scheduling.volcano.sh/queue-name"
    assert all(key not in each["metadata"]["annotations"] for each in pod_templates(gang))
    loose = service(**scheduling(queue="research", schedulerName="volcano"))
    assert pod_templates(loose)[0]["metadata"]["annotations"] == {key: "research"}
    assert kinds(loose) == ["LeaderWorkerSet/svc-inference-0", "Service/svc"]


def test_queue_of_a_pod_template_takes_precedence() -> None:
    key = "scheduling.volcano.sh/queue-name"
    user_template = template(container(), metadata={"annotations": {key: "mine"}})
    strategy = scheduling(queue="research", schedulerName="volcano")
    manifest = service(role(template=user_template), **strategy)
    assert problems(manifest) == []
    assert pod_templates(manifest)[0]["metadata"]["annotations"] == {key: "mine"}


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
