"""What a command line says about splitting and copying a model, and the accelerators it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusioninfer_pulumi.engines.engine import Argument, Engine, EngineCommand
from fusioninfer_pulumi.engines.flags import integer
from fusioninfer_pulumi.engines.rules import ACCELERATORS_TOO_FEW
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.rules.common import STATED_TWICE

ACCELERATORS_IDLE = Rule("accelerators-idle")


def stated_sizes(command: EngineCommand, engine: Engine) -> dict[str, int] | None:
    """The numbers behind the engine's `size_flags`; None when they cannot be known."""
    if not command.readable:
        return None
    sizes: dict[str, int] = {}
    for size, names in engine.size_flags.items():
        if not command.has(*names):
            continue
        number = integer(command.value(*names))
        if number is None or number < (0 if size == "data_local" else 1):
            return None
        sizes[size] = number
    # A file of options may hold any of these flags.
    return None if command.has("--config") else sizes


def contradictions(
    command: EngineCommand, wanted: Mapping[str, Argument], *, expert: bool | None
) -> Iterator[Finding]:
    """What a command line says otherwise than the fields of `parallelism`.

    The switch for experts must not be there when `expert` is stated as False.
    """
    for field, argument in wanted.items():
        if not argument.values or not command.has(*argument.names):
            continue
        value = command.value(*argument.names)
        if integer(value) != integer(argument.values[0]):
            yield _contradiction(
                argument.names[0],
                f"{argument.names[0]} {value or 'without a value'} contradicts "
                f"parallelism.{field} ({argument.values[0]}); remove one",
            )
    engine = command.engine
    if expert is False and engine is not None and engine.spreads_experts(command):
        flag = engine.expert_flags[0]
        yield _contradiction(flag, f"{flag} contradicts parallelism.expert (false); remove one")
    off = "--no-enable-expert-parallel"
    if expert and command.has(off):
        yield _contradiction(off, f"{off} contradicts parallelism.expert (true); remove one")


def _contradiction(flag: str, message: str) -> Finding:
    return error(STATED_TWICE, (flag,), message)


def check_accelerators(
    command: EngineCommand, accelerators_per_pod: int, nodes: int
) -> list[Finding]:
    """An error when an engine needs more accelerators than its replica has, a warning when fewer.

    Nothing when both agree or the parallelism is not known. To be called only for pods that ask
    for accelerators.
    """
    parallelism, engine = command.parallelism, command.engine
    # With no local rank the head only serves HTTP; how many ranks the others run is unknown.
    if engine is None or parallelism is None or parallelism.data_local == 0:
        return []
    need, have = parallelism.devices(nodes), accelerators_per_pod * nodes
    asked = parallelism.written(engine.size_flags, nodes)
    flag = asked.partition(" ")[0]
    has = f"a replica has {nodes} nodes x {accelerators_per_pod} = {have}"
    if nodes == 1:
        has = f"the pod has {have}"
    if need > have:
        message = f"{asked} needs {_count(need)}, but {has}"
        return [error(ACCELERATORS_TOO_FEW, (flag,), message)]
    if need == have:
        return []
    if parallelism.stated:
        message = f"{asked} uses {_count(need)}, but {has}: {have - need} stay idle"
    else:
        tensor = engine.size_flags["tensor"][0]
        message = (
            f"no parallelism is given, so {engine.name} uses 1 accelerator, but {has}: "
            f"give {tensor} {have}, or ask for fewer accelerators"
        )
    return [warning(ACCELERATORS_IDLE, (flag,), message)]


def _count(number: int) -> str:
    return f"{number} accelerator{'' if number == 1 else 's'}"


def local_ranks(command: EngineCommand, nodes: int) -> int:
    """Data parallel ranks of one pod, 1 where that cannot be read."""
    sizes = command.parallelism
    if sizes is None:
        return 1
    return sizes.data_local or max(sizes.data // nodes, 1)
