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


def test_priority_class_is_on_pod_group_and_pods() -> None:
    manifest = prefill_decode(**scheduling(priorityClassName="high"))
    assert rendered(manifest)[0]["spec"]["priorityClassName"] == "high"
    assert {
        pod_template["spec"]["priorityClassName"] for pod_template in pod_templates(manifest)
    } == {"high"}
    single = service(**scheduling(priorityClassName="high"))
    assert pod_templates(single)[0]["spec"]["priorityClassName"] == "high"


def test_queue_is_on_pod_group_or_pods() -> None:
    gang = prefill_decode(**scheduling(queue="research"))
    assert rendered(gang)[0]["spec"]["queue"] == "research"
    key = "scheduling.volcano.sh/queue-name"
    assert all(
        key not in pod_template["metadata"]["annotations"] for pod_template in pod_templates(gang)
    )
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


def test_explicit_scheduler_is_kept() -> None:
    manifest = prefill_decode(**scheduling(schedulerName="volcano-next"))
    assert problems(manifest) == []
    assert {pod_template["spec"]["schedulerName"] for pod_template in pod_templates(manifest)} == {
        "volcano-next"
    }


def test_pods_without_gang_keep_user_fields() -> None:
    manifest = prefill_decode(**scheduling(**OFF))
    assert kinds(manifest) == [
        "LeaderWorkerSet/svc-prefill-0",
        "LeaderWorkerSet/svc-decode-0",
        "LeaderWorkerSet/svc-decode-1",
        "Service/svc",
    ]
    for pod_template in pod_templates(manifest):
        assert "annotations" not in pod_template["metadata"]
        assert "schedulerName" not in pod_template["spec"]
