"""DeepSeek-R1: prefill on 2 nodes, decode on 4, at least one of each or nothing."""

from typing import Any

import pulumi

from fusioninfer_pulumi import (
    ComponentType,
    GangPolicyArgs,
    InferenceService,
    InferenceServiceArgs,
    MultinodeArgs,
    RoleArgs,
    SchedulingStrategyArgs,
)

config = pulumi.Config()
image = config.require("image")
decode_replicas = config.require_int("decodeReplicas")


def template(tensor_parallel: int) -> dict[str, Any]:
    """Pods with 8 GPUs; a replica's tensor parallelism spans all of its nodes."""
    return {
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "image": image,
                    "args": [
                        "--model=deepseek-ai/DeepSeek-R1",
                        f"--tensor-parallel-size={tensor_parallel}",
                        "--kv-transfer-config",
                        '{"kv_connector":"NixlConnector","kv_role":"kv_both"}',
                    ],
                    "ports": [{"name": "http", "containerPort": 8000}],
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ]
        }
    }


service = InferenceService(
    "deepseek-r1-disagg",
    InferenceServiceArgs(
        scheduling_strategy=SchedulingStrategyArgs(
            # One prefill and one decode replica start together; more decode as room appears.
            gang_policy=GangPolicyArgs(min_role_replicas={"prefill": 1, "decode": 1}),
        ),
        roles=[
            RoleArgs(
                name="prefill",
                component_type=ComponentType.PREFILLER,
                replicas=1,
                multinode=MultinodeArgs(node_count=2),
                template=template(tensor_parallel=16),
            ),
            RoleArgs(
                name="decode",
                component_type=ComponentType.DECODER,
                replicas=decode_replicas,
                multinode=MultinodeArgs(node_count=4),
                template=template(tensor_parallel=32),
            ),
        ],
    ),
)

pulumi.export("endpoint", service.endpoint)
pulumi.export("status", service.status)
