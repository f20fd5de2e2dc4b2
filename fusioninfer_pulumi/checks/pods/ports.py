"""Ports of a pod: two servers on one, unreachable servers, probes that nothing answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fusioninfer_pulumi.api.role import Launcher, RoleArgs
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import (
    CONFIG_FLAG,
    HOST_FLAG,
    PORT_FLAG,
    EngineCommand,
    KvConnector,
)
from fusioninfer_pulumi.engines.flags import integer
from fusioninfer_pulumi.engines.launch import RAY_PORT
from fusioninfer_pulumi.engines.parallelism import local_ranks
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, path_text, warning
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.pods.sidecar import own_sidecar

PROBE_NOT_ANSWERED = Rule(
    "probe-not-answered",
    ("warning", "error"),
    "What a probe or hook asks is answered by its container.",
    remedy="Probe a port and a path that the engine serves, in its protocol.",
    source="https://kubernetes.io/docs/concepts/workloads/pods/probes/",
)

PORT_NOT_SERVED = Rule(
    "port-not-served",
    ("error", "warning"),
    "The engine listens on the port that the pool or Service uses.",
    remedy="Correct `port`, or the engine's `--port`.",
)
PORTS_CLASH = Rule(
    "ports-clash",
    ("error", "warning"),
    "Two servers of a pod listen on different ports; ranks take ports in a row.",
    remedy="Change one of the ports.",
)
ENGINE_ON_LOOPBACK = Rule(
    "engine-on-loopback",
    ("error", "warning"),
    "The engine serves on a port, at an address that other pods reach.",
    remedy="Write `--host 0.0.0.0`, and no `--uds`.",
    source="SGLang's `ServerArgs.host` is 127.0.0.1 (0.4.6 to 0.5.23)",
)
HOST_NETWORK_WITHOUT_CLUSTER_DNS = Rule(
    "host-network-without-cluster-dns",
    "warning",
    "Workers on their node's network find their leader by the cluster's DNS.",
    remedy="Add `dnsPolicy` with the value `ClusterFirstWithHostNet`.",
    source="https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy",
)

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_NETWORK = ("httpGet", "tcpSocket", "grpc")
#: vLLM's side channel of NIXL without its variable (`vllm/envs.py`).
_SIDE_CHANNEL_PORT = 5600


@dataclass(frozen=True)
class Listener:
    """What listens on one port of a pod, or on several in a row.

    Attributes:
        what: What it is, for messages.
        at: Field that says so.
        sure: Whether it surely listens; a container need not listen on what it declares.
    """

    what: str
    at: Location
    first: int
    count: int = 1
    sure: bool = True

    def holds(self, port: int) -> bool:
        """Whether it listens on a port."""
        return self.first <= port < self.first + self.count


def port_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks who listens on which port of a role's pods."""
    if pods.kv is None or pods.kv.sidecar is None:
        yield from _port(pods, ctx)
    listeners = list(_listeners(pods, ctx))
    yield from _clashes(listeners)
    yield from _unreachable(pods)
    for pod in pods.written:
        yield from _probes(pod, pods, ctx, listeners)
    yield from _without_cluster_dns(pods, ctx)


def served_port(command: EngineCommand) -> int | None:
    """Port on which an engine serves, as far as its command line says."""
    if command.engine is None or command.port is not None:
        return command.port
    if not command.readable or command.has(PORT_FLAG, CONFIG_FLAG):
        return None
    return command.engine.default_port


def _listeners(pods: RolePods, ctx: Context) -> Iterator[Listener]:
    """What listens in the leader's pod, the engine first."""
    command, leader, role = pods.command, pods.leader, ctx.role
    at, port = leader.command_path, served_port(command)
    if command.engine is not None and port is not None:
        yield Listener(command.engine.title, at, port, pods.rank_ports)
    yield from _side_channel(pods, ctx)
    if command.engine is not None:
        for listener in command.engine.other_ports(command, ctx.launcher, ctx.nodes):
            field = ctx.at(*listener.field) if _sets(role, listener.field) else at
            yield Listener(listener.what, field, listener.first, listener.count)
    if ctx.launcher is Launcher.RAY:
        yield Listener("ray's head", ctx.at("multinode"), RAY_PORT)
    planned = pods.kv.sidecar if pods.kv is not None else None
    if planned is not None:
        at = ctx.at("kvTransfer")
        yield Listener("the sidecar", at, planned.port, planned.rank_ports)
    # `sidecar_findings` compares the port of such a sidecar with the engine's.
    brought = own_sidecar(leader.written, leader.name, pods.port) if pods.kv is not None else None
    for at, container in _beside(leader):
        if container.get("name") != brought:
            yield from _of_container(at, container)


def _sets(role: RoleArgs, field: tuple[str, ...]) -> bool:
    if field[:1] == ("kvEvents",):
        return role.kv_events is not None
    args = role.parallelism
    return field[:1] == ("parallelism",) and args is not None and args.data_rpc_port is not None


