"""KV cache transfer between prefill and decode engines: arguments, addresses and ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.engines.command_editing import EditError, edit
from fusioninfer_pulumi.engines.engine import (
    KV_EVENTS_FLAG,
    PORT_FLAG,
    Argument,
    EngineCommand,
    Transfer,
)
from fusioninfer_pulumi.engines.engine_commands import find_serving_port
from fusioninfer_pulumi.engines.launchers import RAY_PORT
from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.kube.containers import add_env, field_variable
from fusioninfer_pulumi.pods.kv_cache_offloading import offloading_of
from fusioninfer_pulumi.pods.pd_sidecar import find_user_sidecar, plan_sidecar
from fusioninfer_pulumi.pods.pod import (
    Context,
    KvTransferPlan,
    Pod,
    RolePods,
    explain_unknown_engine,
    unknown_engine_finding,
)
from fusioninfer_pulumi.rules.common import (
    ARGUMENTS_UNREADABLE,
    COMMAND_NOT_EDITABLE,
    FIELD_REQUIRED,
    STATED_TWICE,
    TAKEN_BY_TEMPLATE,
)

ENGINE_NOT_MOVABLE = Rule("engine-not-movable")

#: Variable with the pod's address, which the kubelet puts into arguments.
POD_IP_ENV = "POD_IP"
#: Container port on which a pod publishes the events of its KV cache.
EVENTS_PORT = "kv-events"
#: Port of an engine behind a sidecar, as in the templates of llm-d, KServe and Modelplane.
ENGINE_PORT = 8001
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("httpGet", "tcpSocket", "grpc")


def kv_transfer(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the arguments of KV cache transfer and KV events, and plan the sidecar.

    One list item with both a flag and its value, which no engine accepts, is split. Launchers
    split the arguments of multi-node replicas; with `launcher: none` they stay as they are.
    """
    role, command = ctx.role, pods.command
    asked = (role.kv_transfer, role.kv_events, role.kv_cache_offloading)
    if ctx.pairing is None and all(field is None for field in asked):
        return (pods, []) if ctx.nodes > 1 else _edited(pods, [], [])
    way, findings = _transfer(pods.leader, ctx, command)
    decodes = ctx.pairing is not None and role.component_type is ComponentType.DECODER
    if ctx.pairing is not None and decodes:
        port = role.port or ctx.pairing.port
    else:
        port = find_serving_port(pods.leader.container, command, role.port)
    plan = KvTransferPlan(port, port, connector=way.connector)
    published, problems = _events(ctx, command, port)
    findings += problems
    arguments = [*way.arguments, *published]
    if decodes:
        plan, moves, problems = _decode_side(pods.leader, ctx, command, plan)
        arguments += moves
        findings += problems
    pods, problems = _edited(pods, arguments, way.arguments)
    return replace(pods, kv=plan), [*findings, *problems]


