"""DeepSeek-R1 with prefill replicas of 2 nodes and decode replicas of 4, behind a router.

Each GPU has a copy of the attention layers (data parallelism), and the experts are distributed over
all GPUs of a replica (expert parallelism). vLLM rejects tensor parallelism over 32 GPUs, because
it would split the model's FP8 blocks of 128 weights.
"""

import pulumi

from fusioninfer_pulumi import (
    ComponentType,
    GangPolicyArgs,
    GatewayArgs,
    HttpRouteArgs,
    InferenceService,
    InferenceServiceArgs,
    KvTransferArgs,
    ParallelismArgs,
    RoleArgs,
    SchedulingStrategyArgs,
    Strategy,
)

config = pulumi.Config()
image = config.require("image")
GPUS = 8


def build_role(name: str, component_type: ComponentType, replicas: int, nodes: int) -> RoleArgs:
    """Return a role with data and expert parallelism over all nodes of a replica."""
    vllm = {
        "name": "vllm",
        "image": image,
        "args": ["--model=deepseek-ai/DeepSeek-R1"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}},
    }
    return RoleArgs(
        name=name,
        component_type=component_type,
        replicas=replicas,
        parallelism=ParallelismArgs(data=nodes * GPUS, data_local=GPUS, expert=True),
        accelerator="H200",
        template={"spec": {"containers": [vllm]}},
        # NIXL transfers the KV cache; the library adds arguments, variables and ports.
        kv_transfer=KvTransferArgs(),
    )


router = RoleArgs(
    name="router",
    component_type=ComponentType.ROUTER,
    strategy=Strategy.PD_DISAGGREGATION,
    gateway=GatewayArgs(implementation="envoy-ai-gateway"),
    httproute=HttpRouteArgs(hostnames=[config.require("hostname")]),
)
prefill = build_role("prefill", ComponentType.PREFILLER, replicas=1, nodes=2)
decode = build_role(
    "decode", ComponentType.DECODER, replicas=config.require_int("decodeReplicas"), nodes=4
)
service = InferenceService(
    "deepseek-r1-disagg",
    InferenceServiceArgs(
        roles=[router, prefill, decode],
        scheduling_strategy=SchedulingStrategyArgs(
            # One prefill and one decode replica start together; others start when GPUs are free.
            gang_policy=GangPolicyArgs(min_role_replicas={"prefill": 1, "decode": 1}),
        ),
    ),
)

pulumi.export("endpoint", service.endpoint)
pulumi.export("status", service.status)