def _side_channel(pods: RolePods, ctx: Context) -> Iterator[Listener]:
    """NIXL's side channel: each data parallel rank listens on a port of its own."""
    connector = pods.kv.connector if pods.kv is not None else pods.command.connector
    if not isinstance(connector, KvConnector) or connector.side_channel is None:
        return
    leader, variable = pods.leader, connector.side_channel[1]
    at, port = ctx.at("kvTransfer", "sideChannelPort"), _SIDE_CHANNEL_PORT
    if ctx.role.kv_transfer is None:
        at = leader.command_path
    for index, entry in enumerate(leader.container.get("env") or ()):
        if entry.get("name") == variable:
            value = entry.get("value")
            port = integer(value) or 0 if isinstance(value, str) else 0
            if index < len(leader.own.get("env") or ()):
                at = (*leader.container_path, "env", index, "value")
    if port:
        yield Listener("NIXL's side channel", at, port, local_ranks(pods.command, ctx.nodes))


def _beside(pod: Pod) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """The containers that run beside the serving one, as the user wrote them."""
    spec = pod.written["spec"]
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            runs = field == "containers" or container.get("restartPolicy") == "Always"
            if runs and container.get("name") != pod.name:
                yield (*pod.path, "spec", field, index), container


def _of_container(at: Location, container: Mapping[str, Any]) -> Iterator[Listener]:
    """What another container listens on: an engine's port, else what it declares."""
    name, command = f"container {container.get('name')}", read_command(container)
    port = served_port(command)
    if port is not None:
        yield Listener(name, at, port)
        return
    for index, entry in enumerate(container.get("ports") or ()):
        if (entry.get("protocol") or "TCP") == "TCP":
            yield Listener(name, (*at, "ports", index), entry["containerPort"], sure=False)


def _clashes(listeners: Sequence[Listener]) -> Iterator[Finding]:
    for one, other in combinations(listeners, 2):
        first = max(one.first, other.first)
        if one.what == other.what or not (one.holds(first) and other.holds(first)):
            continue
        say = error if one.sure and other.sure else warning
        yield say(
            PORTS_CLASH,
            other.at,
            f"{_ports(other)} for {other.what}: in the same pod {one.what} listens on "
            f"{_ports(one)}; change one of them",
        )


def _ports(listener: Listener) -> str:
    last = listener.first + listener.count - 1
    return f"ports {listener.first} to {last}" if listener.count > 1 else f"port {listener.first}"


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host.strip("[]") == "::1"


def _unreachable(pods: RolePods) -> Iterator[Finding]:
    """A server that nothing outside of its pod reaches: the kubelet's probes neither."""
    command, leader = pods.command, pods.leader
    engine = command.engine
    if engine is None or not command.readable:
        return
    at = leader.command_path
    if engine.socket_flag is not None and command.has(engine.socket_flag):
        yield error(
            ENGINE_ON_LOOPBACK,
            at,
            f"{engine.socket_flag} makes {engine.title} serve on a file and on no port, where "
            "nothing reaches it; remove it",
        )
        return
    explicit = command.value(HOST_FLAG)
    host = explicit
    if host is None and not command.has(HOST_FLAG, CONFIG_FLAG):
        host = engine.default_host
    if host is None or not _is_loopback(host) or not _is_asked(pods):
        return
    # An image of the user's own may have another default.
    say = error if explicit is not None else warning
    said = f"{HOST_FLAG} {host}" if explicit is not None else f"{engine.title}'s default {host}"
    yield say(
        ENGINE_ON_LOOPBACK,
        at,
        f"with {said} it serves inside of its pod alone, where neither gateway nor probes reach "
        f"it; write {HOST_FLAG} 0.0.0.0",
    )


def _is_asked(pods: RolePods) -> bool:
    """Whether requests or probes come to the engine itself, and not to a proxy in its pod."""
    leader = pods.leader
    planned = pods.kv is not None and pods.kv.sidecar is not None
    if not planned and own_sidecar(leader.written, leader.name, pods.port) is None:
        return True
    return any(
        port == served_port(pods.command)
        for name in _PROBES
        for _, port in _actions(leader.container.get(name))
    )


def _actions(handler: Any) -> Iterator[tuple[str, Any]]:
    """The actions of a probe or hook that connect to the pod, with their ports."""
    for kind in _NETWORK:
        action = handler.get(kind) if isinstance(handler, Mapping) else None
        if isinstance(action, Mapping) and not action.get("host"):
            yield kind, action.get("port")


def _probes(
    pod: Pod, pods: RolePods, ctx: Context, listeners: Sequence[Listener]
) -> Iterator[Finding]:
    """Refuses probes and hooks of ports that no container has."""
    built = {item["name"]: item for item in _all(pod.spec)}
    for field in ("containers", "initContainers"):
        for index, written in enumerate(pod.written["spec"].get(field) or ()):
            container, at = built[written["name"]], (*pod.path, "spec", field, index)
            named = {
                entry["name"]: entry.get("containerPort")
                for entry in container.get("ports") or ()
                if entry.get("name")
            }
            for where, kind, port in _asked(container, written):
                here = (*at, *where, kind, "port")
                number = named.get(port) if isinstance(port, str) else port
                if isinstance(port, str) and port not in named:
                    have = f"; it has {', '.join(named)}" if named else ""
                    yield error(
                        PROBE_NOT_ANSWERED,
                        here,
                        f'no port of the container is called "{port}"{have}: name one of its ports',
                    )
                elif isinstance(number, int) and written["name"] == pod.name:
                    yield from _answered(here, number, pod, pods, ctx, listeners)


