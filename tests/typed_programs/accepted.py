"""All forms of arguments that constructors accept, for type checkers and the test."""

import pulumi
import pulumi_kubernetes as kubernetes

from fusioninfer_pulumi import (
    AutoscalingArgs,
    CacheArgs,
    ComponentType,
    GangMode,
    InferenceServiceArgs,
    InferenceServiceArgsDict,
    Layout,
    ModelArgs,
    ParallelismArgs,
    ResourceClaimArgs,
    RoleArgs,
    RoleArgsDict,
    SchedulingStrategyArgs,
    StorageArgs,
    model_service,
)

# Words for enums, mappings for models, numbers for quantities.
worker = RoleArgs(
    name="worker",
    component_type="worker",
    replicas=2,
    template={"spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0"}]}},
    autoscaling={"max_replicas": 4, "metrics": [{"name": "queue", "target": 5}]},
    rollout={"max_unavailable": "50%", "timeout": "10m"},
)
fine = InferenceServiceArgs(
    layout="PerRole",
    roles=[worker],
    scheduling_strategy={"gang_policy": {"mode": "Off"}},
    annotations={"team": pulumi.Output.from_input("search")},
)
layout: Layout = fine.layout
roles: list[RoleArgs] = fine.roles
replicas: int = fine.roles[0].replicas

# The same as typed objects.
typed = InferenceServiceArgs(
    layout=Layout.PER_ROLE,
    model=ModelArgs(
        uri="hf://Qwen/Qwen3-8B",
        cache=CacheArgs(storage=StorageArgs(size="100Gi", access_modes=["ReadWriteMany"])),
    ),
    roles=[
        RoleArgs(
            name="worker",
            component_type=ComponentType.WORKER,
            parallelism=ParallelismArgs(tensor=2),
            resource_claims=[
                ResourceClaimArgs(name="gpu", device_class_name="gpu.nvidia.com", count=2)
            ],
            autoscaling=AutoscalingArgs(max_replicas=2, metrics=[{"name": "q", "target": "500m"}]),
            template=kubernetes.core.v1.PodTemplateSpecArgs(
                spec=kubernetes.core.v1.PodSpecArgs(
                    containers=[
                        kubernetes.core.v1.ContainerArgs(
                            name="vllm",
                            image=pulumi.Output.from_input("vllm/vllm-openai:v0.11.0"),
                            ports=[
                                kubernetes.core.v1.ContainerPortArgs(
                                    container_port=8000, name="http"
                                )
                            ],
                        )
                    ]
                )
            ),
        )
    ],
    scheduling_strategy=SchedulingStrategyArgs(gang_policy={"mode": GangMode.AUTO}),
)

# Dictionaries with Python names, as in `pulumi_kubernetes`.
template: kubernetes.core.v1.PodTemplateSpecArgsDict = {
    "metadata": {"labels": {"team_name": "search"}},
    "spec": {
        "node_selector": {"disk_type": "nvme"},
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.11.0",
                "ports": [{"container_port": 8000, "name": "http"}],
                "env": [{"name": "hf_home", "value": "/cache"}],
            }
        ],
    },
}
role: RoleArgsDict = {"name": "worker", "component_type": "worker", "template": template}
args: InferenceServiceArgsDict = {"roles": [role], "labels": {"team": "search"}}
mapped = InferenceServiceArgs(**args)

# A service from a model's name, with fields of the service and of its roles.
short = model_service(
    "Qwen/Qwen3-32B",
    accelerator="H100",
    engine="0.33.0",
    router={"gateway": {"implementation": "istio"}, "httproute": {}},
    namespace=pulumi.Output.from_input("team"),
    wait={"timeout": "1h"},
    gpus=2,
)
left_out = RoleArgs(name="serve", component_type="worker", gpus=2, engine={"name": "vllm"})