def kv_addresses(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add variables, ports and shared memory for the KV cache transfer.

    The leader's ports and probes follow its engine to another port.
    """
    if pods.kv is None:
        return pods, []
    hands_over = ctx.pairing is not None or ctx.role.kv_transfer is not None
    args, plan = ctx.role.kv_transfer or KvTransferArgs(), pods.kv
    env: list[dict[str, Any]] = []
    ports: list[dict[str, Any]] = []
    if hands_over and plan.connector is not None and plan.connector.side_channel is not None:
        host, port_name = plan.connector.side_channel
        port = {"name": port_name, "value": str(args.side_channel_port)}
        env = [field_variable(host, "status.podIP"), port]
        ports = [{"name": "nixl", "containerPort": args.side_channel_port}]
    if ctx.role.kv_events is not None:
        env.append(field_variable(POD_IP_ENV, "status.podIP"))
        published = events_port(ctx.role)
        ports += [] if published is None else [{"name": EVENTS_PORT, "containerPort": published}]
    for pod in pods.all:
        built = pod.with_container(lambda container: add_env(container, env))
        if hands_over:
            built = built.with_shared_memory(args.shared_memory)
        pods = pods.put(_listening(built, plan, ports) if pod.is_leader else built)
    return pods, []


def events_port(role: RoleArgs) -> int | None:
    """Return the container port for KV cache events; None if the pods publish none there."""
    if role.kv_events is None:
        return None
    host, _, port = role.kv_events.endpoint.rpartition(":")
    return int(port) if host == "tcp://*" else None


def _transfer(leader: Pod, ctx: Context, command: EngineCommand) -> tuple[Transfer, list[Finding]]:
    """Decide the arguments of the KV cache transfer, which only P/D pods need."""
    args, at, field = ctx.role.kv_transfer, leader.command_path, ctx.at("kvTransfer")
    engine, connector = command.engine, command.connector
    # `kv_offloading` has set the arguments of the other engines.
    by_connector = engine is not None and engine.offloads_by_connector
    offloading = offloading_of(ctx.role) if by_connector else None
    if engine is not None and isinstance(connector, str):
        unreadable = [error(ARGUMENTS_UNREADABLE, at, f"{engine.transfer_flag} {connector}")]
        return Transfer(), unreadable if ctx.pairing or args or offloading else []
    if engine is not None and connector is not None:
        assert not isinstance(connector, str), "reported above"
        message = "conflicts with the engine's arguments, which set it; remove one of them"
        twice = [
            error(STATED_TWICE, (*field, KvTransferArgs.model_fields[name].alias or name), message)
            for name in ("connector", "role", "extra_config")
            if getattr(args, name, None) is not None
        ]
        if offloading is not None:
            flag = f"{engine.transfer_flag} ({connector.name})"
            message = f"conflicts with {flag} in the arguments; remove one of them"
            twice.append(error(STATED_TWICE, ctx.at("kvCacheOffloading"), message))
        return Transfer(connector=connector), twice
    if args is not None and args.enabled:
        if engine is None:
            return Transfer(), [unknown_engine_finding(field, command)]
        prefills = ctx.role.component_type is ComponentType.PREFILLER
        made = engine.kv_cache.transfer(command, args, offloading, prefills=prefills)
        return made, [finding.under(*field) for finding in made.findings]
    asks = args is not None or ctx.pairing is None
    if engine is not None and offloading is not None and asks:
        return engine.kv_cache.transfer(command, None, offloading), []
    return Transfer(), []


def _events(
    ctx: Context, command: EngineCommand, port: int
) -> tuple[list[Argument], list[Finding]]:
    """Decide on the flag for the KV cache's events, which only the leader's engine publishes."""
    args, field = ctx.role.kv_events, ctx.at("kvEvents")
    if args is None:
        return [], []
    if command.engine is None:
        return [], [unknown_engine_finding(field, command)]
    if command.has(KV_EVENTS_FLAG):
        message = f"conflicts with {KV_EVENTS_FLAG} in the arguments; remove one of them"
        return [], [error(STATED_TWICE, field, message)]
    topic = args.topic
    if topic is None:
        if command.served_names is None:
            message = "is required: the arguments do not name the model"
            return [], [error(FIELD_REQUIRED, (*field, "topic"), message)]
        topic = f"kv@$({POD_IP_ENV}):{port}@{command.served_names[0]}"
    return [command.engine.build_events_argument(args.endpoint, topic)], []


def _decode_side(
    leader: Pod, ctx: Context, command: EngineCommand, plan: KvTransferPlan
) -> tuple[KvTransferPlan, list[Argument], list[Finding]]:
    """Plan the sidecar in front of a decode engine, and the engine's new port."""
    args, field = ctx.role.kv_transfer or KvTransferArgs(), ctx.at("kvTransfer")
    pool, port = plan.pool_port, find_serving_port(leader.container, command, None)
    user_sidecar = find_user_sidecar(leader.template, leader.name, pool)
    if user_sidecar is not None or not args.sidecar.enabled:
        plan = plan._replace(engine_port=args.engine_port or port, user_sidecar=user_sidecar)
        return plan, [], []
    engine = args.engine_port or (
        port if port != pool else _free_port(leader.spec, pool, args, command)
    )
    sidecar, findings = plan_sidecar(
        args.sidecar, ctx, command, plan.connector, leader.spec, (pool, engine)
    )
    if engine == pool:
        message = f"must differ from the pool's port {engine}, on which the sidecar listens"
        return plan, [], [*findings, error(TAKEN_BY_TEMPLATE, (*field, "enginePort"), message)]
    moves = [Argument((PORT_FLAG,), (str(engine),), replaces=True)]
    if command.engine is None:
        moves = []
        if args.engine_port is None and port == pool:
            message = (
                f"cannot free port {pool} for the sidecar: {explain_unknown_engine(command)}; "
                "configure another port for the engine, and set kvTransfer.enginePort to it"
            )
            findings.append(error(ENGINE_NOT_MOVABLE, leader.command_path, message))
    moved_from = frozenset({port, pool} - {engine})
    plan = plan._replace(engine_port=engine, moved_from=moved_from, sidecar=sidecar)
    return plan, moves, findings


def _free_port(
    spec: Mapping[str, Any], pool: int, args: KvTransferArgs, command: EngineCommand
) -> int:
    ranks = command.rank_ports
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    taken = {
        port.get("containerPort")
        for container in containers
        for port in container.get("ports") or ()
    }
    taken |= {*range(pool, pool + ranks), args.side_channel_port, RAY_PORT}
    return next(
        port for port in range(ENGINE_PORT, 65536) if taken.isdisjoint(range(port, port + ranks))
    )


def _edited(
    pods: RolePods, arguments: Sequence[Argument], worker_arguments: Sequence[Argument]
) -> tuple[RolePods, list[Finding]]:
    leader, worker = pods.leader, pods.worker
    try:
        edited = edit(leader.command, arguments)
    except EditError as problem:
        if not arguments:
            return pods, []
        flags = ", ".join(argument.names[0] for argument in arguments)
        message = f"{flags} cannot be set in it: {problem}"
        return pods, [error(COMMAND_NOT_EDITABLE, leader.command_path, message)]
    pods = pods.put(leader.with_command(edited))
    if worker is not None:
        # One with a command of its own may well run nothing but ray.
        pods = pods.put(worker.with_arguments(worker_arguments, "")[0])
    return pods, []


def _listening(leader: Pod, plan: KvTransferPlan, added: Sequence[Mapping[str, Any]]) -> Pod:
    """Move a leader's ports and probes with its engine, and declare added ports."""
    built, host_network = dict(leader.container), leader.spec.get("hostNetwork") is True
    ports: list[dict[str, Any]] = []
    for port in built.get("ports") or ():
        moved = dict(port)
        if port.get("containerPort") in plan.moved_from:
            moved["containerPort"] = plan.engine_port
            if host_network and "hostPort" in port:
                moved["hostPort"] = plan.engine_port  # the two have to be the same there
        if not _listed(ports, moved):
            ports.append(moved)
    ports += [dict(port) for port in added if not _listed(ports, port)]
    if ports:
        built["ports"] = ports
    for name in _PROBES:
        if isinstance(built.get(name), Mapping):
            built[name] = _moved(built[name], plan)
    lifecycle = built.get("lifecycle")
    if isinstance(lifecycle, Mapping):
        built["lifecycle"] = {
            hook: _moved(handler, plan) if isinstance(handler, Mapping) else handler
            for hook, handler in lifecycle.items()
        }
    return leader.with_container(lambda _: built)


def _listed(ports: list[dict[str, Any]], port: Mapping[str, Any]) -> bool:
    def key(entry: Mapping[str, Any]) -> tuple[Any, Any]:
        return entry.get("containerPort"), entry.get("protocol") or "TCP"

    names = {entry.get("name") for entry in ports} - {None}
    return key(port) in {key(entry) for entry in ports} or port.get("name") in names


def _moved(handled: Mapping[str, Any], plan: KvTransferPlan) -> dict[str, Any]:
    """Return a probe or hook with its port moved; named ports follow the container's."""
    moved = dict(handled)
    for name in _HANDLERS:
        action = moved.get(name)
        if isinstance(action, Mapping) and action.get("port") in plan.moved_from:
            moved[name] = {**action, "port": plan.engine_port}
    return moved
