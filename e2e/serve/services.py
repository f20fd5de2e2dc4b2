"""Services with the tiny model."""

from __future__ import annotations

import base64
import copy
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Object
from e2e.serve.engine import explain_missing
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


def needs(*programs: str, releases: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Return a mark that skips tests if programs or vLLM releases are not installed."""
    reasons = [f"needs {name} on PATH" for name in programs if shutil.which(name) is None]
    reasons += filter(None, map(explain_missing, releases))
    return pytest.mark.skipif(bool(reasons), reason="; ".join(reasons))


def secret(namespace: str, name: str, **values: str) -> Object:
    """Return a Secret with `data`, because Envoy Gateway's file provider ignores `stringData`."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": encoded}


def render_objects(manifest: Object) -> list[Object]:
    (args,) = load(manifest)
    return list(render(plan_service(args)))
