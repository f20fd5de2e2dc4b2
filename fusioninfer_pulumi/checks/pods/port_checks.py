"""Checks of a role's port, of an engine's address, and of probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.availability import StartupArgs
from fusioninfer_pulumi.api.model import ModelArgs, parse_model_uri
from fusioninfer_pulumi.checks.pods.template_checks import as_mapping
from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, HOST_FLAG, PORT_FLAG, EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, quote_value, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.durations import format_duration
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.pods.pd_sidecar import find_user_sidecar
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.presets.model_catalogue import get_weights_size
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN, FIELD_REQUIRED, TAKEN_BY_TEMPLATE

PROBE_NOT_ANSWERED = Rule("probe-not-answered")
PORT_NOT_SERVED = Rule("port-not-served")
ENGINE_ON_LOOPBACK = Rule("engine-on-loopback")

_PROBE_PATHS: tuple[tuple[str, ...], ...] = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
#: Fields of a probe or hook that name a port.
_NETWORK_ACTIONS = ("httpGet", "tcpSocket", "grpc")


def check_role_port(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check that engine, role and probes use one port, and that other pods can reach the engine."""
    # A generated sidecar listens on the role's port in place of the engine.
    if pods.kv is None or pods.kv.sidecar is None:
        yield from _check_port(pods, ctx)
    yield from _check_loopback(pods)
    yield from _check_probes(pods)


def get_engine_port(command: EngineCommand) -> int | None:
    """Return the port that the engine listens on, or None if the command line does not show it."""
    if command.engine is None or command.port is not None:
        return command.port
    if not command.is_readable or command.has(PORT_FLAG, CONFIG_FLAG):
        return None
    return command.engine.http.default_port


def _check_loopback(pods: RolePods) -> Iterator[Finding]:
    """Report an engine that listens on loopback, where the kubelet's probes cannot reach it."""
    command, engine, leader = pods.command, pods.command.engine, pods.leader
    has_sidecar = pods.kv is not None and pods.kv.sidecar is not None
    user_sidecar = find_user_sidecar(leader.initial_template, leader.container_name, pods.port)
    if engine is None or not command.is_readable or has_sidecar or user_sidecar is not None:
        return
    host = command.value(HOST_FLAG)
    make_finding, source = error, f"{HOST_FLAG} {host}"
    if host is None and not command.has(HOST_FLAG, CONFIG_FLAG):
        host = engine.http.default_host
        # Only a warning, because a custom image may have a different default.
        make_finding, source = warning, f"{engine.title}'s default {host}"
    is_loopback = host in ("localhost", "::1", "[::1]") or (host or "").startswith("127.")
    if not is_loopback:
        return
    message = (
        f"with {source} the engine listens only inside its pod, where neither gateway nor probes "
        f"reach it; set {HOST_FLAG} 0.0.0.0"
    )
    yield make_finding(ENGINE_ON_LOOPBACK, pods.leader.command_path, message)


def _check_probes(pods: RolePods) -> Iterator[Finding]:
    """Report probes and hooks of the engine's container that nothing answers."""
    pod, command, engine_port = pods.leader, pods.command, get_engine_port(pods.command)
    engine = command.engine
    if engine is None or engine_port is None or not command.is_readable:
        return
    ports = pod.container.get("ports") or ()
    numbers_by_name = {p["name"]: p.get("containerPort") for p in ports if p.get("name")}
    containers = (*pod.spec["containers"], *(pod.spec.get("initContainers") or ()))
    other_containers = [other for other in containers if other["name"] != pod.container_name]
    other_ports = {
        entry.get("containerPort")
        for other in other_containers
        for entry in other.get("ports") or ()
    }
    listening_ports = {engine_port, pods.port, *other_ports}
    declared_ports = {entry.get("containerPort") for entry in ports}
    # Another container, or another program in a script, may listen on any port.
    is_only_listener = not other_containers and command.script is None
    for path in _PROBE_PATHS:
        user_probe = as_mapping(lookup(pod.initial_container, *path))
        probe = as_mapping(lookup(pod.container, *path))
        for action_name in _NETWORK_ACTIONS:
            # Probes that the library adds need no check.
            action = probe.get(action_name) if action_name in user_probe else None
            if not isinstance(action, Mapping) or action.get("host"):
                continue
            port, location = action.get("port"), (*pod.container_path, *path, action_name)
            number = numbers_by_name.get(port) if isinstance(port, str) else port
            if number is None and isinstance(port, str):
                message = f'the container has no port named "{port}"; use one of its ports'
                yield error(PROBE_NOT_ANSWERED, (*location, "port"), message)
            elif isinstance(number, int) and number not in listening_ports:
                make_finding = (
                    error if is_only_listener and number not in declared_ports else warning
                )
                message = (
                    f"{engine.title} serves on port {engine_port}, and nothing listens on port "
                    f"{number}; probe {engine_port}"
                )
                yield make_finding(PROBE_NOT_ANSWERED, (*location, "port"), message)
            elif action_name == "httpGet" and _lacks_api_key(action, pods):
                message = (
                    f"{engine.title} answers {quote_value(action['path'])} with 401, because the "
                    f"probe has no API key; use {engine.http.health_path}"
                )
                yield error(PROBE_NOT_ANSWERED, (*location, "path"), message)


