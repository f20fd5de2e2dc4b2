"""Shared memory of ranks, volumes in memory, and disks and claims that do not hold the model."""

from __future__ import annotations

from typing import Any

import pytest
from samples import Manifest, container, nodes, role, rules, service, template, warnings

from fusioninfer_pulumi.findings import Severity

SERVING = "roles[0].template.spec.containers[0]"
SHM = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}


def volume(limit: str | None = None, medium: str = "Memory") -> Manifest:
    source = {"medium": medium, **({} if limit is None else {"sizeLimit": limit})}
    return {"name": "shm", "emptyDir": {key: value for key, value in source.items() if value}}


def of(rule: str, manifest: Manifest, *severities: Severity) -> list[str]:
    return [at for found, at in rules(manifest, *severities) if found == rule]


def engine(*args: str, gpus: int = 8, **more: Any) -> Manifest:
    return container(gpus=gpus, **{"args": ["--model", "m", *args], **more})


def one(*args: str, spec: Any = None, mounts: Any = None, **fields: Any) -> Manifest:
    return service(
        role(template=template(engine(*args, **(mounts or {})), **(spec or {})), **fields)
    )


@pytest.mark.parametrize(
    "manifest",
    [
        one("-tp", "8"),
        one("-tp=2", "-pp=2"),
        one("-pp", "8"),
        one("-tp", "16", multinode=nodes(2, launcher="ray")),
        one(parallelism={"tensor": 8}),
        one("-tp", "4", "-dp", "2"),
        one("-tp", "8", mounts={"volumeMounts": [{"name": "shm", "mountPath": "/shm"}]},
            spec={"volumes": [volume()]}),
    ],
)  # fmt: skip
def test_ranks_of_one_pod_need_shared_memory(manifest: Manifest) -> None:
    at = [f"{SERVING}.volumeMounts"]
    assert of("shared-memory-missing", manifest, Severity.WARNING) == at


@pytest.mark.parametrize(
    "manifest",
    [
        one(),
        one("-dp", "8"),
        one("-tp=$(TP)"),
        # One rank in each pod.
        service(role(template=template(engine("-tp", "2", gpus=1)),
                     multinode=nodes(2, launcher="ray"))),
        one("-tp", "8", mounts=SHM, spec={"volumes": [volume()]}),
        one("-tp", "8", mounts=SHM, spec={"volumes": [volume("2Gi")]}),
        one("-tp", "8", mounts=SHM, spec={"volumes": [{**volume(), "emptyDir": {}}]}),
        one("-tp", "8", spec={"hostIPC": True}),
        # Added by the library.
        service(role("p", "prefiller", template=template(engine("-tp", "8")), kvTransfer={})),
    ],
)  # fmt: skip
def test_sufficient_shared_memory_has_no_finding(manifest: Manifest) -> None:
    assert of("shared-memory-missing", manifest) == []
    assert of("shared-memory-too-small", manifest) == []


RULE = "memory-limit-too-small"


def memory(limit: str | None, size: str | None, *beside: Any, **fields: Any) -> Manifest:
    limits = {"nvidia.com/gpu": 8, **({} if limit is None else {"memory": limit})}
    serving = engine("-tp", "8", resources={"limits": limits}, **SHM)
    return service(role(template=template(serving, *beside, volumes=[volume(size)]), **fields))


def test_volume_in_memory_stays_below_the_limit() -> None:
    at = ["roles[0].template.spec.volumes[0].emptyDir.sizeLimit"]
    assert of(RULE, memory("8Gi", "16Gi"), Severity.WARNING) == at
    for limit, size in (("16Gi", "16Gi"), ("64Gi", "16Gi"), (None, "16Gi"), ("8Gi", None)):
        assert of(RULE, memory(limit, size)) == []
    # Whoever writes is charged, and this one may write more.
    large = {"name": "side", "image": "side:1", **SHM}
    assert of(RULE, memory("8Gi", "16Gi", large)) == []
    large["resources"] = {"limits": {"memory": "4Gi"}}
    assert of(RULE, memory("8Gi", "16Gi", large)) == at


def test_generated_shared_memory_stays_below_the_limit() -> None:
    limits = {"nvidia.com/gpu": 8, "memory": "8Gi"}
    pods = template(engine(resources={"limits": limits}))
    manifest = service(
        role("p", "prefiller", template=pods, kvTransfer={"sharedMemory": "16Gi"}),
    )
    assert of(RULE, manifest) == ["roles[0].kvTransfer.sharedMemory"]


# Disks and claims.


def model(**fields: Any) -> dict[str, Any]:
    return {"model": {"uri": "hf://org/name", "size": "140Gi", **fields}}


@pytest.mark.parametrize(("size", "told"), [("100Gi", 1), ("139Gi", 1), ("140Gi", 0), ("1Ti", 0)])
def test_cache_holds_the_model(size: str, told: int) -> None:
    pods = template(container(args=[]))
    manifest = service(role(template=pods), **model(cache={"storage": {"size": size}}))
    at = ["model.cache.storage.size"] * told
    assert of("cache-below-model-size", manifest, Severity.ERROR) == at


