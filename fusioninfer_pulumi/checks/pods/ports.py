"""Checks of a role's port against its engine's, of loopback addresses, and of probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.availability import StartupArgs
from fusioninfer_pulumi.api.model import ModelArgs, hub_name, parse_model_uri
from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.engine import (
    CONFIG_FLAG,
    HOST_FLAG,
    PORT_FLAG,
    EngineCommand,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, format_path, shown, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.pods.pd_sidecar import find_user_sidecar
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.presets.model_catalogue import model_bytes
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN, FIELD_REQUIRED, TAKEN_BY_TEMPLATE

PROBE_NOT_ANSWERED = Rule("probe-not-answered")
PORT_NOT_SERVED = Rule("port-not-served")
ENGINE_ON_LOOPBACK = Rule("engine-on-loopback")

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_NETWORK = ("httpGet", "tcpSocket", "grpc")


def port_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check who listens on which port of a role's pods."""
    if pods.kv is None or pods.kv.sidecar is None:
        yield from _check_port(pods, ctx)
    yield from _check_loopback(pods)
    for pod in pods.user_pods:
        yield from _check_probes(pod, pods, ctx)
    yield from _check_engine_probes(pods)


def find_served_port(command: EngineCommand) -> int | None:
    """Return the port that an engine listens on, None if its command line does not show it."""
    if command.engine is None or command.port is not None:
        return command.port
    if not command.readable or command.has(PORT_FLAG, CONFIG_FLAG):
        return None
    return command.engine.default_port


def _other_containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Yield the user's other containers that run while the engine serves."""
    spec = pod.user_template["spec"]
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*spec["containers"], *sidecars):
        if container.get("name") != pod.name:
            yield container


def _check_loopback(pods: RolePods) -> Iterator[Finding]:
    """Report an engine that listens on loopback, where the kubelet's probes cannot reach it."""
    command, engine = pods.command, pods.command.engine
    leader = pods.leader
    proxied = pods.kv is not None and pods.kv.sidecar is not None
    proxied = proxied or find_user_sidecar(leader.user_template, leader.name, pods.port) is not None
    if engine is None or not command.readable or proxied:
        return
    explicit = command.value(HOST_FLAG)
    default = None if command.has(HOST_FLAG, CONFIG_FLAG) else engine.default_host
    host = (default if explicit is None else explicit) or ""
    if not (host in ("localhost", "::1", "[::1]") or host.startswith("127.")):
        return
    # A custom image may have another default.
    make_finding = error if explicit is not None else warning
    source = f"{HOST_FLAG} {host}" if explicit is not None else f"{engine.title}'s default {host}"
    yield make_finding(
        ENGINE_ON_LOOPBACK,
        pods.leader.command_path,
        f"with {source} it listens only inside its pod, where neither gateway nor probes reach "
        f"it; write {HOST_FLAG} 0.0.0.0",
    )


def _network_actions(handler: Any) -> Iterator[tuple[str, Any]]:
    """Yield the network actions of a probe or hook, with their ports."""
    for kind in _NETWORK:
        action = handler.get(kind) if isinstance(handler, Mapping) else None
        if isinstance(action, Mapping) and not action.get("host"):
            yield kind, action.get("port")


