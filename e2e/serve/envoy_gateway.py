"""Envoy Gateway with its file provider, which runs a real Envoy on this machine.

It reads objects from files instead of the API server, and only logs their status.
"""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from e2e.catalog import program
from e2e.harness import Cluster, Object
from e2e.harness.processes import LOOPBACK, find_ports
from e2e.harness.resources import read_objects
from e2e.serve.engine import ENVOY
from e2e.serve.gateway import find_envoy

_NAME = "envoy-gateway"
_HOMES = ("configHome", "dataHome", "stateHome", "runtimeDir")


class EnvoyGateway:
    """An Envoy Gateway; its Envoy listens on the ports of the Gateway objects."""

    def __init__(self, cluster: Cluster, directory: Path, objects: Iterable[Object]) -> None:
        self._cluster = cluster
        files = directory / "objects"
        files.mkdir(parents=True)
        homes = {name: str(directory / name) for name in _HOMES}
        envoy = directory / "dataHome" / "envoy-versions" / ENVOY / "bin" / "envoy"
        envoy.parent.mkdir(parents=True)
        envoy.symlink_to(find_envoy())
        executable = program("envoy-gateway", "envoy-gateway")
        subprocess.run(
            [executable, "certgen", "--local", "--config-home", homes["configHome"]],
            check=True,
            capture_output=True,
        )
        (self._admin,) = find_ports(1)
        listed = read_objects("class of Envoy Gateway", version=ENVOY, admin=self._admin)
        text = yaml.safe_dump_all([*listed, *objects])
        (files / "objects.yaml").write_text(text, encoding="utf-8")
        settings = directory / "envoy-gateway.yaml"
        (config,) = read_objects("Envoy Gateway", files=str(files), homes=homes)
        settings.write_text(yaml.safe_dump(config), encoding="utf-8")
        cluster.programs.start(_NAME, [executable, "server", f"--config-path={settings}"])

    def make_scrape_config(self) -> Object:
        """Return Prometheus's scrape configuration for Envoy.

        In a cluster, Envoy Gateway exposes this path of the admin interface on port 19001.
        """
        targets = {"targets": [f"{LOOPBACK}:{self._admin}"], "labels": {"pod": "envoy"}}
        return {"job_name": _NAME, "metrics_path": "/stats/prometheus", "static_configs": [targets]}

    def close(self) -> None:
        self._cluster.programs.stop(_NAME)


BACKEND_REFERENCE = {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "engines"}


def replace_pool(route: Object, port: int, addresses: Iterable[str]) -> list[Object]:
    """Return an HTTPRoute's Gateway, a Backend with these addresses, and the route to it.

    The Backend replaces the pool, for which Envoy Gateway needs an extension.
    """
    route = copy.deepcopy(route)
    (parent,) = route["spec"]["parentRefs"]
    objects = read_objects(
        "gateway to engines",
        gateway=parent["name"],
        gateway_namespace=parent["namespace"],
        port=port,
        namespace=route["metadata"]["namespace"],
        endpoints=[{"ip": {"address": address, "port": 8000}} for address in addresses],
    )
    for rule in route["spec"]["rules"]:
        rule["backendRefs"] = [BACKEND_REFERENCE]
    return [*objects, route]
