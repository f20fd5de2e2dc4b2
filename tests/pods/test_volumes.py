"""Volumes and mounts that no API server takes are refused where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, nodes, pod, problems, rendered, role, service, template

POD = "roles[0].template.spec"
MOUNT = {"name": "data", "mountPath": "/data"}
DATA = {"name": "data", "emptyDir": {}}


MISSING = 'the pod has no volume "data": add it to its volumes'


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (pod(container(volumeMounts=[MOUNT])), f"containers[0].volumeMounts[0].name: {MISSING}"),
        (
            pod(container(volumeMounts=[MOUNT]), volumes=[{"name": "a"}, {"name": "b"}]),
            f"containers[0].volumeMounts[0].name: {MISSING.replace(':', '; it has a, b:')}",
        ),
        (
            pod(initContainers=[container("first", command=["true"], volumeMounts=[MOUNT])]),
            f"initContainers[0].volumeMounts[0].name: {MISSING}",
        ),
        (
            pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]),
            "volumes[0]: takes one source, got emptyDir and hostPath; remove one of them",
        ),
        (
            pod(volumes=[DATA, DATA]),
            'volumes[1].name: "data" is in volumes[0], too; remove one of them',
        ),
    ],
)
def test_invalid_pods_are_rejected(manifest: Any, told: str) -> None:
    assert problems(manifest) == [f"{POD}.{told}"]


def test_leaders_and_workers_have_separate_volumes() -> None:
    mounting = container(volumeMounts=[MOUNT])
    two = role(
        template=None,
        leaderTemplate=template(mounting, volumes=[DATA]),
        workerTemplate=template(mounting),
        multinode=nodes(2),
    )
    at = "roles[0].workerTemplate.spec.containers[0].volumeMounts[0].name"
    assert problems(service(two)) == [f"{at}: {MISSING}"]


def test_picker_mounts_volumes_of_either_template() -> None:
    def mounting(name: str, volumes: Any = None) -> Any:
        own = {"name": "epp", "volumeMounts": [{"name": name, "mountPath": "/x"}]}
        spec = {"containers": [own], **({} if volumes is None else {"volumes": volumes})}
        picker = {"template": {"spec": spec}}
        router = role("router", "router", template=None, endpointPicker=picker)
        return service(role(), router)

    at = "roles[1].endpointPicker.template.spec.containers[0].volumeMounts[0].name"
    assert problems(mounting("data"))[0].startswith(f'{at}: the pod has no volume "data"; it has ')
    assert problems(mounting("data", [DATA])) == []
    assert problems(mounting("plugins-config-volume")) == []


def test_volumes_that_are_made_of_short_fields_may_be_mounted_elsewhere() -> None:
    """A container beside the engine reads the model, the disk of the KV cache, shared memory."""
    names = ("model", "shm", "kv-cache-secondary-0")
    mounts = [{"name": name, "mountPath": f"/x/{name}"} for name in names]
    engine = container(args=["--model", "/mnt/models"], image="vllm/vllm-openai:v0.22.0")
    manifest = service(
        role(
            template=template(engine, container("reader", image="reader:1", volumeMounts=mounts)),
            kvCacheOffloading={
                "cpu": "1Gi",
                "secondary": [{"fileSystem": {"emptyDir": {"size": "1Gi"}}}],
            },
        ),
        model={"uri": "pvc://weights"},
    )
    (pods,) = [each for each in rendered(manifest) if each["kind"] == "LeaderWorkerSet"]
    spec = pods["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert {volume["name"] for volume in spec["volumes"]} == set(names)
