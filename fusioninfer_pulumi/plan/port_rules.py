"""Whether anybody listens on the port by which a role is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.findings import Finding, error, join, warning
from fusioninfer_pulumi.plan.disaggregation.sidecar import own_sidecar
from fusioninfer_pulumi.plan.records import RolePlan

_REACHED = "probe, Service and pool would reach a port on which nothing listens"
#: A file of arguments, which may hold the port.
_CONFIG = "--config"


def port_findings(
    plan: RolePlan, template: Mapping[str, Any], container: Mapping[str, Any], at: str
) -> Iterator[Finding]:
    """Compares the port of a role with the one that its engine listens on.

    A container beside the engine that listens on the port, such as a proxy of the user's, is
    what `port` is for: then nothing is said.

    Args:
        plan: The role, without a sidecar of ours before its engine.
        template: Pod template of its leaders.
        container: Their serving container, as written.
        at: Field that holds the command line.

    Yields:
        An error where the role states another port than the command line; where the engine's
        default decides, an error too if the program that runs is known, else a warning.
    """
    command, port, stated = read_command(container), plan.serving.port, plan.args.port
    given = table.serving_port(command)
    listens = given or _default(command)
    if listens is None or listens == port:
        return
    if own_sidecar(template, str(container["name"]), port) is not None:
        return
    field = join("roles", plan.position, "port")
    if given is not None:
        say = error if command.readable else warning
        told = f"{table.PORT_FLAG} {given} of the engine"
        if stated is not None:
            yield say(field, f"{port} contradicts {told} ({at}): {_REACHED}; remove one of them")
        else:
            yield say(at, f"{told} is not the port {port} of the role: {_REACHED}")
        return
    told = f"{command.engine} listens on {listens} without {table.PORT_FLAG}"
    way_out = f"{_REACHED}; add {table.PORT_FLAG}={port} to its arguments"
    if stated is not None:
        # The entrypoint of somebody's own image may choose a port by itself.
        say = error if command.program or command.image.stock else warning
        yield say(field, f"{port} is not where the engine listens: {told}: {way_out}")
    else:
        yield warning(at, f"the role is reached on port {port}, but {told}: {way_out}")


def _default(command: EngineCommand) -> int | None:
    """Where the engine listens by itself, None where something unread may say otherwise."""
    words = split_joined_flags(command.arguments)
    if not command.readable or has_flag(words, table.PORT_FLAG, _CONFIG):
        return None
    return table.default_port(command.engine)
