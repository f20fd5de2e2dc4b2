"""Small services with a router, for tables of cases."""

from __future__ import annotations

from typing import Any

from samples import Manifest, rendered, role, service

#: A route as in the router document's examples.
ROUTE: Manifest = {
    "parentRefs": [{"name": "my-gateway", "namespace": "gateway-system"}],
    "hostnames": ["svc.example.com"],
}
#: The document's image, and one of each later generation.
V1_2 = "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1"
V1_5 = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"
LLM_D = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"


def router(**fields: Any) -> Manifest:
    """Return a router role with the document's route; None leaves a field out."""
    built = {"name": "router", "componentType": "router", "httproute": ROUTE, **fields}
    return {key: value for key, value in built.items() if value is not None}


def routed(*roles: Manifest, metadata: Any = None, **fields: Any) -> Manifest:
    """Return a service of a router with these fields and, by default, one plain worker role."""
    return service(router(**fields), *(roles or (role(),)), metadata=metadata)


def pair(*more: Manifest, **fields: Any) -> Manifest:
    """Return a service of a router, a prefiller, a decoder, and more roles."""
    roles = (role("prefill", "prefiller", kvTransfer={}), role("decode", "decoder", kvTransfer={}))
    return routed(*roles, *more, **fields)


def objects(manifest: Manifest, kind: str) -> list[Manifest]:
    """Return all objects of a kind."""
    return [item for item in rendered(manifest) if item["kind"] == kind]


def only(manifest: Manifest, kind: str) -> Manifest:
    """Return the one object of a kind."""
    (item,) = objects(manifest, kind)
    return item


def picker_container(manifest: Manifest) -> Manifest:
    """Return the picker's container."""
    containers: list[Manifest] = only(manifest, "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    return next(container for container in containers if container["name"] == "epp")
