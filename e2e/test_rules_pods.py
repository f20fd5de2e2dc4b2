"""Pod templates that the library rejects really have no pods, or lose what was asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from e2e.live import LiveService
from e2e.rejections import in_templates, rejected

PLAIN = inputs.service("svc", inputs.role("inference", "worker", gpus=1))
Edit = Callable[[Object], Any]


def first(template: Object) -> Object:
    """The first container."""
    container: Object = template["spec"]["containers"][0]
    return container


def written(edit: Edit) -> Object:
    """The service as a user would write it with the edit in its template."""
    manifest = copy.deepcopy(PLAIN)
    edit(manifest["spec"]["roles"][0]["template"])
    return manifest


LIMITS = {"nvidia.com/gpu": "1"}
MOUNT, DATA = {"name": "data", "mountPath": "/data"}, {"name": "data", "emptyDir": {}}
WITHOUT_PODS: dict[str, tuple[Edit, str]] = {
    "restart policy Never": (
        lambda t: t["spec"].update(restartPolicy="Never"), "must be one of Always"),
    "a fraction of a device": (
        lambda t: first(t).update(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        "whole number"),
    "requests other than limits": (
        lambda t: first(t).update(
            resources={"limits": LIMITS, "requests": {"nvidia.com/gpu": "2"}}),
        "must equal limits"),
    "requests without limits": (
        lambda t: first(t).update(resources={"requests": LIMITS}), "same amount in limits"),
    "a negative amount": (
        lambda t: first(t).update(resources={"limits": {"nvidia.com/gpu": "-1"}}), "at least 0"),
    "two containers of one name": (
        lambda t: t["spec"]["containers"].append({"name": "engine", "image": "b:1"}),
        "is in containers"),
    "a container name that is no label": (
        lambda t: first(t).update(name="My_Engine"), "DNS label"),
    "a container without an image": (lambda t: first(t).pop("image"), "image: "),
    "an image with a leading space": (lambda t: first(t).update(image=" a:1"), "image: "),
    "a port out of range": (
        lambda t: first(t).update(ports=[{"containerPort": 70000}]), "at most 65535"),
    "a mount of a volume that there is not": (
        lambda t: first(t).update(volumeMounts=[MOUNT]), "the pod has no volume"),
    "a volume with two sources": (
        lambda t: t["spec"].update(volumes=[{**DATA, "hostPath": {"path": "/data"}}]),
        "takes one source"),
    "two volumes of one name": (
        lambda t: t["spec"].update(volumes=[DATA, DATA]), "is in volumes"),
    "no container": (lambda t: t["spec"].update(containers=[]), "at least one container"),
    "a label value that is too long": (
        lambda t: t["metadata"]["labels"].update(team="x" * 64), "63"),
}  # fmt: skip


def with_metadata(edit: Edit) -> Edit:
    def both(template: Object) -> None:
        template.setdefault("metadata", {}).setdefault("labels", {})
        edit(template)

    return both


@pytest.mark.proves("Pod templates that the library rejects never get pods")
@pytest.mark.parametrize("case", WITHOUT_PODS)
def test_rejected_template_gets_no_pods(cluster: Cluster, namespace: str, case: str) -> None:
    edit, message = WITHOUT_PODS[case]
    rejected(written(with_metadata(edit)), message)
    service = LiveService(cluster, namespace, PLAIN)
    try:
        service.apply(change=in_templates(with_metadata(edit)))
    except ApiError:
        return  # rejected at once: nobody is left waiting
    cluster.wait(
        lambda: [
            event
            for event in cluster.list("v1/Event", namespace)
            if event["type"] == "Warning" and "Fail" in event["reason"]
        ],
        message=lambda: [e["message"] for e in cluster.list("v1/Event", namespace)],
    )
    assert service.pods() == []


@pytest.mark.proves("LeaderWorkerSet overwrites its own labels, or never becomes Available")
@pytest.mark.parametrize("key", ["name", "worker-index", "template-revision-hash", "group-index"])
def test_label_of_leader_worker_set_is_overwritten_or_breaks_availability(
    cluster: Cluster, namespace: str, key: str
) -> None:
    label = f"leaderworkerset.sigs.k8s.io/{key}"
    edit = with_metadata(lambda template: template["metadata"]["labels"].update({label: "5"}))
    rejected(written(edit), "is set by LeaderWorkerSet")
    cluster.add_nodes(1)
    service = LiveService(cluster, namespace, PLAIN)
    service.apply(change=in_templates(edit))
    cluster.wait(
        lambda: any(
            "readyReplicas" in (each or {}).get("status", {}) for each in service.lws().values()
        )
    )
    cluster.settle(10)
    lost = all(pod["metadata"]["labels"][label] != "5" for pod in service.pods())
    (role,) = service.status()["components"].values()
    assert lost or role["readyReplicas"] == 0
    assert lost == (key != "group-index")


@pytest.mark.proves("Overriding the library's labels breaks the gang")
def test_overridden_replica_index_breaks_gang(cluster: Cluster, namespace: str) -> None:
    key = "fusioninfer.io/replica-index"
    edit = with_metadata(lambda template: template["metadata"]["labels"].update({key: "0"}))
    rejected(written(edit), "is set by fusioninfer-pulumi")
    cluster.add_nodes(7)
    partial = inputs.prefill_decode(minimum={"prefill": 1, "decode": 1})
    service = LiveService(cluster, namespace, partial)
    service.apply(change=in_templates(edit))
    cluster.wait(lambda: len(service.pods()) == 10, message=service.pods)
    cluster.settle(10)
    # Eight decode pods are one subgroup of size four: what runs is not whole replicas.
    leaders = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in service.pods()}
    replicas = [sum(bool(n) for p, n in leaders.items() if p.startswith(f"svc-decode-{i}"))
                for i in range(2)]  # fmt: skip
    assert replicas not in ([4, 0], [0, 4]), leaders


@pytest.mark.proves("LeaderWorkerSet's webhook rejects a subgroup size that does not divide")
@pytest.mark.parametrize(
    "policy",
    [
        {"subGroupSize": 4},
        {"subGroupSize": 7},
        {"subGroupSize": 3, "subGroupPolicyType": "LeaderExcluded"},
    ],
)
def test_subgroup_size_that_does_not_divide_is_rejected_by_the_webhook(
    cluster: Cluster, namespace: str, policy: Object
) -> None:
    plan = inputs.plan_of(inputs.service("svc", inputs.role("inference", "worker", 1, 6)))
    for each in inputs.with_namespace(inputs.objects_of(plan), namespace):
        if each["kind"] == "LeaderWorkerSet":
            each["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = policy
            with pytest.raises(ApiError, match="subGroupSize"):
                cluster.apply([each], dry_run=True)
