"""Volumes and mounts that no API server takes are rejected where they stand."""

from __future__ import annotations

from samples import container, rendered, role, service, template


def test_volumes_that_are_made_of_short_fields_may_be_mounted_elsewhere() -> None:
    """Other containers may mount the model, the KV cache's disk and shared memory."""
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
    (pods,) = [item for item in rendered(manifest) if item["kind"] == "LeaderWorkerSet"]
    spec = pods["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert {volume["name"] for volume in spec["volumes"]} == set(names)