def test_existing_claim_or_unknown_size_is_not_checked() -> None:
    pods = template(container(args=[]))
    for given in (
        model(cache={"claimName": "x"}),
        {"model": {"uri": "hf://org/name", "cache": {"storage": {"size": "1Gi"}}}},
    ):
        assert of("cache-below-model-size", service(role(template=pods), **given)) == []


def test_disk_that_a_pod_may_use_holds_the_model() -> None:
    rule = "disk-limit-too-small"

    def pods(limit: str | None, **more: Any) -> Manifest:
        limits = {} if limit is None else {"ephemeral-storage": limit}
        return role(template=template(container(args=[], resources={"limits": limits}, **more)))

    at = [f"{SERVING}.resources.limits.ephemeral-storage"]
    for fields in (model(), model(fetch="InitContainer"), model(uri="s3://bucket/key")):
        assert of(rule, service(pods("10Gi"), **fields), Severity.ERROR) == at
        assert of(rule, service(pods("200Gi"), **fields)) == []
        assert of(rule, service(pods(None), **fields)) == []
    assert of(rule, service(pods("10Gi"), **model(uri="pvc://claim"))) == []
    assert of(rule, service(pods("10Gi"), **model(cache={"claimName": "x"}))) == []
    mounts = [{"name": "disk", "mountPath": "/root/.cache"}]
    assert of(rule, service(pods("10Gi", volumeMounts=mounts), **model())) == []
    # Known weights may be of another precision.
    known = {"model": {"uri": "hf://Qwen/Qwen3-32B"}}
    assert of(rule, service(pods("10Gi"), **known), Severity.WARNING) == at
    limits = {"ephemeral-storage": "10Gi"}
    made = template(container(args=[], resources={"limits": limits}, volumeMounts=mounts),
                    volumes=[{"name": "disk", "emptyDir": {}}])  # fmt: skip
    assert of(rule, service(role(template=made), **known), Severity.WARNING) == at


@pytest.mark.parametrize(
    "uri",
    [
        "hf://org/", "hf://org/name/more", "hf://org/-name", "hf://org/name.",
        "hf://org/na--me", "hf://org/na..me", "hf://org/name.git", "hf://org/name@", "HF://org/name",
        "hf:/org/name", "https://huggingface.co/org/name", "org/name", "gs://bucket/key",
        "pvc://Claim", "pvc://a..b/x", "pvc://a.-b", "pvc://", "pvc://claim/../x",
        "s3://bucket", "s3://bucket/", "s3://my_bucket/key", "s3://a..b/key", "s3://bucket//key",
        "oci://", "oci://image:", "oci://a//b", "oci://a/b/", "oci://ghcr.io/Org/Model",
        "oci://image@sha256:12", "oci://-image", "oci://image:a b",
    ],
)  # fmt: skip
def test_malformed_model_uri_is_rejected(uri: str) -> None:
    manifest = service(role(template=template(container(args=[]))), model={"uri": uri})
    assert of("invalid-model-uri", manifest) == ["model.uri"]


@pytest.mark.parametrize(
    "uri",
    [
        "hf://gpt2", "hf://org/name", "hf://Org/Na.me-1_0", "hf://org/name@main", "hf://org/name@refs/pr/1",
        "hf://org/name:v1", "hf://org/name@feature--x", "hf://org/name.github",
        "pvc://claim", "pvc://my.claim/a/b", "s3://bucket/key", "s3://my.bucket-1/a/b/",
        "oci://image", "oci://ghcr.io/org/model:v1.0", "oci://localhost:5000/a/b_c__d",
        "oci://Registry.example.com/model", f"oci://image@sha256:{'0' * 64}",
    ],
)  # fmt: skip
def test_valid_model_uri_is_accepted(uri: str) -> None:
    manifest = service(role(template=template(container(args=[]))), model={"uri": uri})
    assert of("invalid-model-uri", manifest) == []


@pytest.mark.parametrize("endpoint", ["s3.example.com", "s3://x", "https://", "https:// x"])
def test_endpoint_of_a_store_is_a_url(endpoint: str) -> None:
    def manifest(given: str) -> Manifest:
        fields = {"uri": "s3://bucket/key", "s3": {"endpoint": given}}
        return service(role(template=template(container(args=[]))), model=fields)

    assert of("invalid-format", manifest(endpoint)) == ["model.s3.endpoint"]
    assert of("invalid-format", manifest("https://s3.example.com:9000")) == []


def test_cache_holds_the_weights_of_a_known_model() -> None:
    known = {"uri": "hf://Qwen/Qwen3-32B", "cache": {"storage": {"size": "30Gi"}}}
    (found,) = warnings(service(role(template=template(container(args=[]))), model=known))
    assert found.startswith("warning: model.cache.storage.size: must be at least 61 GiB, got 30Gi")
