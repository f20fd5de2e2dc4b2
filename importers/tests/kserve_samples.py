"""Small KServe manifests for test cases."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

URI = "hf://Qwen/Qwen2.5-7B-Instruct"


def pod(gpus: int | None = 1, **main: Any) -> Manifest:
    """A pod spec whose container `main` requests GPUs and gets the rest from KServe's presets."""
    container: Manifest = {"name": "main", **main}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [container]}


def llm(name: str = "llm", metadata: Any = None, model: Any = None, **spec: Any) -> Manifest:
    """An LLMInferenceService; None leaves a field out."""
    built = {"model": model or {"uri": URI}, "template": pod(), **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {key: value for key, value in built.items() if value is not None},
    }


def config(name: str = "base", metadata: Any = None, **spec: Any) -> Manifest:
    """An LLMInferenceServiceConfig."""
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec,
    }


#: A router whose objects are all managed by KServe.
ROUTER: Manifest = {"route": {}, "gateway": {}, "scheduler": {}}


def served(name: str = "llm") -> list[str]:
    """The arguments of the presets' command that name the model."""
    return ["--served-model-name", name, f"publishers/default/models/{name}"]


#: Fields that KServe's presets set in the container `main` of a single pod.
PRESET: Manifest = {
    "ports": [{"containerPort": 8000, "protocol": "TCP"}],
    "env": [{"name": "HOME", "value": "/home"}, {"name": "HF_HUB_CACHE", "value": "/models"}],
    "volumeMounts": [
        {"name": "home", "mountPath": "/home"},
        {"name": "tmp-dir", "mountPath": "/tmp"},
        {"name": "dshm", "mountPath": "/dev/shm"},
        {"name": "model-cache", "mountPath": "/models"},
    ],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
LIVENESS: Manifest = {
    "httpGet": {"path": "/health", "port": 8000},
    "periodSeconds": 10,
    "timeoutSeconds": 1,
    "failureThreshold": 10,
}


def volumes(limit: str | None = "1Gi") -> list[Manifest]:
    """The volumes of the presets, with a size limit of the shared memory."""
    memory = {"medium": "Memory", **({} if limit is None else {"sizeLimit": limit})}
    return [
        {"name": "home", "emptyDir": {}},
        {"name": "tmp-dir", "emptyDir": {}},
        {"name": "dshm", "emptyDir": memory},
        {"name": "model-cache", "emptyDir": {}},
    ]


def container(role: Manifest, block: str = "template") -> Manifest:
    """The first container of a converted role."""
    result: Manifest = role[block]["spec"]["containers"][0]
    return result
