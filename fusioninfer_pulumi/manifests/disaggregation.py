"""What the pods of a wired role carry beside their template: an address, ports, memory.

What the user wrote is never replaced: a variable, a port, a mount at /dev/shm or a label of the
same name stays as it is. Only the ports by which the template means the engine follow it, when it
makes room for the sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.plan.disaggregation.records import Wiring
from fusioninfer_pulumi.plan.pod_edits import (
    shared_memory,
    with_env,
    with_mounts,
    with_volumes,
)

Manifest = dict[str, Any]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("httpGet", "tcpSocket", "grpc")


def wired_container(container: Manifest, wiring: Wiring, spec: Mapping[str, Any]) -> Manifest:
    """Adds to the serving container of every pod of a role what it needs.

    Args:
        container: The container; it is not changed.
        wiring: What the role's pods get.
        spec: The pod spec of its template.
    """
    built = with_env(container, wiring.env)
    added = _shared_memory(container, wiring, spec)
    return built if added is None else with_mounts(built, [added[1]])


def wired_leader(container: Manifest, wiring: Wiring, *, host_network: bool) -> Manifest:
    """Lets a leader's ports and probes follow its engine, and declares what else it listens on.

    Args:
        container: The leader's serving container; it is not changed.
        wiring: What the role's pods get.
        host_network: Whether the pod uses its node's network.
    """
    built = dict(container)
    ports: list[Manifest] = []
    for port in built.get("ports") or ():
        moved = dict(port)
        if port.get("containerPort") in wiring.moved_from:
            moved["containerPort"] = wiring.engine_port
            if host_network and "hostPort" in port:
                moved["hostPort"] = wiring.engine_port  # the two have to be the same there
        if not _listed(ports, moved):
            ports.append(moved)
    ports += [dict(each) for each in wiring.ports if not _listed(ports, each)]
    if ports:
        built["ports"] = ports
    for name in _PROBES:
        if isinstance(built.get(name), Mapping):
            built[name] = _moved(built[name], wiring)
    lifecycle = built.get("lifecycle")
    if isinstance(lifecycle, Mapping):
        built["lifecycle"] = {
            hook: _moved(handler, wiring) if isinstance(handler, Mapping) else handler
            for hook, handler in lifecycle.items()
        }
    return built


def wired_spec(spec: Manifest, container: Mapping[str, Any], wiring: Wiring) -> Manifest:
    """Adds to a pod spec the volume that its serving container mounts.

    Args:
        spec: The pod spec as the template has it; it is not changed.
        container: The serving container as the template has it.
        wiring: What the role's pods get.
    """
    added = _shared_memory(container, wiring, spec)
    return spec if added is None else with_volumes(spec, [added[0]])


def _shared_memory(
    container: Mapping[str, Any], wiring: Wiring, spec: Mapping[str, Any]
) -> tuple[Manifest, Manifest] | None:
    if wiring.shared_memory is None:
        return None
    return shared_memory(spec, container, wiring.shared_memory)


def _listed(ports: list[Manifest], port: Mapping[str, Any]) -> bool:
    def key(each: Mapping[str, Any]) -> tuple[Any, Any]:
        return each.get("containerPort"), each.get("protocol") or "TCP"

    names = {each.get("name") for each in ports} - {None}
    return key(port) in {key(each) for each in ports} or port.get("name") in names


def _moved(handled: Mapping[str, Any], wiring: Wiring) -> Manifest:
    """A probe or lifecycle hook with its port moved; a named port moves with the container's."""
    moved = dict(handled)
    for name in _HANDLERS:
        action = moved.get(name)
        if isinstance(action, Mapping) and action.get("port") in wiring.moved_from:
            moved[name] = {**action, "port": wiring.engine_port}
    return moved
