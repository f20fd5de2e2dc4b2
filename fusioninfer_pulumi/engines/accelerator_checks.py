"""What a command line says about splitting and copying a model, and the accelerators it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusioninfer_pulumi.engines.engine import Argument, EngineCommand
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.rules.common import STATED_TWICE

ACCELERATORS_TOO_FEW = Rule("accelerators-too-few")
ACCELERATORS_IDLE = Rule("accelerators-idle")


def check_size_arguments(
    command: EngineCommand, wanted: Mapping[str, Argument], *, expert: bool | None
) -> Iterator[Finding]:
    """Check for arguments that contradict the fields of `parallelism`.

    The switch for experts must not be there when `expert` is False.
    """
    texts = {}
    for field, argument in wanted.items():
        flag, value = argument.names[0], command.value(*argument.names)
        if argument.values and command.has(*argument.names) and value != argument.values[0]:
            text = f"{flag} {value or 'without a value'}"
            texts[flag] = f"{text} conflicts with parallelism.{field} ({argument.values[0]})"
    engine, off = command.engine, "--no-enable-expert-parallel"
    if expert is False and engine is not None and engine.spreads_experts(command):
        flag = engine.expert_flags[0]
        texts[flag] = f"{flag} conflicts with parallelism.expert (false)"
    if expert and command.has(off):
        texts[off] = f"{off} conflicts with parallelism.expert (true)"
    for flag, text in texts.items():
        yield error(STATED_TWICE, (flag,), f"{text}; remove one")


def check_accelerators(
    command: EngineCommand, accelerators_per_pod: int, nodes: int
) -> list[Finding]:
    """Compare the accelerators that an engine needs with those of its replica.

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
    count = f"{need} accelerator{'' if need == 1 else 's'}"
    has = f"a replica has {nodes} nodes x {accelerators_per_pod} = {have}"
    if nodes == 1:
        has = f"the pod has {have}"
    if need > have:
        message = f"{asked} needs {count}, but {has}"
        return [error(ACCELERATORS_TOO_FEW, (flag,), message)]
    if need == have:
        return []
    if parallelism.stated:
        message = f"{asked} uses {count}, but {has}: {have - need} stay idle"
    else:
        tensor = engine.size_flags["tensor"][0]
        message = (
            f"no parallelism is given, so {engine.name} uses 1 accelerator, but {has}: "
            f"give {tensor} {have}, or ask for fewer accelerators"
        )
    return [warning(ACCELERATORS_IDLE, (flag,), message)]
