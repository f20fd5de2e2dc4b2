"""`kvTransfer.rdma`: devices, environment variables and the IPC_LOCK capability."""

from __future__ import annotations

from typing import Any

from tests.samples import container, pod_templates, prefill_decode, template

RDMA = {"resource": "rdma/ib", "count": 2, "devices": ["mlx5_0:1", "mlx5_1:1"],
        "transports": "rc,cuda_copy", "gidIndex": 3}  # fmt: skip


def pair(rdma: Any, **more: Any) -> Any:
    result = {"kvTransfer": {"rdma": rdma}, "template": template(container(**more))}
    return prefill_decode(result, {**result, "multinode": {"nodeCount": 2}})


def test_every_pod_requests_and_configures_rdma_devices() -> None:
    for pod_template in pod_templates(pair(RDMA)):
        serving = pod_template["spec"]["containers"][0]
        assert serving["resources"]["limits"] == {"cpu": "1", "rdma/ib": "2"}
        assert serving["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
        named = {item["name"]: item.get("value") for item in serving["env"]}
        assert {name: named[name] for name in sorted(named) if "UCX" in name or "NCCL" in name} == {
            "NCCL_IB_GID_INDEX": "3", "NCCL_IB_HCA": "mlx5_0,mlx5_1", "UCX_IB_GID_INDEX": "3",
            "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1", "UCX_TLS": "rc,cuda_copy",
        }  # fmt: skip


def test_unset_fields_are_not_rendered() -> None:
    plain = pod_templates(pair({"lockMemory": False}))
    assert plain == pod_templates(pair(None))
    fields = {"runAsUser": 0, "capabilities": {"add": ["SYS_NICE"], "drop": ["ALL"]}}
    serving = pod_templates(pair({}, securityContext=fields))[0]["spec"]["containers"][0]
    assert serving["securityContext"] == {
        "runAsUser": 0, "capabilities": {"add": ["SYS_NICE", "IPC_LOCK"], "drop": ["ALL"]},
    }  # fmt: skip
