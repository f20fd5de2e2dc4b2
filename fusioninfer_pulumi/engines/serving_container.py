"""Which container of a pod serves the model, and on which port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.engines.command import EngineCommand

#: Names by which the serving container is found, in this order.
SERVING_NAMES = ("vllm", "sglang", "engine", "main")
DEFAULT_PORT = 8000


def serving_container(template: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Finds the serving container: the one named, else by usual names, else the first."""
    containers = {container["name"]: container for container in template["spec"]["containers"]}
    for candidate in (name, *SERVING_NAMES):
        if candidate in containers:
            found: Mapping[str, Any] = containers[candidate]
            return found
    first: Mapping[str, Any] = next(iter(containers.values()))
    return first


def serving_port(container: Mapping[str, Any], command: EngineCommand, given: int | None) -> int:
    """Port of the serving container.

    Args:
        container: The serving container.
        command: Its engine's command line.
        given: The role's `port`, None when it states none.

    Returns:
        `given`, else the engine's `--port`, else the container port named http, else the first
        container port, else 8000.
    """
    stated = given or table.serving_port(command)
    if stated is not None:
        return stated
    ports = container.get("ports") or ()
    named = [port["containerPort"] for port in ports if port.get("name") == "http"]
    listed = named or [port["containerPort"] for port in ports]
    return int(listed[0]) if listed else DEFAULT_PORT
