"""A role's `kvCacheOffloading`: arguments, volumes, memory, and engines that cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import workloads
from tests.samples import (
    Manifest,
    pod_templates,
    prefill_decode,
    problems,
    role,
    service,
    template,
    warnings,
)

HERE = Path(__file__).parent
GIB = 2**30
DISK = {"fileSystem": {"emptyDir": {"size": "200Gi"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
OWN = {"fileSystem": {"pvc": {"spec": CLAIM}}}


def engine(version: str = "v0.22.0", memory: Any = "100Gi", **more: Any) -> Manifest:
    limits = {"nvidia.com/gpu": 1, **({} if memory is None else {"memory": memory})}
    return {"name": "vllm", "image": f"vllm/vllm-openai:{version}", "args": ["--model", "m"],
            "resources": {"limits": limits}, **more}  # fmt: skip


def sglang(*args: str) -> Manifest:
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "m", *args]
    return {"name": "sglang", "image": "lmsysorg/sglang:v0.5.3", "command": command,
            "resources": {"limits": {"nvidia.com/gpu": 4, "memory": "1Ti"}}}  # fmt: skip


def offloading(
    given: Any = None, container: Manifest | None = None, pod: Any = None, **more: Any
) -> Manifest:
    tiers = {"cpu": "64Gi", **(given or {})}
    pods = template(container or engine(), **(pod or {}))
    return service(role(template=pods, kvCacheOffloading=tiers, **more))


def settings(pod: Manifest) -> Any:
    args = pod["spec"]["containers"][0]["args"]
    return json.loads(args[args.index("--kv-transfer-config") + 1])


def refused(manifest: Manifest) -> str:
    found = problems(manifest)
    assert len([each for each in found if "kvCacheOffloading" in each]) == 1, found
    return found[0]


def test_nixl_and_offloading_share_one_connector() -> None:
    both = {"kvTransfer": {}, "template": template(engine())}
    manifest = prefill_decode({**both, "kvCacheOffloading": {"cpu": "8Gi"}}, both)
    assert problems(manifest) == []
    prefill, decode, _ = pod_templates(manifest)
    nixl = settings(decode)
    assert nixl.pop("kv_load_failure_policy") == "recompute"
    assert settings(prefill) == {
        "kv_connector": "MultiConnector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": [
            nixl,
            {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
             "kv_connector_extra_config": {"cpu_bytes_to_use": 8 * GIB}},
        ]},
    }  # fmt: skip
    named = [each["name"] for each in prefill["spec"]["containers"][0]["env"]]
    assert named == ["VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"]
    assert [volume["name"] for volume in prefill["spec"]["volumes"]] == ["shm"]


def test_sglang_offloading_is_set_per_rank() -> None:
    split = sglang("--tp-size", "4")
    (pod,) = pod_templates(offloading({"cpu": "100G", "secondary": [DISK]}, split))
    serving = pod["spec"]["containers"][0]
    assert serving["command"][-5:] == [
        "--enable-hierarchical-cache", "--hicache-size", "25", "--hicache-storage-backend", "file",
    ]  # fmt: skip
    folder = {"name": "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", "value": "/mnt/kv-cache-0"}
    assert serving["env"] == [folder]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["kv-cache-secondary-0"]


@pytest.mark.parametrize(
    ("given", "container", "at", "text"),
    [
        ({"cpu": "100Gi"}, engine(), ".cpu",
         ("uses 100Gi of host memory in each pod, but roles[0].template.spec.containers[0] is "
          "limited to 100Gi")),
        ({}, engine(args=["--model", "m", "-dp", "2"]), ".cpu",
         "uses 128Gi of host memory in each pod"),
        ({}, engine("v0.13.0"), "", "needs vLLM v0.14.0 or later, got v0.13.0"),
        ({"secondary": [DISK]}, engine("v0.21.0"), ".secondary", "needs vLLM v0.22.0 or later"),
        ({}, engine(args=["--model", "m", "--kv-offloading-size", "4"]), "",
         "--kv-offloading-size conflicts with kvCacheOffloading"),
        ({}, engine(args=["--model", "m", "--kv-transfer-config", '{"kv_connector":"X"}']), "",
         "conflicts with --kv-transfer-config (X) in the arguments"),
        ({}, {"name": "main", "image": "own:1", "command": ["serve"]}, "",
         "sets arguments of vLLM or SGLang, but the container runs neither"),
        ({"evictionPolicy": "arc"}, sglang(), ".evictionPolicy", "arc is vLLM's; SGLang has lru"),
        ({"secondary": [DISK, OWN]}, sglang(), ".secondary", "SGLang supports one tier"),
        ({"cpu": "3G"}, sglang("--tp-size", "4"), ".cpu", "must be at least 1G for each rank"),
        ({}, sglang("--tp-size", "$TP"), ".cpu", "SGLang needs the memory of each rank, but the"),
        ({}, sglang("--hicache-ratio", "2"), "", "--hicache-ratio conflicts with kvCache"),
    ],
)  # fmt: skip
def test_unsupported_offloading_is_rejected(
    given: Any, container: Manifest, at: str, text: str
) -> None:
    said_of = refused(offloading(given, container))
    assert said_of.startswith(f"roles[0].kvCacheOffloading{at}: {text}")


def test_sglang_decoders_have_no_hierarchical_cache() -> None:
    part = {"template": template(sglang())}
    manifest = prefill_decode(part, {**part, "kvCacheOffloading": {"cpu": "8Gi"}})
    assert refused(manifest).startswith("roles[1].kvCacheOffloading: SGLang has no hierarchical")


@pytest.mark.parametrize(
    ("transfer", "version", "text"),
    [
        ({"connector": "MooncakeConnector"}, "v0.22.0",
         "roles[0].kvTransfer.connector: MooncakeConnector together with kvCacheOffloading"),
        ({}, "v0.18.0", "roles[0].kvTransfer: together with kvCacheOffloading needs vLLM v0.21.0"),
        ({"sharedMemory": "1Gi"}, "v0.22.0",
         "roles[0].kvCacheOffloading.cpu: takes 8Gi of /dev/shm, but kvTransfer.sharedMemory is "),
    ],
)  # fmt: skip
def test_not_every_transfer_goes_with_it(transfer: Any, version: str, text: str) -> None:
    both = {"kvTransfer": transfer, "template": template(engine(version))}
    found = problems(prefill_decode({**both, "kvCacheOffloading": {"cpu": "8Gi"}}, both))
    assert [each.startswith(text) for each in found] == [True], found


def test_user_shared_memory_must_be_large_enough() -> None:
    mounts = {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm/"}]}

    def with_volume(limit: str) -> Manifest:
        volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}
        return offloading(None, engine(**mounts), {"volumes": [volume]})

    assert refused(with_volume("1Gi")) == (
        "roles[0].kvCacheOffloading.cpu: takes 64Gi of /dev/shm, but the volume dshm of "
        "roles[0].template holds 1Gi; raise its sizeLimit, or remove it"
    )
    (pod,) = pod_templates(with_volume("64Gi"))
    assert [each["name"] for each in pod["spec"]["volumes"]] == ["dshm"]


def test_existing_volume_is_not_covered() -> None:
    taken = engine(volumeMounts=[{"name": "x", "mountPath": "/mnt/kv-cache-0"}])
    manifest = offloading({"secondary": [DISK]}, taken, {"volumes": [{"name": "x"}]})
    assert refused(manifest).startswith("roles[0].template.spec.containers[0].volumeMounts: /mnt/")
    small = engine()
    small["resources"]["limits"]["ephemeral-storage"] = "150Gi"
    text = "roles[0].template.spec.containers[0].resources.limits.ephemeral-storage: 150Gi is too"
    assert refused(offloading({"secondary": [DISK]}, small)).startswith(text)


@pytest.mark.parametrize(("asked", "has"), [(None, "none"), ("10Gi", "10Gi")])
def test_unused_memory_volume_is_a_warning(asked: Any, has: str) -> None:
    free = engine(memory=None)
    free["resources"]["requests"] = {} if asked is None else {"memory": asked}
    (found,) = warnings(offloading(None, free))
    assert f"containers[0] requests {has}, so pods may be" in found


@pytest.mark.parametrize(
    ("given", "at", "text"),
    [
        ({"cpu": "much"}, "cpu", 'must be an amount of bytes such as 80Gi, got "much"'),
        ({"cpu": "0"}, "cpu", "must be an amount of bytes"),
        ({"evictionPolicy": "fifo"}, "evictionPolicy", "must be"),
        ({"secondary": [{"fileSystem": {}}]}, "secondary[0].fileSystem",
         "needs one of emptyDir, pvc"),
        ({"secondary": [{"fileSystem": {"emptyDir": {"size": "-1"}}}]},
         "secondary[0].fileSystem.emptyDir.size", "must be an amount of bytes"),
        ({"secondary": [{"fileSystem": {"pvc": {}}}]}, "secondary[0].fileSystem.pvc",
         "needs one of spec, ref"),
        ({"secondary": [{"fileSystem": {"pvc": {"ref": {"name": "a", "path": "../b"}}}}]},
         "secondary[0].fileSystem.pvc.ref.path", "must be a folder such as"),
        ({"memory": "1Gi"}, "memory", "unknown key"),
    ],
)  # fmt: skip
def test_fields_are_checked(given: Any, at: str, text: str) -> None:
    found = problems(offloading(given))
    assert any(each.startswith(f"roles[0].kvCacheOffloading.{at}: {text}") for each in found), found


def test_router_has_no_cache() -> None:
    router = role("router", "router", template=None, kvCacheOffloading={"cpu": "1Gi"})
    assert any("a router runs no model" in problem for problem in problems(service(role(), router)))


def test_objects_are_exactly_these(golden: Callable[..., Any]) -> None:
    (args,) = load(HERE / "kv-offloading.yaml")
    golden("pods/kv-offloading", list(workloads(plan_service(args))))
