"""Kthena's documents in small, for tables of cases."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def entry(image: str = "vllm/vllm-openai:v0.11.0", **spec: Any) -> Manifest:
    """A pod template of one engine with one GPU."""
    container = {
        "name": "engine",
        "image": image,
        "args": ["--model", "m"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {"spec": {"containers": [container], **spec}}


def role(name: str = "server", **more: Any) -> Manifest:
    """A role of one pod; None leaves a field out."""
    built = {"name": name, "entryTemplate": entry(), "workerReplicas": 0, **more}
    return {key: value for key, value in built.items() if value is not None}


def serving(
    *roles: Manifest, name: str = "ms", group: Any = None, metadata: Any = None, **spec: Any
) -> Manifest:
    """A ModelServing, of one role by default; `group` is more of its template."""
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**spec, "template": {**(group or {}), "roles": list(roles) or [role()]}},
    }
