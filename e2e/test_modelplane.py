"""A Modelplane deployment with its cache and its service, on the real API server and scheduler."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.devices import devices
from e2e.harness import Cluster, Object
from e2e.harness.pods import is_condition_true
from e2e.volumes import bound_claim
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.findings import Origin
from fusioninfer_pulumi.loading.documents import load_documents
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.modelplane_samples import (
    cache,
    cached,
    engine,
    member,
    model_service,
    paired,
    released,
    template,
)

DEVICES = 8
SERVE = ["vllm", "serve", "/mnt/models"]
NAMED = "--served-model-name=m"


def gang() -> Object:
    """A Leader and a Worker whose commands name the path of the cache."""
    own = template(NAMED, command=SERVE)
    for container in own["spec"]["containers"]:
        container["args"] = [NAMED]
    members = member("Leader", template=own), member("Worker", template=own, worker={"nodes": 1})
    return released(engine("main", *members), modelCacheRef={"name": "cache"})


def phases() -> Object:
    """Prefill and decode on one cache."""
    document = paired(modelCacheRef={"name": "cache"})
    for its in document["spec"]["template"]["spec"]["engines"]:
        (container,) = its["members"][0]["template"]["spec"]["containers"]
        container["args"] = [NAMED, "--model=/mnt/models"]
    return document


FORMS = {
    "one pod": cached(NAMED, command=SERVE, replicas=2),
    "a gang": gang(),
    "prefill and decode": phases(),
}


def objects_of(*documents: Object) -> list[Object]:
    given = [(Origin(str(number)), document) for number, document in enumerate(documents)]
    (read,) = [each for each in load_documents(given) if each.document is not None]
    assert read.document is not None
    assert read.document.args is not None, read.findings
    return list(render(plan_service(read.document.args)))


@pytest.mark.proves("A Modelplane deployment's pods mount the folder that its warm-up Job wrote")
def test_deployment_with_cache_is_scheduled(cluster: Cluster, namespace: str) -> None:
    driver = f"{namespace}.example.com"
    names = cluster.add_nodes(2, gpus=0)
    made = devices(driver, dict.fromkeys(names, DEVICES))
    asked = {
        "devices": [
            {
                "name": "gpu",
                "count": DEVICES,
                "selectors": [{"cel": f'device.driver == "{driver}"'}],
            }
        ]
    }
    own = template(NAMED, command=SERVE)
    document = released(
        engine("main", member(nodeSelector=asked, template=own), copies=2),
        modelCacheRef={"name": "cache"},
    )
    own["spec"]["containers"][0]["args"] = [NAMED]
    objects = inputs.with_namespace(objects_of(document, cache(), model_service()), namespace)
    (claim,) = [manifest for manifest in objects if manifest["kind"] == "PersistentVolumeClaim"]
    (job,) = [manifest for manifest in objects if manifest["kind"] == "Job"]
    others = ("PersistentVolumeClaim", "Job", "Deployment")  # bound, first, the picker's

    def complete() -> bool:
        (live,) = cluster.list("batch/v1/Job", namespace)
        return is_condition_true(live, "Complete")

    def engines() -> list[Object]:
        label = "leaderworkerset.sigs.k8s.io/name"
        return [each for each in cluster.bound(namespace) if label in each["metadata"]["labels"]]

    try:
        cluster.apply(made)
        with bound_claim(cluster, namespace, claim["metadata"]["name"]):
            cluster.apply([job])
            cluster.wait(complete, 60, lambda: cluster.pods(namespace))
            cluster.apply([manifest for manifest in objects if manifest["kind"] not in others])
            cluster.wait(lambda: len(engines()) == len(names), 60, lambda: cluster.pods(namespace))
            folder = job["spec"]["template"]["spec"]["containers"][0]["args"][1]
            for pod in engines():
                (mount,) = [
                    each
                    for each in pod["spec"]["containers"][0]["volumeMounts"]
                    if each["mountPath"] == "/mnt/models"
                ]
                assert folder.endswith(f"/{mount['subPath']}")
            assert {each["spec"]["nodeName"] for each in engines()} == set(names)
    finally:
        for each in reversed(made):
            cluster.delete(each["kind"], each["metadata"]["name"])
