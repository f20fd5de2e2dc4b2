"""What prefill and decode pods need to hand requests over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.topology import nodes_per_replica
from fusioninfer_pulumi.engines.command import ENGINES, read_command, serving_port
from fusioninfer_pulumi.engines.editing import EditError, edit, with_command
from fusioninfer_pulumi.engines.engine import (
    KV_EVENTS_FLAG,
    NIXL,
    PORT_FLAG,
    Argument,
    ContainerCommand,
    EngineCommand,
    KvConnector,
    Offloading,
    Transfer,
    TransferRequest,
)
from fusioninfer_pulumi.engines.launch import RAY_PORT
from fusioninfer_pulumi.findings import Finding, error, info, join, parse_path, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.containers import (
    memory,
    shared_memory,
    with_env,
    with_mounts,
    with_volumes,
)
from fusioninfer_pulumi.pods.records import EVENTS_PORT, Disaggregation, Wiring, offloading_of
from fusioninfer_pulumi.pods.sidecar import own_sidecar, sidecar_plan

#: Variable with the pod's address, which the kubelet puts into arguments.
POD_IP_ENV = "POD_IP"
_STATED = ("connector", "role", "extra_config")


def transfer(
    position: int, args: RoleArgs, command: EngineCommand, at: str, *, needed: bool
) -> tuple[Transfer, list[Finding]]:
    """Decides on the flags for the KV cache's way.

    Args:
        position: Index of the role in the spec.
        args: The role.
        command: The engine's command line as written.
        at: Field that holds it.
        needed: Whether a picker pairs the pods, so that they have to hand their cache over.

    Returns:
        The flags, and what is to be said.
    """
    given = args.kv_transfer
    field = join("roles", position, "kvTransfer")
    engine, setup = command.engine, command.connector
    # Other engines have arguments of their own for it, which are set already.
    by_connector = engine is not None and engine.offloads_by_connector
    offloading = offloading_of(args) if by_connector else None
    if engine is not None and isinstance(setup, str):
        asked = needed or given or offloading
        return Transfer(), [error(at, f"{engine.transfer_flag} {setup}")] if asked else []
    if engine is not None and setup is not None:
        assert not isinstance(setup, str), "what is wrong with it has been said"
        twice = [] if given is None else list(_twice(given, field))
        if offloading is not None:
            twice.append(
                error(
                    join("roles", position, "kvCacheOffloading"),
                    f"the engine's arguments hold {engine.transfer_flag} ({setup.name}) already; "
                    "remove one of them",
                )
            )
        return Transfer(connector=setup), twice
    if given is not None:
        return _generated(args.component_type, given, command, field, offloading)
    if not needed:
        if engine is None or offloading is None:
            return Transfer(), []
        return engine.transfer(command, None, offloading), []
    if engine is None or not command.readable:
        flags = " or ".join(f"{each.transfer_flag} ({each.title})" for each in ENGINES.values())
        return Transfer(), [
            warning(
                at,
                f"whether the engine hands its KV cache over cannot be read here: it needs {flags}",
            )
        ]
    return Transfer(), [
        error(
            "kv-transfer-missing",
            parse_path(at),
            f"{engine.transfer_flag} is missing, without which no KV cache goes from prefill to "
            f"decode: add it, or let kvTransfer: {{}} generate it for {NIXL}",
        )
    ]


def why_unknown(command: EngineCommand) -> str:
    """Why no flag can be set in a command line whose engine is not known."""
    if command.script is not None:
        return "no start of either can be read in the container's shell script"
    return "the container's program is neither vLLM nor SGLang"


def _twice(given: KvTransferArgs, field: str) -> Iterator[Finding]:
    for name in _STATED:
        if getattr(given, name) is not None:
            alias = KvTransferArgs.model_fields[name].alias or name
            yield error(
                f"{field}.{alias}", "the engine's arguments state it already; remove one of them"
            )


def _generated(
    component_type: ComponentType,
    given: KvTransferArgs,
    command: EngineCommand,
    field: str,
    offloading: Offloading | None,
) -> tuple[Transfer, list[Finding]]:
    engine = command.engine
    if engine is None:
        return Transfer(), [
            error(
                field,
                f"generates arguments of vLLM or SGLang, but {why_unknown(command)}; write the "
                "arguments yourself",
            )
        ]
    asked = TransferRequest(
        prefills=component_type is ComponentType.PREFILLER,
        connector=given.connector,
        role=given.role.value if given.role is not None else None,
        extra_config=given.extra_config,
    )
    made = engine.transfer(command, asked, offloading)
    return made, [each.under(*parse_path(field)) for each in made.findings]


def events(
    position: int, args: RoleArgs, command: EngineCommand, port: int
) -> tuple[list[Argument], list[Finding]]:
    """Decides on the flag for the KV cache's events, which only the leader's engine publishes.

    Args:
        position: Index of the role in the spec.
        args: The role.
        command: The engine's command line as written.
        port: Port by which the picker knows the pod.

    Returns:
        The flag, and what is to be said.
    """
    given = args.kv_events
    if given is None:
        return [], []
    field = join("roles", position, "kvEvents")
    if command.engine is None:
        return [], [error(field, "needs an engine that is known: vLLM or SGLang")]
    if command.has(KV_EVENTS_FLAG):
        return [], [error(field, f"the engine's arguments hold {KV_EVENTS_FLAG}; remove one")]
    topic = given.topic
    said: list[Finding] = []
    if topic is None:
        served = command.served_names
        if served is None:
            return [], [
                error(f"{field}.topic", "is required: the model's name cannot be read here")
            ]
        topic = f"kv@$({POD_IP_ENV}):{port}@{served[0]}"
        if len(set(served)) > 1:
            # The picker looks events up by the name that a request asks for.
            others = ", ".join(dict.fromkeys(name for name in served if name != served[0]))
            said.append(
                warning(
                    f"{field}.topic",
                    f"names one model, by default {served[0]}: pickers find no events for requests "
                    f"that ask for {others}; state the topic, or serve one name",
                )
            )
    if topic.count("@") != 2:
        said.append(
            info(f"{field}.topic", "llm-d's pickers read kv@POD@MODEL, and ignore the pod here")
        )
    return [command.engine.events_argument(given.endpoint, topic)], said


Container = Mapping[str, Any]

#: Port that an engine moves to, as llm-d's, KServe's and modelplane's templates have it.
ENGINE_PORT = 8001


def decode_side(
    position: int,
    args: RoleArgs,
    template: Container,
    container: Container,
    command: EngineCommand,
    paired: Disaggregation,
    wiring: Wiring,
    at: str,
) -> tuple[Wiring, list[Argument], list[Finding]]:
    """Plans the sidecar before a decode engine, and the port to which that makes room for it.

    Args:
        position: Index of the role in the spec.
        args: The role.
        template: Pod template of its leaders.
        container: Their serving container.
        command: Its command line.
        paired: The service's pairing.
        wiring: What the pods get besides.
        at: Field that holds the command line.

    Returns:
        The wiring with the sidecar, the flags that move the engine, and what is to be said.
    """
    given = args.kv_transfer or KvTransferArgs()
    field_at = join("roles", position, "kvTransfer")
    pool, own = wiring.pool_port, serving_port(container, command, None)
    brought = own_sidecar(template, str(container["name"]), pool)
    if brought is not None or not given.sidecar.enabled:
        engine = given.engine_port or own
        kept = list(_kept(brought, pool, engine, join("roles", position), field_at))
        return replace(wiring, engine_port=engine), [], kept
    engine = given.engine_port or (own if own != pool else _free_port(template, pool, given))
    plan, found = sidecar_plan(
        given.sidecar,
        paired,
        command,
        wiring.setup,
        template,
        (pool, engine),
        f"{field_at}.sidecar",
    )
    if engine == pool:
        message = f"must not be the pool's port, where the sidecar listens, got {engine}"
        return wiring, [], [*found, error(f"{field_at}.enginePort", message)]
    moves = [Argument((PORT_FLAG,), (str(engine),), replaces=True)]
    if command.engine is None:
        moves = []
        if given.engine_port is None and own == pool:
            told = _immovable(pool, why_unknown(command))
            found.append(error("engine-not-movable", parse_path(at), told))
    if own == pool and moves:
        found.append(
            info(at, f"the engine moves from port {pool}, where the sidecar listens, to {engine}")
        )
    elif own == engine:
        found.append(info(at, f"the engine keeps its port {engine}; the sidecar listens on {pool}"))
    moved_from = frozenset({own, pool} - {engine})
    wiring = replace(wiring, engine_port=engine, moved_from=moved_from, sidecar=plan)
    return wiring, moves, found


def _kept(
    brought: str | None, pool: int, engine: int, role: str, field_at: str
) -> Iterator[Finding]:
    if brought is None:
        yield info(
            f"{field_at}.sidecar.enabled",
            "without a sidecar nobody sends prompts to the prefill pods, unless the engine does",
        )
        return
    yield info(role, f"container {brought} is the sidecar: none is added, the engine stays")
    if engine == pool:
        yield warning(
            role,
            f"container {brought} listens on port {pool}, and so does the engine, as far as its "
            "arguments say; give it another --port",
        )


def _immovable(pool: int, why: str) -> str:
    return (
        f"the engine cannot be moved off port {pool}, where the sidecar listens: {why}; make it "
        "listen on another port, and say which in kvTransfer.enginePort"
    )


def _free_port(template: Container, pool: int, given: KvTransferArgs) -> int:
    spec = template.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    taken = {port.get("containerPort") for each in containers for port in each.get("ports") or ()}
    taken |= {pool, given.side_channel_port, RAY_PORT}
    return next(port for port in range(ENGINE_PORT, 65536) if port not in taken)


_PAIR = {ComponentType.PREFILLER: "prefill", ComponentType.DECODER: "decode"}
_POD_IP = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@dataclass(frozen=True)
class Wired:
    """A role's serving containers with what their engines have to be told.

    Attributes:
        leader: The leaders' serving container.
        worker: The workers' one.
        wiring: What the pods get beside that; None when nothing.
        leader_edit: The leaders' command and args where they differ from the template's.
        worker_edit: The same of the workers.
        findings: What is to be said.
    """

    leader: Container
    worker: Container
    wiring: Wiring | None = None
    leader_edit: ContainerCommand | None = None
    worker_edit: ContainerCommand | None = None
    findings: list[Finding] = field(default_factory=list)


def wired(
    position: int,
    args: RoleArgs,
    template: Container,
    containers: tuple[Container, Container],
    at: str,
    disaggregation: Disaggregation | None,
) -> Wired:
    """Wires a role.

    Args:
        position: Index of the role in the spec.
        args: The role.
        template: Pod template of its leaders.
        containers: Serving container of the leaders, and of the workers.
        at: Field that holds the leaders' command line.
        disaggregation: The service's pairing of prefill with decode, None without.

    Returns:
        The containers as they were where there is nothing to wire.
    """
    leader, worker = containers
    part = _PAIR.get(args.component_type)
    paired = disaggregation if part is not None else None
    asked = (args.kv_transfer, args.kv_events, args.kv_cache_offloading)
    if paired is None and all(each is None for each in asked):
        return _as_meant(args, leader, worker, at)
    command = read_command(leader)
    given = args.kv_transfer or KvTransferArgs()
    way, found = transfer(position, args, command, at, needed=paired is not None)
    wiring = Wiring(
        pool_port=(pool := _pool_port(args, leader, command, paired)),
        engine_port=pool,
        labels={labels.LLM_D_ROLE: part} if paired is not None and part is not None else None,
        setup=way.connector,
        shared_memory=memory(given.shared_memory) if paired or args.kv_transfer else None,
    )
    published, said = events(position, args, command, pool)
    found += said
    settings = [*way.arguments, *published]
    if paired is not None and args.component_type is ComponentType.DECODER:
        wiring, moved, said = decode_side(
            position, args, template, leader, command, paired, wiring, at
        )
        settings += moved
        found += said
    setup = way.connector if paired is not None or args.kv_transfer is not None else None
    wiring = replace(wiring, **_engine_side(given, setup, args))
    edits, said = _edited(leader, worker, settings, list(way.arguments), at)
    found += said
    return Wired(
        with_command(leader, edits[0]),
        with_command(worker, edits[1]),
        wiring,
        edits[0],
        edits[1],
        found,
    )


def _as_meant(args: RoleArgs, leader: Container, worker: Container, at: str) -> Wired:
    """Splits arguments that hold a flag and its value, which no engine knows, of single pods.

    The launchers of several nodes do so themselves; `launcher: none` asks for what was written.
    """
    if nodes_per_replica(args) > 1:
        return Wired(leader, worker)
    (edited, _), found = _edited(leader, worker, [], [], at)
    return Wired(with_command(leader, edited), worker, leader_edit=edited, findings=found)


def _pool_port(
    args: RoleArgs, container: Container, command: EngineCommand, paired: Disaggregation | None
) -> int:
    if paired is not None and args.component_type is ComponentType.DECODER:
        return args.port or paired.port
    return serving_port(container, command, args.port)


def _engine_side(
    given: KvTransferArgs, setup: KvConnector | None, args: RoleArgs
) -> dict[str, Any]:
    """Variables and container ports of the engine."""
    env: list[Mapping[str, Any]] = []
    ports: list[Mapping[str, Any]] = []
    if setup is not None and setup.side_channel is not None:
        host, port = setup.side_channel
        env += [
            {"name": host, **_POD_IP},
            {"name": port, "value": str(given.side_channel_port)},
        ]
        ports.append({"name": "nixl", "containerPort": given.side_channel_port})
    if args.kv_events is not None:
        env.append({"name": POD_IP_ENV, **_POD_IP})
        host, _, port = args.kv_events.endpoint.rpartition(":")
        if host == "tcp://*":
            ports.append({"name": EVENTS_PORT, "containerPort": int(port)})
    return {"env": tuple(env), "ports": tuple(ports)}


def _edited(
    leader: Container,
    worker: Container,
    settings: list[Argument],
    worker_settings: list[Argument],
    at: str,
) -> tuple[tuple[ContainerCommand | None, ContainerCommand | None], list[Finding]]:
    try:
        edited = edit(read_command(leader), settings)
    except EditError as problem:
        if not settings:
            return (None, None), []
        flags = ", ".join(each.names[0] for each in settings)
        return (None, None), [
            error(at, f"{flags} cannot be set in it: {problem}; write the command as a list")
        ]
    found = [info(at, edited.note)] if edited is not None and edited.note else []
    try:
        return (edited, edit(read_command(worker), worker_settings)), found
    except EditError:
        # A worker with a command of its own, which may well be nothing but ray.
        return (edited, None), found


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
