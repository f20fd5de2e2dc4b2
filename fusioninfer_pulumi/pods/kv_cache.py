"""Passes for KV cache offloading, and for KV cache transfer between pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.field_rules import check_fields, inapplicable_rule
from fusioninfer_pulumi.api.kv_cache import KvCacheOffloadingArgs, KvTransferArgs, SecondaryTierArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.engines.command_flags import dump_json
from fusioninfer_pulumi.engines.engine import (
    KV_EVENTS_FLAG,
    PORT_FLAG,
    Argument,
    EngineCommand,
    OffloadRequest,
    Transfer,
)
from fusioninfer_pulumi.engines.engine_commands import find_serving_port
from fusioninfer_pulumi.engines.launchers import OWN_ADDRESS_ENV, RAY_PORT
from fusioninfer_pulumi.findings import Finding, Rule, error, filter_errors
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import (
    add_env,
    add_mounts,
    build_field_variable,
    choose_free_name,
)
from fusioninfer_pulumi.pods.pd_sidecar import find_user_sidecar, plan_sidecar
from fusioninfer_pulumi.pods.pod import (
    Context,
    KvTransferPlan,
    Pod,
    RolePods,
    explain_unknown_engine,
    make_unknown_engine_error,
)
from fusioninfer_pulumi.rules.common import (
    ARGUMENTS_UNREADABLE,
    FIELD_REQUIRED,
    SET_TWICE,
    TAKEN_BY_TEMPLATE,
)

#: Resource of volumes on the node's disk.
DISK = "ephemeral-storage"


def get_offload_request(role: RoleArgs) -> OffloadRequest | None:
    """Return the offloading settings of a role, or None if it does not offload its KV cache."""
    args = role.kv_cache_offloading
    if args is None:
        return None
    claims = [tier.file_system.pvc for tier in args.secondary]
    return OffloadRequest(
        host_bytes=int(quantity.parse(args.cpu)),
        eviction=args.eviction_policy.value if args.eviction_policy is not None else None,
        # The mount paths are KServe's.
        directories=tuple(f"/mnt/kv-cache-{index}" for index, _ in enumerate(args.secondary)),
        # Other processes may also use an existing claim.
        is_shared=any(claim is not None and claim.ref is not None for claim in claims),
    )


def add_kv_offloading(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add volumes, variables, disk requests and engine arguments for KV cache offloading.

    If the engine offloads with a KV connector, `add_kv_transfer` sets the argument, which also
    configures KV cache transfer.
    """
    args, request = ctx.role.kv_cache_offloading, get_offload_request(ctx.role)
    if args is None or request is None:
        return pods, []
    location, command = ctx.locate("kvCacheOffloading"), pods.command
    engine = command.engine
    if engine is None:
        return pods, [make_unknown_engine_error(location, command)]
    is_decoder = ctx.role.component_type is ComponentType.DECODER
    offload = engine.kv_cache.build_offloading(
        command, request, ctx.role.nodes, is_decoder=is_decoder
    )
    findings = [
        error(SET_TWICE, location, f"{flag} conflicts with kvCacheOffloading; remove one of them")
        for flag in engine.kv_cache.offloading_flags
        if command.has(flag)
    ]
    findings += [finding.with_prefix(*location) for finding in offload.findings]
    for pod in pods.all:
        for index, directory in enumerate(request.directories):
            source = f"the mount of kvCacheOffloading.secondary[{index}]; mount yours elsewhere"
            findings += pod.find_conflicts([directory], source)
    if filter_errors(findings):
        return pods, findings
    variables = [{"name": name, "value": value} for name, value in offload.variables.items()]
    for pod in pods.all:
        configured, problems = pod, list[Finding]()
        if offload.arguments and (pod.is_leader or pod.command.engine is engine):
            configured, problems = pod.with_arguments(
                offload.arguments, "cannot set the arguments of KV cache offloading"
            )
        if problems:
            findings += problems
            continue
        configured = configured.with_container(lambda container: add_env(container, variables))
        configured = _add_tiers(configured, args, request.directories)
        if offload.in_shared_memory:
            configured = configured.with_shared_memory(get_shared_memory_limit(ctx.role))
        pods = pods.with_pod(configured)
    return replace(pods, offload=offload), findings


def get_shared_memory_limit(role: RoleArgs) -> str | None:
    """Return the size of /dev/shm that a role sets, or None if it sets none."""
    return role.kv_transfer.shared_memory if role.kv_transfer is not None else None


