"""Services with Gateways whose listeners are known."""

from __future__ import annotations

from typing import Any

from routed import routed
from samples import Manifest

HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}
HTTPS = {
    "name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "tls"}]}
}  # fmt: skip
HOSTS = {"hostnames": ["svc.example.com"]}


def managed(*listeners: Any, httproute: Any = HOSTS, **fields: Any) -> Manifest:
    return routed(httproute=httproute, gateway={"listeners": list(listeners) or [HTTP], **fields})


def referenced(*listeners: Any, namespace: Any = "infra", **fields: Any) -> Manifest:
    ref = {"name": "shared", "namespace": namespace, "listeners": list(listeners), **fields}
    return routed(httproute=HOSTS, gateway={"refs": [ref]})


def open_to(source: str, **listener: Any) -> Manifest:
    return {**HTTP, **listener, "allowedRoutes": {"namespaces": {"from": source}}}
