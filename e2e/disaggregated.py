"""Services whose prefill and decode pods work on one request, for the tests of their wiring."""

from __future__ import annotations

import copy
from typing import Any

from e2e.harness import Cluster, Object
from e2e.harness.pods import LEADERS
from e2e.routers import objects_of

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
    """A service of two prefill and two decode replicas, without a gang."""
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


def lws_named(objects: list[Object], role: str) -> Object:
    """The first LeaderWorkerSet of a role."""
    return next(
        manifest
        for manifest in objects
        if manifest["kind"] == "LeaderWorkerSet"
        and manifest["metadata"]["labels"]["fusioninfer.io/role-name"] == role
    )


def await_leaders(cluster: Cluster, namespace: str, count: int) -> None:
    """Waits until so many leaders are ready."""
    cluster.wait(
        lambda: len(cluster.ready(namespace, LEADERS)) == count,
        60,
        lambda: cluster.pods(namespace),
    )


def started(cluster: Cluster, namespace: str, manifest: Object, *, leading: int) -> list[Object]:
    """Applies a service without its picker, which runs outside of the cluster."""
    objects = objects_of(manifest)
    cluster.add_nodes(1)
    cluster.apply([each for each in objects if each["kind"] != "Deployment"])
    await_leaders(cluster, namespace, leading)
    return objects
