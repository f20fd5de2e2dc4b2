"""Objects of features as children: dependencies, options and names."""

from __future__ import annotations

from typing import Any

import pulumi
from pd import pair
from samples import container, role, service, template

from fusioninfer_pulumi import InferenceService

JOB = {"timeout": "30m"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}
AUTOSCALING = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": 5}]}
SET = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def test_lws_depend_on_sidecar_service_account(engine: Any) -> None:
    more = {"kvTransfer": {"sidecar": {"ssrfProtection": True}}}
    manifest = pair(decode_role=more)
    deployment = engine.run(lambda: InferenceService("svc", manifest))
    rights = {
        child.request.type.rpartition(":")[2]: child.urn
        for child in deployment.children
        if child.request.name == "svc-sidecar"
    }
    assert set(rights) == {"ServiceAccount", "Role", "RoleBinding"}
    needed = {rights["ServiceAccount"], rights["RoleBinding"]}
    assert needed <= set(deployment["svc-decode-0"].request.dependencies)


def test_sidecar_image_may_be_output(engine: Any) -> None:
    def program() -> None:
        image = pulumi.Output.from_input("registry.example.com/sidecar:1")
        more = {"kvTransfer": {"sidecar": {"image": image}}}
        InferenceService("svc", pair(decode_role=more))

    inputs = engine.run(program)["svc-decode-0"].inputs
    body = inputs["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert body["initContainers"][0]["image"] == "registry.example.com/sidecar:1"


def spec(**cache: Any) -> dict[str, Any]:
    pod = template(container(args=None))
    model = {"uri": "hf://Qwen/Qwen3-8B", "cache": {**cache, "job": JOB, "warmUp": True}}
    result: dict[str, Any] = service(role(template=pod), model=model)["spec"]
    return result


def test_lws_depend_on_warm_up_job_and_job_on_claim(engine: Any) -> None:
    result = engine.run(lambda: InferenceService("app", spec(storage={"size": "1Gi"})))
    by_type = {child.request.type.rpartition(":")[2]: child for child in result.children}
    claim, job, lws = (by_type[kind] for kind in
                        ("PersistentVolumeClaim", "Job", "LeaderWorkerSet"))  # fmt: skip
    assert claim.urn in job.request.dependencies
    assert {claim.urn, job.urn} <= set(lws.request.dependencies)
    assert job.request.customTimeouts.create == "1800s"
    # The claim may be bound only by its first pod. The provider waits for the Job.
    annotations = claim.inputs["metadata"]["annotations"]
    assert annotations == {"pulumi.com/skipAwait": "true"}
    assert "annotations" not in job.inputs["metadata"]
    assert job.request.type == "kubernetes:batch/v1:Job"
    assert claim.request.type == "kubernetes:core/v1:PersistentVolumeClaim"
    assert job.request.name.startswith("app-model-")


def test_lws_depend_on_image_pulls(engine: Any) -> None:
    pods = {
        "template": None,
        "leaderTemplate": template(container(), nodeSelector={"disk": "ssd"}, tolerations=[GPU]),
        "workerTemplate": template(container()),
        "multinode": {"nodeCount": 2, "launcher": "none"},
    }
    manifest = service(role(**pods), role("b"), rollout={"pullImages": True})
    result = engine.run(lambda: InferenceService("app", manifest["spec"]))
    # Leader and worker of the first role have different node selectors.
    names = ("app-b-images-0", "app-inference-images-0", "app-inference-images-1")
    pulls = [result[name] for name in names]
    specs = [child.inputs["spec"]["template"]["spec"] for child in pulls]
    placements = [(spec.get("nodeSelector"), spec.get("tolerations")) for spec in specs]
    assert placements == [(None, None), ({"disk": "ssd"}, [GPU]), (None, None)]
    assert {spec["containers"][0]["image"] for spec in specs} == {container()["image"]}
    assert all("limits" not in spec["containers"][0]["resources"] for spec in specs)
    assert {child.urn for child in pulls} <= set(result["app-b-0"].request.dependencies)
    assert {child.request.customTimeouts.create for child in pulls} == {"45m"}


def test_existing_claim_is_not_registered(engine: Any) -> None:
    result = engine.run(lambda: InferenceService("app", spec(claimName="shared")))
    kinds = [child.request.type.rpartition(":")[2] for child in result.children]
    assert sorted(kinds) == ["Job", "LeaderWorkerSet", "Service"]


def deployed(engine: Any, *, scaled: bool) -> Any:
    user_container = container(ports=[{"name": "http", "containerPort": 8000}])
    more = {"autoscaling": AUTOSCALING} if scaled else {}
    result = role(template=template(user_container), **more)
    manifest = service(result, layout="PerRole", disruptionBudget={}, monitoring={})
    return engine.run(lambda: InferenceService("svc", manifest) and None)


def test_logical_names_are_unique(engine: Any) -> None:
    deployment = deployed(engine, scaled=True)
    assert {
        ("kubernetes:policy/v1:PodDisruptionBudget", "svc-inference"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "svc-inference"),
        ("kubernetes:monitoring.coreos.com/v1:PodMonitor", "svc-inference"),
    } <= set(deployment.keys)
    assert len(set(deployment.keys)) == len(deployment.keys)


def test_replicas_of_autoscaled_role_are_ignored(engine: Any) -> None:
    for scaled in (True, False):
        registered = deployed(engine, scaled=scaled).registered
        (item,) = [entry for entry in registered if entry.request.type == SET]
        assert ("spec.replicas" in list(item.request.ignoreChanges)) == scaled
        assert item.inputs["spec"]["replicas"] == 1
