"""A role's `kvCacheOffloading`: arguments, volumes and memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render_workloads
from tests.samples import Manifest, pod_templates, prefill_decode, problems, role, service, template

HERE = Path(__file__).parent
GIB = 2**30
DISK = {"fileSystem": {"emptyDir": {"size": "200Gi"}}}


def engine(version: str = "v0.22.0", memory: Any = "100Gi", **more: Any) -> Manifest:
    limits = {"nvidia.com/gpu": 1, **({} if memory is None else {"memory": memory})}
    return {"name": "vllm", "image": f"vllm/vllm-openai:{version}", "args": ["--model", "m"],
            "resources": {"limits": limits}, **more}  # fmt: skip


def sglang(*args: str) -> Manifest:
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "m", *args]
    return {"name": "sglang", "image": "lmsysorg/sglang:v0.5.3", "command": command,
            "resources": {"limits": {"nvidia.com/gpu": 4, "memory": "1Ti"}}}  # fmt: skip


def offloading(
    fields: Any = None, container: Manifest | None = None, pod: Any = None, **more: Any
) -> Manifest:
    tiers = {"cpu": "64Gi", **(fields or {})}
    pods = template(container or engine(), **(pod or {}))
    return service(role(template=pods, kvCacheOffloading=tiers, **more))


def settings(pod: Manifest) -> Any:
    args = pod["spec"]["containers"][0]["args"]
    return json.loads(args[args.index("--kv-transfer-config") + 1])


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
    named = [item["name"] for item in prefill["spec"]["containers"][0]["env"]]
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


def test_kv_offloading_renders_golden_objects(golden: Callable[..., Any]) -> None:
    (args,) = load(HERE / "kv-offloading.yaml")
    golden("pods/kv-offloading", list(render_workloads(plan_service(args))))
