"""Manifests in Kthena's and Modelplane's design documents.

The functions `kthena` and `modelplane` add the fields that the documents omit; everything else is
unchanged.
"""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def _engine(name: str, **fields: Any) -> Manifest:
    """Return a container that requests one accelerator."""
    limits = {"nvidia.com/gpu": "1"}
    return {
        "name": name,
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "m"],
        "resources": {"limits": limits},
        **fields,
    }


def _role(name: str, replicas: int) -> Manifest:
    entry = {"spec": {"containers": [_engine("engine")]}}
    return {"name": name, "replicas": replicas, "entryTemplate": entry}


def kthena(group: Manifest, **spec: Any) -> Manifest:
    """Return a ModelServing with a fragment of its template; adds metadata and complete roles."""
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {**spec, "template": {**group, "roles": [_role("prefill", 4), _role("decode", 4)]}},
    }


def modelplane(**spec: Any) -> Manifest:
    """Return the disaggregated ModelDeployment; adds a name, images and accelerators."""

    def workers(count: int) -> Manifest:
        template = {"spec": {"containers": [_engine("engine")]}}
        return {"count": count, "topology": {"tensor": 1}, "template": template}

    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "disaggregated"},
        "spec": {
            "workers": workers(2),
            "prefill": {"workers": workers(1)},
            "routing": {"template": {"spec": {"containers": [{"name": "epp"}]}}},
            **spec,
        },
    }


DOCUMENTS = {
    "kthena-model-serving-sample": kthena(
        {
            "restartGracePeriodSeconds": 60,
            "gangpolicy": {"minRoleReplicas": {"prefill": 2, "decode": 2}},
        },
        schedulerName="volcano",
        replicas=1,
    ),
    "kthena-gang-policy": kthena({"gangPolicy": {"minRoleReplicas": {"prefill": 2, "decode": 1}}}),
    "kthena-rollout-strategy": kthena(
        {},
        replicas=4,
        rolloutStrategy={
            "type": "ServingGroupRollingUpdate",
            "rollingUpdateConfiguration": {"partition": 0},
        },
    ),
    "modelplane-model-deployment-disaggregated": modelplane(model={}),
}