def _all(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from spec["containers"]
    yield from spec.get("initContainers") or ()


def _asked(
    container: Mapping[str, Any], written: Mapping[str, Any]
) -> Iterator[tuple[Location, str, Any]]:
    """Probes and hooks that the user wrote, as they are in the finished container."""
    for name in _PROBES:
        if name in written:
            for kind, port in _actions(container.get(name)):
                yield (name,), kind, port
    hooks = container.get("lifecycle")
    if isinstance(hooks, Mapping):
        for hook in _HOOKS:
            for kind, port in _actions(hooks.get(hook)):
                yield ("lifecycle", hook), kind, port


def _answered(
    at: Location,
    port: int,
    pod: Pod,
    pods: RolePods,
    ctx: Context,
    listeners: Sequence[Listener],
) -> Iterator[Finding]:
    """Whether anything in a pod answers on a port that its serving container's probe asks."""
    rule = PROBE_NOT_ANSWERED
    others = dict(_beside(pod))
    declared = {entry.get("containerPort") for entry in pod.own.get("ports") or ()}
    if not pod.leads:
        if not others and (reason := _silent(pod, pods, ctx)) is not None:
            yield error(rule, at, f"{reason}: nothing answers on port {port}; remove the probe")
        return
    command = pods.command
    listens = served_port(command)
    if command.engine is None or listens is None or not command.readable:
        return
    if port in (listens, pods.port) or any(listener.holds(port) for listener in listeners):
        return
    script = command.script is not None
    if script and port in declared:
        return  # the script may start another server
    say = warning if script or others or port in declared else error
    yield say(
        rule,
        at,
        f"{command.engine.title} serves on port {listens}, and nothing answers on port {port}; "
        f"probe {listens}",
    )


def _silent(worker: Pod, pods: RolePods, ctx: Context) -> str | None:
    """Why a worker's pod serves nothing, None where that is not known."""
    if ctx.launcher is Launcher.RAY:
        return "launcher ray starts ray alone on workers"
    engine = pods.command.engine
    if ctx.launcher is Launcher.NONE:
        written = worker.own_command
        return (
            "--headless serves nothing" if written.readable and written.has("--headless") else None
        )
    if engine is not None and not engine.workers_answer:
        return f"{engine.title} serves on the leader alone"
    return None


def _without_cluster_dns(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of workers on their node's network, which look their leader up in their node's DNS."""
    if ctx.nodes == 1 or ctx.launcher in (None, Launcher.NONE):
        return
    spec = (pods.worker or pods.leader).spec
    if spec.get("hostNetwork") is True and spec.get("dnsPolicy") in (None, "ClusterFirst"):
        path = (pods.worker or pods.leader).path
        yield warning(
            HOST_NETWORK_WITHOUT_CLUSTER_DNS,
            (*path, "spec", "hostNetwork"),
            "pods on their node's network do not find their leader by its name, which only the "
            "cluster's DNS knows; add dnsPolicy: ClusterFirstWithHostNet",
        )


_REACHED = "probe, Service and pool would reach a port on which nothing listens"


def _port(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Compares the port of a role with the one that its engine listens on.

    A container beside the engine that listens on the port, such as a proxy of the user's, is what
    `port` is for: then there is no finding.
    """
    leader, port, explicit = pods.leader, pods.port, ctx.role.port
    command, at = leader.own_command, leader.command_path
    engine, written = command.engine, command.port
    listens = served_port(command)
    if engine is None or listens is None or listens == port:
        return
    if own_sidecar(leader.written, leader.name, port) is not None:
        return
    declared = {entry.get("containerPort") for entry in leader.own.get("ports") or ()}
    if command.script is not None and port in declared:
        return  # the script may start a proxy in front of the engine
    field = ctx.at("port")
    if written is not None:
        say = error if command.readable else warning
        reason = f"{PORT_FLAG} {written} of the engine"
        if explicit is not None:
            message = (
                f"{port} contradicts {reason} ({path_text(at)}): {_REACHED}; remove one of them"
            )
            yield say(PORT_NOT_SERVED, field, message)
        else:
            message = f"{reason} is not the port {port} of the role: {_REACHED}"
            yield say(PORT_NOT_SERVED, at, message)
        return
    reason = f"{engine.name} listens on {listens} without {PORT_FLAG}"
    way_out = f"{_REACHED}; add {PORT_FLAG}={port} to its arguments"
    if explicit is not None:
        # The entrypoint of somebody's own image may choose a port by itself.
        say = error if command.program or command.image.stock else warning
        message = f"{port} is not where the engine listens: {reason}: {way_out}"
        yield say(PORT_NOT_SERVED, field, message)
    else:
        message = f"the role is reached on port {port}, but {reason}: {way_out}"
        yield warning(PORT_NOT_SERVED, at, message)
