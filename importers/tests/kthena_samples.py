"""Small Kthena manifests for test cases."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


#: The gang policy of every converted serving group that Volcano schedules.
ON: Manifest = {"mode": "On", "minResources": True}


def entry(image: str = "vllm/vllm-openai:v0.11.0", **spec: Any) -> Manifest:
    """A pod template of one engine with one GPU."""
    container = {
        "name": "engine",
        "image": image,
        "args": ["--model", "m"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {"spec": {"containers": [container], **spec}}


def role(name: str = "server", **fields: Any) -> Manifest:
    """A role of one pod; None leaves a field out."""
    built = {"name": name, "entryTemplate": entry(), "workerReplicas": 0, **fields}
    return {key: value for key, value in built.items() if value is not None}


def serving(
    *roles: Manifest, name: str = "ms", group: Any = None, metadata: Any = None, **spec: Any
) -> Manifest:
    """A ModelServing, of one role by default; `group` adds fields to its template."""
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**spec, "template": {**(group or {}), "roles": list(roles) or [role()]}},
    }


def server(name: str = "srv", labels: Any = None, **spec: Any) -> Manifest:
    """A ModelServer of the pods of `ms`; None leaves a field out."""
    selector: Manifest = {"matchLabels": labels or {"modelserving.volcano.sh/name": "ms"}}
    if "pdGroup" in spec:
        selector["pdGroup"] = spec.pop("pdGroup")
    built = {
        "model": "m",
        "inferenceEngine": "vLLM",
        "workloadSelector": selector,
        "workloadPort": {"port": 8000},
        **spec,
    }
    return {
        "apiVersion": "networking.serving.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": {key: value for key, value in built.items() if value is not None},
    }


def rule(*targets: Any, **fields: Any) -> Manifest:
    """A rule to ModelServers, by name or name and weight; to `srv` by default."""
    listed = [
        target if isinstance(target, dict) else {"modelServerName": target} for target in targets
    ]
    return {"targetModels": listed or [{"modelServerName": "srv"}], **fields}


def route(*rules: Manifest, name: str = "route", **spec: Any) -> Manifest:
    """A ModelRoute for the model `m`, of one rule by default; None leaves a field out."""
    built = {"modelName": "m", "rules": list(rules) or [rule()], **spec}
    return {
        "apiVersion": "networking.serving.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name},
        "spec": {key: value for key, value in built.items() if value is not None},
    }


def policy(name: str = "policy", **spec: Any) -> Manifest:
    """An AutoscalingPolicy of the role `server` with a pod metric; None leaves a field out."""
    built = {
        "metrics": [{"name": "waiting", "targetValue": 5}],
        "disaggregatedTarget": scaled({"server": {"minReplicas": 1, "maxReplicas": 4}}),
        **spec,
    }
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicy",
        "metadata": {"name": name},
        "spec": {key: value for key, value in built.items() if value is not None},
    }


def scaled(roles: Manifest, name: str = "ms", **fields: Any) -> Manifest:
    """A disaggregatedTarget."""
    return {"targetRef": {"kind": "ModelServing", "name": name}, "roles": roles, **fields}


def binding(policy: str = "policy", **spec: Any) -> Manifest:
    """An AutoscalingPolicyBinding."""
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicyBinding",
        "metadata": {"name": "binding"},
        "spec": {"policyRef": {"name": policy}, **spec},
    }


#: Roles whose names set their component types.
PAIR = (role("prefill"), role("decode"))


GATEWAY = [{"name": "gw", "namespace": "infra"}]
