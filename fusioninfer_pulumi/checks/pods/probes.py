"""Probes of the engine that ask what it does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.checks.pods.ports import PROBE_NOT_ANSWERED, served_port
from fusioninfer_pulumi.findings import Finding, Location, error, shown, warning
from fusioninfer_pulumi.pods.pod import Context, RolePods

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def probe_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Checks the probes that the user wrote for the container of the engine."""
    pod, command, engine = pods.leader, pods.command, pods.command.engine
    if engine is None or not command.readable:
        return
    named = {entry.get("name"): entry.get("containerPort") for entry in pod.own.get("ports") or ()}
    for name in _PROBES:
        probe, at = pod.own.get(name) or {}, (*pod.container_path, name)
        for kind in ("httpGet", "grpc"):
            action = probe.get(kind) or {}
            port = action.get("port")
            if not action or named.get(port, port) != served_port(command):
                continue
            if kind == "httpGet":
                yield from _http((*at, kind), action, pods)
            elif not command.has(*engine.grpc_flags):
                message = f"{engine.title} speaks HTTP here; use httpGet with {engine.health_path}"
                yield error(PROBE_NOT_ANSWERED, (*at, kind), message)


def _http(at: Location, action: dict[str, Any], pods: RolePods) -> Iterator[Finding]:
    command, engine = pods.command, pods.command.engine
    if engine is None:
        return
    host, path = action.get("host"), action.get("path") or "/"
    loopback = isinstance(host, str) and (host == "localhost" or host.startswith("127."))
    if loopback and pods.leader.spec.get("hostNetwork") is not True:
        message = "the kubelet asks the node itself there, and not the pod; remove it"
        yield error(PROBE_NOT_ANSWERED, (*at, "host"), message)
    asks = "HTTPS" if action.get("scheme") == "HTTPS" else "HTTP"
    speaks = "HTTPS" if command.serves_https else "HTTP"
    if asks != speaks:
        message = f"{engine.title} speaks {speaks} here, and the probe {asks}; set it to {speaks}"
        yield error(PROBE_NOT_ANSWERED, (*at, "scheme"), message)
    known = (engine.health_path, *engine.probe_paths)
    other = command.has("--middleware", *engine.grpc_flags)
    if isinstance(path, str) and engine.keyed_paths.match(path) and _lacks_key(action, pods):
        message = (
            f"{engine.title} answers {shown(path)} with 401, because the probe has no API key; use "
            f"{engine.health_path}"
        )
        yield error(PROBE_NOT_ANSWERED, (*at, "path"), message)
    elif isinstance(path, str) and path.partition("?")[0] not in known and not other:
        message = f"{engine.title} answers no GET of {shown(path)}; use {engine.health_path}"
        yield warning(PROBE_NOT_ANSWERED, (*at, "path"), message)


def _lacks_key(action: dict[str, Any], pods: RolePods) -> bool:
    """Whether the engine asks for an API key that a probe does not send."""
    engine = pods.command.engine
    variables = {entry.get("name") for entry in pods.leader.own.get("env") or ()}
    is_set = engine is not None and engine.key_variable in variables
    headers = {str(header.get("name")).lower() for header in action.get("httpHeaders") or ()}
    return (is_set or pods.command.has("--api-key")) and "authorization" not in headers
