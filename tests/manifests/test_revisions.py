"""Changes of a role's revision, which restart its pods."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import (
    container,
    listening,
    nodes,
    prefill_decode,
    rendered,
    role,
    service,
    template as pod,
)


def revisions(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the revision of each LeaderWorkerSet, which its pod templates must share."""
    result = {}
    for item in rendered(manifest):
        if item["kind"] == "LeaderWorkerSet":
            labels = [item["metadata"]["labels"]]
            inner = item["spec"]["leaderWorkerTemplate"]
            labels += [
                inner[key]["metadata"]["labels"]
                for key in ("leaderTemplate", "workerTemplate")
                if key in inner
            ]
            (result[item["metadata"]["name"]],) = {
                label["fusioninfer.io/revision"] for label in labels
            }
    return result


def test_revision_is_stable_across_machines_and_releases() -> None:
    # A new value restarts all pods of users who upgrade, so the change log must mention it.
    plain = service(role(template=pod(container(image="vllm/vllm-openai:v0.11.0"))))
    assert revisions(plain) == {"svc-inference-0": "f598ed1d3b"}


@each_row(
    "other",
    [
        service(role(replicas=3)),
        service(metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}}),
        service(metadata={"namespace": "elsewhere"}),
        service(role(), role("other")),
        service(role(multinode=nodes(1))),
        service(role(restartPolicy="None")),
        service(role(networkConfig={"subdomainPolicy": "Shared"})),
        service(schedulingStrategy={"gangPolicy": {"mode": "Off"}}),
    ],
)
def test_change_outside_of_pods_keeps_the_revision(other: dict[str, Any]) -> None:
    assert revisions(other)["svc-inference-0"] == revisions(service())["svc-inference-0"]


@each_row(
    "other",
    [
        service(role(template=pod(container(image="vllm/vllm-openai:v0.11.1")))),
        service(role(template=pod(container(args=["--model", "other"])))),
        service(role(template=pod(container(env=[{"name": "A", "value": "b"}])))),
        service(role(template=pod(metadata={"labels": {"team": "a"}}))),
        service(role(template=pod(metadata={"annotations": {"note": "a"}}))),
        service(role(template=pod(volumes=[{"name": "a", "emptyDir": {}}]))),
        service(listening("inference", 9000)),
        service(role(component_type="decoder")),
        service(schedulingStrategy={"priorityClassName": "high"}),
        service(schedulingStrategy={"schedulerName": "volcano"}),
        service(role(multinode=nodes(2))),
        service(role(), role("other", multinode=nodes(2))),
    ],
)
def test_change_of_pods_changes_the_revision(other: dict[str, Any]) -> None:
    assert revisions(other)["svc-inference-0"] != revisions(service())["svc-inference-0"]


def test_changed_role_keeps_revisions_of_other_roles() -> None:
    before = revisions(prefill_decode())
    after = revisions(prefill_decode({}, {"template": pod(container(image="other:1"))}))
    assert [name for name in before if before[name] != after[name]] == [
        "svc-decode-0",
        "svc-decode-1",
    ]


def test_changed_worker_template_changes_revision() -> None:
    def wide(image: str) -> dict[str, Any]:
        return service(
            role(
                template=None,
                multinode=nodes(2),
                leaderTemplate=pod(),
                workerTemplate=pod(container(image=image)),
            )
        )

    assert revisions(wide("a:1")) != revisions(wide("b:1"))
