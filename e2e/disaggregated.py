"""Services whose prefill and decode pods work on one request, for the tests of their wiring."""

from __future__ import annotations

import copy
from typing import Any

from e2e.harness import Object

NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'

#: What a container and a pod need in a namespace that enforces the restricted profile.
RESTRICTED_CONTAINER = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}


def disaggregated(
    namespace: str,
    *,
    prefill: dict[str, Any] | None = None,
    decode: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = None,
    **router: Any,
) -> Object:
    """A service of two prefill and two decode replicas, without a gang.

    Args:
        namespace: Its namespace.
        prefill: More fields of the prefill role.
        decode: More fields of the decode role.
        container: More fields of the engine's container.
        pod: More fields of the pods' spec.
        router: More fields of the router role.
    """
    engine = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "m", "--kv-transfer-config", NIXL],
        "resources": {"requests": {"cpu": "1"}},
        **(container or {}),
    }
    template = {"spec": {"containers": [engine], **(pod or {})}}

    def serving(name: str, component_type: str, more: dict[str, Any] | None) -> Object:
        built = {"name": name, "componentType": component_type, "replicas": 2}
        return {**built, "template": copy.deepcopy(template), **copy.deepcopy(more or {})}

    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "svc", "namespace": namespace},
        "spec": {
            "roles": [
                {
                    "name": "router",
                    "componentType": "router",
                    "strategy": "pd-disaggregation",
                    "httproute": {"parentRefs": [{"name": "gateway"}]},
                    **router,
                },
                serving("prefill", "prefiller", prefill),
                serving("decode", "decoder", decode),
            ],
            "schedulingStrategy": {"gangPolicy": {"mode": "Off"}},
        },
    }
