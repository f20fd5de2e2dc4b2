"""Services with the tiny model."""

from __future__ import annotations

import copy
from typing import Any

from e2e import inputs
from e2e.harness import Object
from fusioninfer_pulumi import load, plan_service, render

IMAGE = "vllm/vllm-openai:v0.32.0"
MODEL = "tiny"

PROMPT = " ".join(f"the quick brown fox jumps over the lazy dog {n} times;" for n in range(20))
"""Longer than two KV cache blocks, which have 128 tokens on CPUs."""


def role(
    name: str = "inference",
    kind: str = "worker",
    *,
    replicas: int = 1,
    image: str = IMAGE,
    args: tuple[str, ...] = (),
    **more: Any,
) -> Object:
    container = {
        "name": "vllm",
        "image": image,
        "args": ["--model", MODEL, "--max-model-len", "2048", *args],
        # As in generated containers, so that gateways do not reuse connections that vLLM closes.
        "env": [{"name": "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "value": "3700"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "name": name,
        "componentType": kind,
        "replicas": replicas,
        "template": {"spec": {"containers": [container]}},
        **copy.deepcopy(more),
    }


def service(namespace: str, *roles: Object, name: str = "svc", **more: Any) -> Object:
    """Return a service."""
    manifest = inputs.service(name, *roles)
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"] |= more
    return manifest


def router(strategy: str | None = "prefix-cache", **more: Any) -> Object:
    """Return a router whose HTTPRoute references another team's Gateway."""
    route = {"parentRefs": [{"name": "gateway", "namespace": "infra"}],
             "hostnames": ["svc.example.com"]}  # fmt: skip
    chosen = {} if strategy is None else {"strategy": strategy}
    return {"name": "router", "componentType": "router", **chosen, "httproute": route, **more}


def objects_of(manifest: Object) -> list[Object]:
    (args,) = load(manifest)
    return list(render(plan_service(args)))