def _check_probes(pod: Pod, pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Report probes and hooks of undeclared port names, or of ports on which nothing listens."""
    containers = (*pod.spec["containers"], *(pod.spec.get("initContainers") or ()))
    built = {container["name"]: container for container in containers}
    for field in ("containers", "initContainers"):
        for index, user_container in enumerate(pod.user_template["spec"].get(field) or ()):
            container, at = built[user_container["name"]], (*pod.path, "spec", field, index)
            named = {
                entry["name"]: entry.get("containerPort")
                for entry in container.get("ports") or ()
                if entry.get("name")
            }
            for where, kind, port in _user_probes(container, user_container):
                here = (*at, *where, kind, "port")
                number = named.get(port) if isinstance(port, str) else port
                if isinstance(port, str) and port not in named:
                    have = f"; it has {', '.join(named)}" if named else ""
                    message = f'no port of the container is called "{port}"{have}'
                    yield error(PROBE_NOT_ANSWERED, here, f"{message}: name one of its ports")
                elif isinstance(number, int) and user_container["name"] == pod.name:
                    yield from _check_answered(here, number, pod, pods, ctx)


def _user_probes(
    container: Mapping[str, Any], user_container: Mapping[str, Any]
) -> Iterator[tuple[Location, str, Any]]:
    """Yield the user's probes and hooks as they are in the finished container."""
    for name in _PROBES:
        if name in user_container:
            for kind, port in _network_actions(container.get(name)):
                yield (name,), kind, port
    hooks = container.get("lifecycle")
    if isinstance(hooks, Mapping):
        for hook in _HOOKS:
            for kind, port in _network_actions(hooks.get(hook)):
                yield ("lifecycle", hook), kind, port


def _check_answered(
    at: Location, port: int, pod: Pod, pods: RolePods, ctx: Context
) -> Iterator[Finding]:
    """Report a probe of the serving container for a port on which nothing in the pod listens."""
    has_others = any(True for _ in _other_containers(pod))
    if not pod.is_leader:
        if not has_others and (reason := _explain_silent_worker(pod, pods, ctx)) is not None:
            message = f"{reason}: nothing listens on port {port}; remove the probe"
            yield error(PROBE_NOT_ANSWERED, at, message)
        return
    command, listens = pods.command, find_served_port(pods.command)
    if command.engine is None or listens is None or not command.readable:
        return
    other_ports = {
        entry.get("containerPort")
        for other in _other_containers(pod)
        for entry in other.get("ports") or ()
    }
    if port in {listens, pods.port, *other_ports}:
        return
    declared = port in {
        entry.get("containerPort") for entry in pod.user_container.get("ports") or ()
    }
    if command.script is not None and declared:
        return  # the script may start another server
    make_finding = warning if command.script is not None or has_others or declared else error
    yield make_finding(
        PROBE_NOT_ANSWERED,
        at,
        f"{command.engine.title} serves on port {listens}, and nothing listens on port {port}; "
        f"probe {listens}",
    )


def _explain_silent_worker(worker: Pod, pods: RolePods, ctx: Context) -> str | None:
    """Explain why a worker's pod serves nothing; None if it may serve."""
    if ctx.launcher is Launcher.RAY:
        return "with launcher ray, workers run only Ray"
    engine = pods.command.engine
    if ctx.launcher is Launcher.NONE:
        user_command = worker.user_command
        return (
            "--headless serves nothing"
            if user_command.readable and user_command.has("--headless")
            else None
        )
    if engine is not None and not engine.workers_answer:
        return f"{engine.title} serves only on the leader"
    return None


def _check_engine_probes(pods: RolePods) -> Iterator[Finding]:
    """Check the paths that probes of the engine's container request."""
    pod, command, engine = pods.leader, pods.command, pods.command.engine
    if engine is None or not command.readable:
        return
    named = {
        entry.get("name"): entry.get("containerPort")
        for entry in pod.user_container.get("ports") or ()
    }
    for name in _PROBES:
        probe, at = pod.user_container.get(name) or {}, (*pod.container_path, name)
        action = probe.get("httpGet") or {}
        port = action.get("port")
        if action and named.get(port, port) == find_served_port(command):
            yield from _check_http_probe((*at, "httpGet"), action, pods)


def _check_http_probe(at: Location, action: dict[str, Any], pods: RolePods) -> Iterator[Finding]:
    command, engine = pods.command, pods.command.engine
    if engine is None:
        return
    path = action.get("path") or "/"
    known = (engine.health_path, *engine.probe_paths)
    serves_custom_paths = command.has("--middleware", *engine.grpc_flags)
    if isinstance(path, str) and engine.paths_with_api_key.match(path) and _lacks_key(action, pods):
        message = (
            f"{engine.title} answers {shown(path)} with 401, because the probe has no API key; use "
            f"{engine.health_path}"
        )
        yield error(PROBE_NOT_ANSWERED, (*at, "path"), message)
    elif isinstance(path, str) and path.partition("?")[0] not in known and not serves_custom_paths:
        message = f"{engine.title} answers no GET of {shown(path)}; use {engine.health_path}"
        yield warning(PROBE_NOT_ANSWERED, (*at, "path"), message)


def _lacks_key(action: dict[str, Any], pods: RolePods) -> bool:
    """Whether the engine asks for an API key that a probe does not send."""
    engine = pods.command.engine
    variables = {entry.get("name") for entry in pods.leader.user_container.get("env") or ()}
    is_set = engine is not None and engine.key_variable in variables
    headers = {str(header.get("name")).lower() for header in action.get("httpHeaders") or ()}
    return (is_set or pods.command.has("--api-key")) and "authorization" not in headers


_REACHED = "probes, Service and pool would use a port on which nothing listens"


def _check_port(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Compare the port of a role with the one that its engine listens on.

    `port` may be that of another container, such as the user's proxy: then there is no finding.
    """
    leader, port, explicit = pods.leader, pods.port, ctx.role.port
    command, at = leader.user_command, leader.command_path
    engine, user_port = command.engine, command.port
    listens = find_served_port(command)
    if engine is None or listens is None or listens == port:
        return
    if find_user_sidecar(leader.user_template, leader.name, port) is not None:
        return
    declared = {entry.get("containerPort") for entry in leader.user_container.get("ports") or ()}
    if command.script is not None and port in declared:
        return  # the script may start a proxy in front of the engine
    field = ctx.at("port")
    if user_port is not None:
        make_finding = error if command.readable else warning
        reason = f"{PORT_FLAG} {user_port} of the engine"
        if explicit is not None:
            message = (
                f"{port} conflicts with {reason} ({format_path(at)}): {_REACHED}; remove one of "
                "them"
            )
            yield make_finding(PORT_NOT_SERVED, field, message)
        else:
            message = f"{reason} is not the port {port} of the role: {_REACHED}"
            yield make_finding(PORT_NOT_SERVED, at, message)
        return
    reason = f"{engine.name} listens on {listens} without {PORT_FLAG}"
    way_out = f"{_REACHED}; add {PORT_FLAG}={port} to its arguments"
    if explicit is not None:
        # The entrypoint of a custom image may choose the port.
        make_finding = error if command.program or command.image.stock else warning
        message = f"{port} is not where the engine listens: {reason}: {way_out}"
        yield make_finding(PORT_NOT_SERVED, field, message)
    else:
        message = f"the role is reached on port {port}, but {reason}: {way_out}"
        yield warning(PORT_NOT_SERVED, at, message)


LIVENESS_PROBE_TOO_EARLY = Rule("liveness-probe-too-early")
STARTUP_PROBE_TOO_SHORT = Rule("startup-probe-too-short")

#: A liveness probe that waits no longer than this restarts most engines while they load.
_EARLY_SECONDS = 600


def startup_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check `startup`, and liveness probes that would restart an engine that is still loading."""
    at, startup = ctx.at("startup"), ctx.role.startup
    leader, command = pods.leader, pods.command
    yield from _check_startup_probe(pods, ctx)
    if startup is None:
        if command.engine is not None:
            yield from _check_liveness_probe(at, leader.user_container)
    elif startup.timeout is None and startup.model_size is None:
        message = "requires timeout, modelSize, or the size of the service's model (model.size)"
        yield error(FIELD_REQUIRED, at, message)
    elif "startupProbe" in leader.user_container:
        message = "conflicts with the container's startupProbe; remove one of them"
        yield error(TAKEN_BY_TEMPLATE, at, message)
    elif command.engine is None:
        yield error(
            ENGINE_UNKNOWN,
            at,
            "requires a known engine; remove it, and write a startupProbe into the template",
        )


def _check_liveness_probe(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    probe = container.get("livenessProbe")
    if not isinstance(probe, Mapping) or "startupProbe" in container:
        return
    numbers = [
        probe.get("initialDelaySeconds") or 0,
        probe.get("periodSeconds") or 10,
        probe.get("failureThreshold") or 3,
    ]
    if not all(isinstance(number, int) for number in numbers):
        return  # an Output, or for the API server to judge
    delay, period, failures = numbers
    seconds = delay + period * failures
    if seconds < _EARLY_SECONDS:
        yield warning(
            LIVENESS_PROBE_TOO_EARLY,
            at,
            f"is not set, and the livenessProbe restarts the container after {seconds} s: a model "
            "that takes longer never loads; set startup.timeout",
        )


def _check_startup_probe(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Compare the startup probe with the time that reading the weights takes."""
    probe = pods.leader.container.get("startupProbe")
    user_probe = "startupProbe" in pods.leader.user_container
    startup = ctx.role.startup or StartupArgs()
    chosen = user_probe or startup.timeout is not None
    model, uri = ctx.model, f"hf://{pods.command.model}"
    if model is None and parse_model_uri(uri) is not None:
        model = ModelArgs(uri=uri)
    if model is None or not isinstance(probe, Mapping) or not chosen:
        return
    size = model.size or model_bytes(model, hub_name(model.uri) or "")
    numbers = [probe.get("periodSeconds") or 10, probe.get("failureThreshold") or 3]
    if size is None or not all(isinstance(number, int) for number in numbers):
        return
    allowed = math.prod(numbers) + (probe.get("initialDelaySeconds") or 0)
    needed = math.ceil(quantity.parse(size) / quantity.parse(startup.read_rate))
    if allowed < needed:
        probe_path = (*pods.leader.container_path, "startupProbe")
        yield warning(
            STARTUP_PROBE_TOO_SHORT,
            probe_path if user_probe else ctx.at("startup", "timeout"),
            f"allows {allowed} s, but reading the weights ({quantity.parse(size) / 2**30:.0f} GiB) "
            f"takes {needed} s at {startup.read_rate}/s; the kubelet restarts the container before "
            "the model is loaded",
        )