def _add_tiers(pod: Pod, args: KvCacheOffloadingArgs, directories: Sequence[str]) -> Pod:
    volumes, mounts = [], []
    for index, (tier, directory) in enumerate(zip(args.secondary, directories, strict=True)):
        name = choose_free_name(f"kv-cache-secondary-{index}", pod.spec.get("volumes"))
        source, mount_fields = _build_volume_source(tier)
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": directory, **mount_fields})

    def add_to_container(container: Mapping[str, Any]) -> Mapping[str, Any]:
        changed = add_mounts(container, mounts)
        disk = sum_disk(args)
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        # If only a limit is set, Kubernetes uses it as the request, and it must already cover the
        # tiers.
        if disk and (DISK in requests or DISK not in limits):
            request = quantity.write(disk + quantity.parse(requests.get(DISK, 0)))
            changed["resources"] = {**resources, "requests": {**requests, DISK: request}}
        return changed

    return pod.with_container(add_to_container).add_volumes(volumes)


def _build_volume_source(tier: SecondaryTierArgs) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the source of a tier's volume, and fields of its mount."""
    disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
    if disk is not None:
        return {"emptyDir": {"sizeLimit": disk.size}}, {}
    assert claim is not None, "a tier has one of the two"
    if claim.ref is not None:
        mount_fields = {} if claim.ref.path is None else {"subPath": claim.ref.path}
        return {"persistentVolumeClaim": {"claimName": claim.ref.name}}, mount_fields
    return {"ephemeral": {"volumeClaimTemplate": {"spec": dict(claim.spec or {})}}}, {}


def sum_disk(args: KvCacheOffloadingArgs) -> Decimal:
    """Return the bytes on the node's disk that the tiers need."""
    disks = (tier.file_system.empty_dir for tier in args.secondary)
    return sum((quantity.parse(disk.size) for disk in disks if disk is not None), Decimal(0))


ENGINE_NOT_MOVABLE = Rule("engine-not-movable")

#: Name of the container port for KV events.
EVENTS_PORT_NAME = "kv-events"
#: Lowest port chosen for engines behind a sidecar, as in templates of llm-d, KServe and Modelplane.
ENGINE_PORT = 8001
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("httpGet", "tcpSocket", "grpc")


