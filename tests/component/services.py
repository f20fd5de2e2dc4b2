"""A small service as mappings, in the spelling of YAML."""

from __future__ import annotations

from typing import Any

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "a"}},
    "spec": {
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.11.0",
                "args": ["--model", "Qwen/Qwen3-8B"],
                "env": [
                    {
                        "name": "HF_TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
                    }
                ],
                "ports": [{"containerPort": 8000, "name": "http"}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 30,
    },
}
CAMEL: dict[str, Any] = {
    "roles": [
        {
            "name": "inference",
            "componentType": "worker",
            "replicas": 2,
            "template": TEMPLATE,
            "restartPolicy": "None",
        }
    ],
    "schedulingStrategy": {"priorityClassName": "high"},
}
