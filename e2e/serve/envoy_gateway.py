"""Envoy Gateway with its file provider, which runs a real Envoy on this machine.

It reads objects from files instead of the API server, and only logs their status.
"""

from __future__ import annotations

import base64
import copy
import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from e2e.catalog import program
from e2e.harness import Cluster, Object
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.serve.engine import ENVOY
from e2e.serve.gateway import binary

CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
PARAMETERS = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy"}
CLASS = "eg"
_NAME = "envoy-gateway"
_ADMIN_PORT = "/admin/address/socket_address/port_value"


class EnvoyGateway:
    """An Envoy Gateway; its Envoy listens on the ports of the Gateway objects."""

    def __init__(self, cluster: Cluster, directory: Path, objects: Iterable[Object]) -> None:
        self._cluster = cluster
        files = directory / "objects"
        files.mkdir(parents=True)
        homes = {name: str(directory / name) for name in _HOMES}
        envoy = directory / "dataHome" / "envoy-versions" / ENVOY / "bin" / "envoy"
        envoy.parent.mkdir(parents=True)
        envoy.symlink_to(binary())
        executable = program("envoy-gateway", "envoy-gateway")
        subprocess.run(
            [executable, "certgen", "--local", "--config-home", homes["configHome"]],
            check=True,
            capture_output=True,
        )
        (self._admin,) = free_ports(1)
        text = yaml.safe_dump_all([*_class(self._admin), *objects])
        (files / "objects.yaml").write_text(text, encoding="utf-8")
        settings = directory / "envoy-gateway.yaml"
        settings.write_text(yaml.safe_dump(_settings(files, homes)), encoding="utf-8")
        cluster.programs.start(_NAME, [executable, "server", f"--config-path={settings}"])

    def scraped(self) -> Object:
        """Return Prometheus's scrape configuration for Envoy.

        In a cluster, Envoy Gateway exposes this path of the admin interface on port 19001.
        """
        targets = {"targets": [f"{LOOPBACK}:{self._admin}"], "labels": {"pod": "envoy"}}
        return {
            "job_name": _NAME,
            "metrics_path": "/stats/prometheus",
            "static_configs": [targets],
        }

    def close(self) -> None:
        self._cluster.programs.stop(_NAME)


def secret(namespace: str, name: str, **values: str) -> Object:
    """Return a Secret with `data`, because the file provider ignores `stringData`."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": encoded}


BACKEND_REFERENCE = {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "engines"}


def replace_pool(route: Object, port: int, addresses: Iterable[str]) -> list[Object]:
    """Return an HTTPRoute's Gateway, a Backend with these addresses, and the route to it.

    The Backend replaces the pool, for which Envoy Gateway needs an extension.
    """
    route = copy.deepcopy(route)
    (parent,) = route["spec"]["parentRefs"]
    listener = {"name": "http", "protocol": "HTTP", "port": port,
                "allowedRoutes": {"namespaces": {"from": "All"}}}  # fmt: skip
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": parent["name"], "namespace": parent["namespace"]},
        "spec": {"gatewayClassName": CLASS, "listeners": [listener]},
    }
    endpoints = [{"ip": {"address": address, "port": 8000}} for address in addresses]
    backend = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "Backend",
        "metadata": {"name": "engines", "namespace": route["metadata"]["namespace"]},
        "spec": {"endpoints": endpoints},
    }
    for rule in route["spec"]["rules"]:
        rule["backendRefs"] = [BACKEND_REFERENCE]
    return [gateway, backend, route]


_HOMES = ("configHome", "dataHome", "stateHome", "runtimeDir")


def _class(admin: int) -> list[Object]:
    """Return a GatewayClass whose Envoy has its admin interface on this port."""
    proxy = {"name": CLASS, "namespace": "default"}
    host = {"type": "Host", "host": {"envoyVersion": ENVOY}}
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": CLASS},
            "spec": {"controllerName": CONTROLLER, "parametersRef": {**PARAMETERS, **proxy}},
        },
        {
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyProxy",
            "metadata": proxy,
            "spec": {
                "provider": host,
                "bootstrap": {
                    "type": "JSONPatch",
                    "jsonPatches": [{"op": "replace", "path": _ADMIN_PORT, "value": admin}],
                },
            },
        },
    ]


def _settings(files: Path, homes: dict[str, str]) -> Object:
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER},
        "provider": {
            "type": "Custom",
            "custom": {
                "resource": {"type": "File", "file": {"paths": [str(files)]}},
                "infrastructure": {"type": "Host", "host": homes},
            },
        },
        "extensionApis": {"enableBackend": True},
    }
