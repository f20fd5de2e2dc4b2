"""Wires one role: the flags of its engines, and what its pods get beside their template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.kv_connectors import NIXL_HOST_ENV, NIXL_PORT_ENV, KvSetup
from fusioninfer_pulumi.engines.kv_settings import Setting, SettingError, with_settings
from fusioninfer_pulumi.engines.launch import Launch
from fusioninfer_pulumi.engines.launch_types import with_words
from fusioninfer_pulumi.findings import Finding, error, info
from fusioninfer_pulumi.plan.containers import serving_port
from fusioninfer_pulumi.plan.disaggregation.arguments import (
    POD_IP_ENV,
    events,
    transfer,
)
from fusioninfer_pulumi.plan.disaggregation.decode import decode_side
from fusioninfer_pulumi.plan.disaggregation.records import EVENTS_PORT, Disaggregation, Wiring
from fusioninfer_pulumi.plan.pod_edits import memory
from fusioninfer_pulumi.plan.topology import nodes_per_replica
from fusioninfer_pulumi.spec.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs

Container = Mapping[str, Any]

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
    leader_edit: Launch | None = None
    worker_edit: Launch | None = None
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
        setup=way.setup,
        shared_memory=memory(given.shared_memory) if paired or args.kv_transfer else None,
    )
    published, said = events(position, args, command, pool)
    found += said
    settings = [*way.settings, *published]
    if paired is not None and args.component_type is ComponentType.DECODER:
        wiring, moved, said = decode_side(
            position, args, template, leader, command, paired, wiring, at
        )
        settings += moved
        found += said
    setup = way.setup if paired is not None or args.kv_transfer is not None else None
    wiring = replace(wiring, **_engine_side(given, setup, args, command))
    edits, said = _edited(leader, worker, settings, list(way.settings), at)
    found += said
    return Wired(
        with_words(leader, edits[0]),
        with_words(worker, edits[1]),
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
    (edit, _), found = _edited(leader, worker, [], [], at)
    return Wired(with_words(leader, edit), worker, leader_edit=edit, findings=found)


def _pool_port(
    args: RoleArgs, container: Container, command: EngineCommand, paired: Disaggregation | None
) -> int:
    if paired is not None and args.component_type is ComponentType.DECODER:
        return args.port or paired.port
    return serving_port(container, command, args.port)


def _engine_side(
    given: KvTransferArgs, setup: KvSetup | None, args: RoleArgs, command: EngineCommand
) -> dict[str, Any]:
    """Variables and container ports of the engine."""
    env: list[Mapping[str, Any]] = []
    ports: list[Mapping[str, Any]] = []
    if setup is not None and setup.uses_nixl and command.engine == "vllm":
        env += [
            {"name": NIXL_HOST_ENV, **_POD_IP},
            {"name": NIXL_PORT_ENV, "value": str(given.side_channel_port)},
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
    settings: list[Setting],
    worker_settings: list[Setting],
    at: str,
) -> tuple[tuple[Launch | None, Launch | None], list[Finding]]:
    try:
        edit = with_settings(leader, settings)
    except SettingError as problem:
        if not settings:
            return (None, None), []
        flags = ", ".join(setting.flag for setting in settings)
        return (None, None), [
            error(at, f"{flags} cannot be set in it: {problem}; write the command as a list")
        ]
    found = [info(at, edit.note)] if edit is not None and edit.note else []
    try:
        return (edit, with_settings(worker, worker_settings)), found
    except SettingError:
        # A worker with a command of its own, which may well be nothing but ray.
        return (edit, None), found
