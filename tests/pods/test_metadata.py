"""`podLabels` and `podAnnotations` are on all pods of a role; pod templates override them."""

from __future__ import annotations

from typing import Any

from routed import only, routed
from rows import each_row
from samples import container, nodes, plan_of, problems, rendered, role, service, template

Manifest = dict[str, Any]


def pod_metadata(manifest: Manifest) -> list[Manifest]:
    """Return the metadata of all pod templates of the LeaderWorkerSets."""
    templates = [
        item["spec"]["leaderWorkerTemplate"]
        for item in rendered(manifest)
        if item["kind"] == "LeaderWorkerSet"
    ]
    return [
        pods[name]["metadata"]
        for pods in templates
        for name in ("leaderTemplate", "workerTemplate")
        if name in pods
    ]


def test_template_label_overrides_role_and_service() -> None:
    user_template = template(metadata={"labels": {"stage": "template"}})
    labeled = role(
        template=user_template,
        podLabels={"stage": "role", "team": "role"},
        podAnnotations={"a": "role"},
    )
    manifest = service(
        labeled,
        podLabels={"stage": "service", "team": "service", "cost": "7"},
        podAnnotations={"a": "service", "b": "service"},
    )
    (metadata,) = pod_metadata(manifest)
    result = {key: metadata["labels"][key] for key in ("stage", "team", "cost")}
    assert result == {"stage": "template", "team": "role", "cost": "7"}
    assert metadata["annotations"] == {"a": "role", "b": "service"}


def test_leaders_and_workers_have_pod_labels() -> None:
    manifest = service(
        role(template=template(container(gpus=8)), multinode=nodes(2)), podLabels={"team": "a"}
    )
    result = pod_metadata(manifest)
    assert [metadata["labels"]["team"] for metadata in result] == ["a"] * 2


def test_generated_template_has_pod_labels() -> None:
    pod = {"name": "inference", "componentType": "worker", "accelerator": "cpu"}
    manifest = service(pod, model={"uri": "hf://Qwen/Qwen3-0.6B"}, podLabels={"team": "a"})
    (metadata,) = pod_metadata(manifest)
    assert metadata["labels"]["team"] == "a"


def test_picker_has_pod_metadata_of_service_and_role() -> None:
    manifest = routed(role())
    manifest["spec"] |= {"podLabels": {"team": "a", "cost": "7", "app": "chat"}}
    manifest["spec"]["roles"][0] |= {"podLabels": {"team": "routing"}, "podAnnotations": {"x": "y"}}
    deployment = only(manifest, "Deployment")["spec"]
    metadata = deployment["template"]["metadata"]
    assert metadata["labels"].items() >= {"team": "routing", "cost": "7"}.items()
    assert metadata["annotations"]["x"] == "y"
    assert set(deployment["selector"]["matchLabels"]) == {"app", "fusioninfer.io/component-type"}
    assert deployment["selector"]["matchLabels"].items() <= metadata["labels"].items()
    assert pod_metadata(manifest)[0]["labels"]["app"] == "chat"


def test_changed_pod_labels_change_only_the_roles_revision() -> None:
    def revisions(**fields: Any) -> list[str]:
        manifest = service(role("one", **fields), role("two"))
        return [planned.pods.revision for planned in plan_of(manifest).roles]

    before, after = revisions(), revisions(podLabels={"team": "a"})
    assert before[0] != after[0]
    assert before[1] == after[1]
    assert revisions(podLabels={}) == before


@each_row(
    ("at", "field", "key"),
    [
        ("service", "podLabels", "fusioninfer.io/role-name"),
        ("role", "podLabels", "leaderworkerset.sigs.k8s.io/worker-index"),
        ("role", "podAnnotations", "scheduling.k8s.io/group-name"),
        ("router", "podLabels", "app"),
    ],
)
def test_reserved_keys_are_rejected(at: str, field: str, key: str) -> None:
    manifest = routed(role())
    roles = manifest["spec"]["roles"]
    place, path = {
        "service": (manifest["spec"], ""),
        "router": (roles[0], "roles[0]."),
        "role": (roles[1], "roles[1]."),
    }[at]
    place[field] = {key: "x"}
    message = "is set by fusioninfer-pulumi or LeaderWorkerSet; remove it"
    shown = f".{key}" if key.isalpha() else f"[{key}]"
    assert f"{path}{field}{shown}: {message}" in problems(manifest)


def test_app_label_is_allowed_without_picker() -> None:
    (metadata,) = pod_metadata(service(role(podLabels={"app": "chat"})))
    assert metadata["labels"]["app"] == "chat"


def test_warm_up_job_has_pod_metadata_of_the_service() -> None:
    model = {"uri": "hf://a/b", "cache": {"storage": {"size": "1Gi"}, "warmUp": True}}
    pod = template(container(args=[]))
    manifest = service(
        role(template=pod), model=model, podLabels={"cost": "7"}, podAnnotations={"a": "b"}
    )
    metadata = only(manifest, "Job")["spec"]["template"]["metadata"]
    assert metadata == {"labels": {"cost": "7", "app": "model-warm-up"}, "annotations": {"a": "b"}}
