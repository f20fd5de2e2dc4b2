"""Makes room for the sidecar in front of a decode engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import RAY_PORT
from fusioninfer_pulumi.engines.kv_settings import Setting
from fusioninfer_pulumi.findings import Finding, error, info, join, warning
from fusioninfer_pulumi.plan.containers import serving_port
from fusioninfer_pulumi.plan.disaggregation.arguments import why_unknown
from fusioninfer_pulumi.plan.disaggregation.records import Disaggregation, Wiring
from fusioninfer_pulumi.plan.disaggregation.sidecar import own_sidecar, sidecar_plan
from fusioninfer_pulumi.spec.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.spec.role import RoleArgs

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
) -> tuple[Wiring, list[Setting], list[Finding]]:
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
    moves = [Setting("--port", str(engine))]
    if command.engine is None:
        moves = []
        if given.engine_port is None and own == pool:
            found.append(error(at, _immovable(pool, why_unknown(command))))
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
