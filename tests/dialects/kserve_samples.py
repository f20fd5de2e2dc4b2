"""KServe's documents in small, for tables of cases."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

URI = "hf://Qwen/Qwen2.5-7B-Instruct"


def pod(gpus: int | None = 1, **main: Any) -> Manifest:
    """A pod spec whose container `main` asks for GPUs and leaves the rest to KServe's presets."""
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


def config(name: str = "base", **spec: Any) -> Manifest:
    """An LLMInferenceServiceConfig."""
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": name},
        "spec": spec,
    }


#: A router with everything that KServe makes by itself.
ROUTER: Manifest = {"route": {}, "gateway": {}, "scheduler": {}}


def container(role: Manifest, block: str = "template") -> Manifest:
    """The first container of a role of ours."""
    found: Manifest = role[block]["spec"]["containers"][0]
    return found
