"""Models, caches and device claims: accepted, and played as far as fake nodes can."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.devices import devices
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.pods import is_condition_true
from e2e.volumes import bound_claim

HF = "hf://Qwen/Qwen3-8B"
GPUS = {"name": "gpus", "deviceClassName": "gpu.example.com", "count": 8}


def service(model: Object | None, role: Object, gpus: int = 4, name: str = "svc") -> Object:
    limits = {"nvidia.com/gpu": gpus} if gpus else {"cpu": "1"}
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.12.0",
                 "resources": {"limits": limits}}  # fmt: skip
    template = {"spec": {"containers": [container]}}
    made = inputs.service(
        name, {"name": "serve", "componentType": "worker", "template": template, **role}
    )
    if model is not None:
        made["spec"]["model"] = model
    return made


def objects_of(manifest: Object) -> list[Object]:
    return inputs.objects_of(inputs.plan_of(manifest))


@pytest.mark.proves("The API server rejects changes of a ResourceClaimTemplate")
def test_claim_template_is_immutable(cluster: Cluster, namespace: str) -> None:
    def template(count: int) -> Object:
        claims = {"resourceClaims": [{**GPUS, "count": count}]}
        made = inputs.with_namespace(objects_of(service(None, claims, 0)), namespace)
        return next(each for each in made if each["kind"] == "ResourceClaimTemplate")

    first, second = template(4), template(8)
    cluster.apply([first])
    renamed = {**second, "metadata": {**second["metadata"], "name": first["metadata"]["name"]}}
    with pytest.raises(ApiError, match="immutable"):
        cluster.apply([renamed])
    cluster.apply([second])


@pytest.mark.proves("The scheduler allocates exactly the claimed devices")
def test_pods_get_their_devices(cluster: Cluster, namespace: str) -> None:
    names = cluster.add_nodes(2, gpus=0)
    driver = f"{namespace}.example.com"
    made = devices(driver, dict.fromkeys(names, 8))
    cluster.apply(made)
    try:
        claim = {"name": "gpus", "deviceClassName": driver, "count": 8}
        manifest = service(None, {"resourceClaims": [claim], "replicas": 3}, 0)
        cluster.apply(inputs.with_namespace(objects_of(manifest), namespace))
        cluster.wait(
            lambda: len(cluster.bound(namespace)) == 2, 60, lambda: cluster.pods(namespace)
        )
        cluster.settle()
        bound = cluster.bound(namespace)
        assert len(bound) == 2, "8 devices a node, 8 a pod: the third has to wait"
        assert {each["spec"]["nodeName"] for each in bound} == set(names)
        claims = cluster.list("resource.k8s.io/v1/ResourceClaim", namespace)
        given = [
            len(each["status"]["allocation"]["devices"]["results"])
            for each in claims
            if each.get("status", {}).get("allocation")
        ]
        assert given == [8, 8]
    finally:
        for each in reversed(made):
            cluster.delete(each["kind"], each["metadata"]["name"])


@pytest.mark.proves("The warm-up Job's pod runs and completes")
def test_warm_up_completes(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1, gpus=0)
    model = {"uri": HF, "cache": {"claimName": "shared", "warmUp": True}}
    objects = inputs.with_namespace(objects_of(service(model, {}, 0)), namespace)

    def complete() -> bool:
        (live,) = cluster.list("batch/v1/Job", namespace)
        return is_condition_true(live, "Complete")

    with bound_claim(cluster, namespace):
        (job,) = cluster.apply([manifest for manifest in objects if manifest["kind"] == "Job"])
        cluster.wait(complete, 60, lambda: cluster.pods(namespace))
        (pod,) = cluster.pods(namespace)
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job["metadata"]["name"]
        assert "fusioninfer.io/service" not in pod["metadata"]["labels"]
