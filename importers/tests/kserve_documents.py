"""Fragments of specs on the architecture page of KServe's LLMInferenceService, unchanged.

`complete` adds a name, a model, and the accelerators of a container.
"""

from __future__ import annotations

import copy
from typing import Any

# Nothing of the tests is imported: the end-to-end tests read this file under another name.
Manifest = dict[str, Any]

URI = "hf://Qwen/Qwen2.5-7B-Instruct"

EVENTS = (
    '--kv-events-config \'{"enable_kv_cache_events":true,"publisher":"zmq",'
    '"endpoint":"tcp://scheduler:5557","topic":"kv@${POD_IP}@model"}\''
)
TRANSFER = '--kv_transfer_config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''


def main(*variables: Manifest, gpus: str | None = None) -> Manifest:
    """Return a pod spec with the container that KServe configures."""
    container: Manifest = {"name": "main"}
    if variables:
        container["env"] = list(variables)
    if gpus is not None:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"containers": [container]}


PAGE: dict[str, Manifest] = {
    "managed gateway": {"router": {"gateway": {}}},
    "referenced gateway": {
        "router": {
            "gateway": {"refs": [{"name": "my-custom-gateway", "namespace": "istio-system"}]}
        }
    },
    "managed route": {"router": {"route": {}}},
    "events": {"template": main({"name": "VLLM_ADDITIONAL_ARGS", "value": EVENTS})},
    "transfer": {
        "template": main(
            {"name": "KSERVE_INFER_ROCE", "value": "true"},
            {"name": "VLLM_ADDITIONAL_ARGS", "value": TRANSFER},
        )
    },
    "several nodes": {
        "parallelism": {"tensor": 4, "data": 8, "dataLocal": 4},
        "template": main(gpus="4"),
        "worker": main(gpus="4"),
        "prefill": {
            "parallelism": {"tensor": 4, "data": 16, "dataLocal": 8},
            "template": main(gpus="8"),
            "worker": main(gpus="8"),
        },
    },
}


def complete(fragment: Manifest) -> Manifest:
    """Return an LLMInferenceService with a fragment of its spec."""
    template = fragment.get("template", main(gpus="1"))
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llama-3-8b"},
        "spec": {"model": {"uri": URI}, **fragment, "template": template},
    }


def acceptable() -> dict[str, Manifest]:
    """Return LLMInferenceServices with the fragments, except for the invalid one."""
    result = {name: complete(item) for name, item in PAGE.items() if name != "several nodes"}
    # The topic on the page uses a variable that the page does not define.
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    events = copy.deepcopy(result["events"])
    events["spec"]["template"]["containers"][0]["env"].insert(0, address)
    result["events"] = events
    return result


def edited() -> Manifest:
    """Return a service that overrides KServe's presets, storage-initializer and route."""
    initializer = {
        "name": "storage-initializer",
        "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "16Gi"}},
    }
    result = complete({})
    spec = result["spec"]
    spec["template"] = {
        "containers": [
            {
                "name": "main",
                "args": ["--chat-template", "$HOME/chat.jinja"],
                "volumeMounts": [{"name": "model-cache", "mountPath": "/cache"}],
                "livenessProbe": {"failureThreshold": 30},
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
        "initContainers": [initializer],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
    }
    rule = {
        "backendRefs": [
            {
                "group": "inference.networking.x-k8s.io",
                "kind": "InferencePool",
                "name": f"{result['metadata']['name']}-inference-pool",
            }
        ]
    }
    spec["router"] = {
        "route": {"http": {"spec": {"rules": [rule]}}},
        "gateway": {},
        "scheduler": {},
    }
    return result
