"""The service, apart from Pulumi: the test plans it without a cluster."""

from fusioninfer_pulumi import InferenceServiceArgs, RoleArgs


def service_args(model: str, gpus: int, replicas: int) -> InferenceServiceArgs:
    """Replicas of a model, each on the GPUs of one node."""
    vllm = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    shared_memory = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    worker = RoleArgs(
        name="inference",
        component_type="worker",
        replicas=replicas,
        parallelism={"tensor": gpus},
        template={"spec": {"containers": [vllm], "volumes": [shared_memory]}},
    )
    return InferenceServiceArgs(model={"uri": f"hf://{model}"}, roles=[worker])