def _lacks_api_key(action: Mapping[str, Any], pods: RolePods) -> bool:
    """Return whether the engine requires an API key that the probe does not send."""
    engine, path = pods.command.engine, action.get("path")
    if engine is None or not isinstance(path, str):
        return False
    variables = {entry.get("name") for entry in pods.leader.initial_container.get("env") or ()}
    headers = {str(header.get("name")).lower() for header in action.get("httpHeaders") or ()}
    has_key = engine.http.api_key_variable in variables or pods.command.has("--api-key")
    needs_key = has_key and engine.http.paths_with_api_key.match(path) is not None
    return needs_key and "authorization" not in headers


def _check_port(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check that the engine, or the user's sidecar, listens on the port of probes and pool."""
    leader, port, user_port = pods.leader, pods.port, ctx.role.port
    command = leader.initial_command
    location = leader.command_path if user_port is None else ctx.locate("port")
    engine, port_argument = command.engine, command.port
    engine_port = get_engine_port(command)
    if engine is None or engine_port is None or engine_port == port:
        return
    if find_user_sidecar(leader.initial_template, leader.container_name, port) is not None:
        return
    declared_ports = {
        entry.get("containerPort") for entry in leader.initial_container.get("ports") or ()
    }
    if command.script is not None and port in declared_ports:
        return  # the script may start a proxy in front of the engine
    # It is uncertain what a custom image's entrypoint or an unreadable script listens on. If no
    # port is set, the engine's default may be what the user wants.
    runs_known_program = bool(command.program) or command.image.is_stock
    is_certain = command.is_readable if port_argument else runs_known_program
    make_finding = error if is_certain and (port_argument or user_port) else warning
    default = ", its default" if port_argument is None else ""
    message = (
        f"probes, Service and pool use port {port}, but {engine.title} listens on port "
        f"{engine_port}{default}; add {PORT_FLAG}={port} to its arguments"
    )
    yield make_finding(PORT_NOT_SERVED, location, message)


LIVENESS_PROBE_TOO_EARLY = Rule("liveness-probe-too-early")
STARTUP_PROBE_TOO_SHORT = Rule("startup-probe-too-short")

#: A liveness probe that fails earlier than this restarts most engines while they load.
_EARLY_SECONDS = 600


def check_startup(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check `startup`, and probes that would restart an engine that is still loading."""
    location, startup = ctx.locate("startup"), ctx.role.startup
    leader, command = pods.leader, pods.command
    yield from _check_startup_probe(pods, ctx)
    if startup is None:
        if command.engine is not None:
            yield from _check_liveness_probe(location, leader.initial_container)
    # `add_model_size` has set `model_size` if the service has `model.size`.
    elif startup.timeout is None and startup.model_size is None:
        message = "requires timeout, modelSize, or the size of the service's model (model.size)"
        yield error(FIELD_REQUIRED, location, message)
    elif "startupProbe" in leader.initial_container:
        message = "conflicts with the container's startupProbe; remove one of them"
        yield error(TAKEN_BY_TEMPLATE, location, message)
    elif command.engine is None:
        message = "requires a known engine; remove it, and set a startupProbe in the template"
        yield error(ENGINE_UNKNOWN, location, message)


def _check_liveness_probe(location: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    probe = container.get("livenessProbe")
    if not isinstance(probe, Mapping) or "startupProbe" in container:
        return
    seconds = _compute_probe_seconds(probe)
    if seconds is not None and seconds < _EARLY_SECONDS:
        message = (
            f"is not set, and the livenessProbe restarts the container after {seconds} s: a model "
            "that takes longer never loads; set startup.timeout"
        )
        yield warning(LIVENESS_PROBE_TOO_EARLY, location, message)


def _compute_probe_seconds(probe: Mapping[str, Any]) -> int | None:
    """Return the seconds until a failing probe restarts a container, or None if unknown."""
    delay = probe.get("initialDelaySeconds") or 0
    period = probe.get("periodSeconds") or 10
    failures = probe.get("failureThreshold") or 3
    # Other values are Outputs, or rejected by the API server.
    is_known = all(isinstance(number, int) for number in (delay, period, failures))
    return delay + period * failures if is_known else None


def _check_startup_probe(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn about a startup probe that fails before the engine has read the weights."""
    probe = pods.leader.container.get("startupProbe")
    has_user_probe = "startupProbe" in pods.leader.initial_container
    startup = ctx.role.startup or StartupArgs()
    is_explicit = has_user_probe or startup.timeout is not None
    # Without `model`, the size is that of the engine's `--model`, if it is a Hugging Face name.
    model, uri = ctx.args.model, f"hf://{pods.command.model}"
    if model is None and parse_model_uri(uri) is not None:
        model = ModelArgs(uri=uri)
    if model is None or not isinstance(probe, Mapping) or not is_explicit:
        return
    size = get_weights_size(model)
    allowed = _compute_probe_seconds(probe)
    if size is None or allowed is None:
        return
    needed = math.ceil(size / quantity.parse(startup.read_rate))
    if allowed < needed:
        probe_path = (*pods.leader.container_path, "startupProbe")
        yield warning(
            STARTUP_PROBE_TOO_SHORT,
            probe_path if has_user_probe else ctx.locate("startup", "timeout"),
            f"allows {format_duration(allowed)}, but reading the weights ({size / 2**30:.0f} GiB) "
            f"takes {format_duration(needed)} at {startup.read_rate}/s: the kubelet restarts the "
            "container before the model is loaded; allow more",
        )