def add_kv_transfer(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the arguments of KV cache transfer and KV events, and plan the sidecar.

    Editing also splits list elements that have both a flag and its value (`["--port 8000"]`), which
    engines reject. Therefore a single-node command line is always edited here. A multi-node one is
    edited here only to add arguments; otherwise `apply_launcher` edits it, except for `none`.
    """
    role, command = ctx.role, pods.command
    fields = (role.kv_transfer, role.kv_events, role.kv_cache_offloading)
    if ctx.pd_settings is None and all(field is None for field in fields):
        return (pods, []) if ctx.role.nodes > 1 else _edit_commands(pods, [], [])
    transfer, findings = _plan_transfer(pods.leader, ctx, command)
    decoder_settings = ctx.pd_settings if role.component_type is ComponentType.DECODER else None
    if decoder_settings is not None:
        port = role.port or decoder_settings.port
    else:
        port = find_serving_port(pods.leader.container, command, role.port)
    plan = KvTransferPlan(pool_port=port, engine_port=port, connector=transfer.connector)
    event_arguments, problems = _plan_events(ctx, command, port)
    findings += problems
    arguments = [*transfer.arguments, *event_arguments]
    if decoder_settings is not None:
        plan, port_arguments, problems = _plan_decoder(pods.leader, ctx, command, plan)
        arguments += port_arguments
        findings += problems
    pods, problems = _edit_commands(pods, arguments, transfer.arguments)
    return replace(pods, kv=plan), [*findings, *problems]


def add_kv_addresses(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add variables, ports and shared memory for KV cache transfer and KV events.

    If the leader's engine moves to another port, its container ports and probes change as well.
    """
    if pods.kv is None:
        return pods, []
    has_transfer = ctx.pd_settings is not None or ctx.role.kv_transfer is not None
    args, plan = ctx.role.kv_transfer or KvTransferArgs(), pods.kv
    env: list[dict[str, Any]] = []
    ports: list[dict[str, Any]] = []
    if has_transfer and plan.connector is not None and plan.connector.side_channel is not None:
        host_name, port_name = plan.connector.side_channel
        env = [
            build_field_variable(host_name, "status.podIP"),
            {"name": port_name, "value": str(args.side_channel_port)},
        ]
        ports = [{"name": "nixl", "containerPort": args.side_channel_port}]
    if ctx.role.kv_events is not None:
        env.append(build_field_variable(OWN_ADDRESS_ENV, "status.podIP"))
        events_port = get_engine_events_port(ctx.role)
        if events_port is not None:
            ports.append({"name": EVENTS_PORT_NAME, "containerPort": events_port})
    for pod in pods.all:
        changed = pod.with_container(lambda container: add_env(container, env))
        if has_transfer:
            changed = changed.with_shared_memory(args.shared_memory)
        pods = pods.with_pod(_move_ports(changed, plan, ports) if pod.is_leader else changed)
    return pods, []


def get_engine_events_port(role: RoleArgs) -> int | None:
    """Return the port on which pods publish KV events, or None if they listen on none."""
    if role.kv_events is None:
        return None
    host, _, port = role.kv_events.endpoint.rpartition(":")
    return int(port) if host in ("tcp://*", "tcp://[::]") else None


def _plan_transfer(
    leader: Pod, ctx: Context, command: EngineCommand
) -> tuple[Transfer, list[Finding]]:
    """Return the arguments for KV cache transfer, and for offloading with a connector."""
    args, field = ctx.role.kv_transfer, ctx.locate("kvTransfer")
    engine, connector = command.engine, command.connector
    # For engines that do not offload by a connector, `add_kv_offloading` sets the arguments.
    offloads_by_connector = engine is not None and engine.kv_cache.offloads_by_connector
    offloading = get_offload_request(ctx.role) if offloads_by_connector else None
    if engine is not None and isinstance(connector, str):
        # The string is the reason why the connector cannot be read.
        message = f"{engine.kv_cache.transfer_flag} {connector}"
        unreadable = [error(ARGUMENTS_UNREADABLE, leader.command_path, message)]
        return Transfer(), (unreadable if ctx.pd_settings or args or offloading else [])
    if engine is not None and connector is not None:
        assert not isinstance(connector, str), "reported above"
        message = "conflicts with the engine's arguments, which set it; remove one of them"
        row = inapplicable_rule(("connector", "role", "extra_config"), message, rule=SET_TWICE)
        conflicts = list(check_fields(field, args, row))
        if offloading is not None:
            flag = f"{engine.kv_cache.transfer_flag} ({connector.name})"
            message = f"conflicts with {flag} in the arguments; remove one of them"
            conflicts.append(error(SET_TWICE, ctx.locate("kvCacheOffloading"), message))
        return Transfer(connector=connector), conflicts
    if args is not None and args.enabled:
        if engine is None:
            return Transfer(), [make_unknown_engine_error(field, command)]
        cache, is_prefiller = engine.kv_cache, ctx.role.component_type is ComponentType.PREFILLER
        transfer = cache.build_transfer(command, args, offloading, is_prefiller=is_prefiller)
        return transfer, [finding.with_prefix(*field) for finding in transfer.findings]
    if args is None and ctx.pd_settings is not None:
        return Transfer(), []  # `check_kv_transfer` reports the missing connector
    if engine is not None and offloading is not None:
        return engine.kv_cache.build_transfer(command, None, offloading), []
    return Transfer(), []


def _plan_events(
    ctx: Context, command: EngineCommand, port: int
) -> tuple[list[Argument], list[Finding]]:
    """Return the argument for KV events, which only the leader's engine publishes."""
    args, field = ctx.role.kv_events, ctx.locate("kvEvents")
    if args is None:
        return [], []
    if command.engine is None:
        return [], [make_unknown_engine_error(field, command)]
    if command.has(KV_EVENTS_FLAG):
        message = f"conflicts with {KV_EVENTS_FLAG} in the arguments; remove one of them"
        return [], [error(SET_TWICE, field, message)]
    topic = args.topic
    if topic is None:
        if command.served_names is None:
            message = "is required: the arguments do not name the model"
            return [], [error(FIELD_REQUIRED, (*field, "topic"), message)]
        topic = f"kv@$({OWN_ADDRESS_ENV}):{port}@{command.served_names[0]}"
    settings = {"publisher": "zmq", "endpoint": args.endpoint, "topic": topic}
    settings_text = dump_json({**command.engine.kv_cache.event_settings, **settings})
    return [Argument((KV_EVENTS_FLAG,), (settings_text,))], []


def _plan_decoder(
    leader: Pod, ctx: Context, command: EngineCommand, plan: KvTransferPlan
) -> tuple[KvTransferPlan, list[Argument], list[Finding]]:
    """Return the plan with the engine's port and sidecar, and the argument that sets the port."""
    args, field = ctx.role.kv_transfer or KvTransferArgs(), ctx.locate("kvTransfer")
    pool_port = plan.pool_port
    user_port = find_serving_port(leader.container, command, None)
    engine_port = args.engine_port or user_port
    user_sidecar = find_user_sidecar(leader.template, leader.container_name, pool_port)
    if user_sidecar is not None or not args.sidecar.enabled:
        return plan._replace(engine_port=engine_port, user_sidecar=user_sidecar), [], []
    if args.engine_port is None and user_port == pool_port:
        engine_port = _find_free_port(leader.spec, pool_port, args, command)
    sidecar, findings = plan_sidecar(
        args.sidecar, ctx, command, plan.connector, leader.spec, (pool_port, engine_port)
    )
    if engine_port == pool_port:
        message = f"must differ from the pool's port {pool_port}, on which the sidecar listens"
        return plan, [], [*findings, error(TAKEN_BY_TEMPLATE, (*field, "enginePort"), message)]
    arguments = [Argument((PORT_FLAG,), (str(engine_port),), replaces=True)]
    if command.engine is None:
        arguments = []
        if args.engine_port is None and user_port == pool_port:
            message = (
                f"cannot free port {pool_port} for the sidecar: {explain_unknown_engine(command)}; "
                "configure another port for the engine, and set kvTransfer.enginePort to it"
            )
            findings.append(error(ENGINE_NOT_MOVABLE, leader.command_path, message))
    # Ports and probes of the template may name either of these ports.
    moved_from = frozenset({user_port, pool_port} - {engine_port})
    plan = plan._replace(engine_port=engine_port, moved_from=moved_from, sidecar=sidecar)
    return plan, arguments, findings


def _find_free_port(
    spec: Mapping[str, Any], pool_port: int, args: KvTransferArgs, command: EngineCommand
) -> int:
    """Return the first of `command.port_count` consecutive ports that no container uses."""
    count = command.port_count
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    used = {
        port.get("containerPort")
        for container in containers
        for port in container.get("ports") or ()
    }
    used |= {*range(pool_port, pool_port + count), args.side_channel_port, RAY_PORT}
    return next(
        port for port in range(ENGINE_PORT, 65536) if used.isdisjoint(range(port, port + count))
    )


def _edit_commands(
    pods: RolePods, arguments: Sequence[Argument], worker_arguments: Sequence[Argument]
) -> tuple[RolePods, list[Finding]]:
    """Set `arguments` of the leader, and `worker_arguments` of the worker if it runs the engine."""
    flags = ", ".join(argument.names[0] for argument in arguments)
    leader, problems = pods.leader.with_arguments(arguments, f"cannot set {flags}")
    if problems:
        # If there is nothing to set, a command line that cannot be edited is no error.
        return pods, (problems if arguments else [])
    pods = pods.with_pod(leader)
    if pods.worker is not None:
        # A worker may run only Ray, so its errors are ignored, and it is then unchanged.
        worker, _ = pods.worker.with_arguments(worker_arguments, problem="")
        pods = pods.with_pod(worker)
    return pods, []


def _move_ports(leader: Pod, plan: KvTransferPlan, added: Sequence[Mapping[str, Any]]) -> Pod:
    """Change a leader's ports and probes to the engine's new port; declare the `added` ports."""
    container = dict(leader.container)
    host_network = leader.spec.get("hostNetwork") is True
    ports: list[dict[str, Any]] = []
    for port in container.get("ports") or ():
        moved = dict(port)
        if port.get("containerPort") in plan.moved_from:
            moved["containerPort"] = plan.engine_port
            if host_network and "hostPort" in port:
                moved["hostPort"] = plan.engine_port  # must equal the container port
        if not _has_port(ports, moved):
            ports.append(moved)
    ports += [dict(port) for port in added if not _has_port(ports, port)]
    if ports:
        container["ports"] = ports
    for name in _PROBES:
        if isinstance(container.get(name), Mapping):
            container[name] = _move_port(container[name], plan)
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, Mapping):
        container["lifecycle"] = {
            hook: _move_port(handler, plan) if isinstance(handler, Mapping) else handler
            for hook, handler in lifecycle.items()
        }
    return leader.with_container(lambda _: container)


def _has_port(ports: list[dict[str, Any]], port: Mapping[str, Any]) -> bool:
    def key(entry: Mapping[str, Any]) -> tuple[Any, Any]:
        return entry.get("containerPort"), entry.get("protocol") or "TCP"

    names = {entry.get("name") for entry in ports} - {None}
    return key(port) in {key(entry) for entry in ports} or port.get("name") in names


def _move_port(handler: Mapping[str, Any], plan: KvTransferPlan) -> dict[str, Any]:
    """Return a probe or hook with the engine's new port; named ports need no change."""
    moved = dict(handler)
    for name in _HANDLERS:
        action = moved.get(name)
        if isinstance(action, Mapping) and action.get("port") in plan.moved_from:
            moved[name] = {**action, "port": plan.engine_port}
    return moved
