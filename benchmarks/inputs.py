"""The services that are measured."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi import InferenceServiceArgs


def build_single_node(replicas: int) -> InferenceServiceArgs:
    """Return a service of replicas with one GPU each, which are not gang-scheduled."""
    return _build_service(
        {"name": "inference", "componentType": "worker", **_build_pods(replicas, 1, 1)}
    )


def build_gang(replicas: int) -> InferenceServiceArgs:
    """Return a service of one prefill replica and decode replicas of 4 nodes, in one PodGroup."""
    return _build_service(
        {"name": "prefill", "componentType": "prefiller", **_build_pods(1, 2, 16)},
        {"name": "decode", "componentType": "decoder", **_build_pods(replicas, 4, 32)},
    )


def _build_service(*roles: dict[str, Any]) -> InferenceServiceArgs:
    return InferenceServiceArgs.model_validate({"name": "bench", "roles": list(roles)})


def _build_pods(replicas: int, nodes: int, tensor_parallel: int) -> dict[str, Any]:
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model=m", f"--tensor-parallel-size={tensor_parallel}"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [{"name": f"SETTING_{index}", "value": str(index)} for index in range(4)],
        "resources": {"limits": {"nvidia.com/gpu": str(tensor_parallel // nodes)}},
    }
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [container]}}
    return {"replicas": replicas, "multinode": {"nodeCount": nodes}, "template": template}
