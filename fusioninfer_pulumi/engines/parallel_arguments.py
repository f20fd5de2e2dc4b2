"""The arguments by which vLLM and SGLang are told how to split and copy a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.parallelism import SPELLINGS

# vLLM: `vllm/engine/arg_utils.py` of 0.11.0 and 0.33.0. SGLang: `ServerArgs` of 0.5.3.
_EXPERT = {
    "vllm": ("--enable-expert-parallel", "-ep"),
    "sglang": ("--ep-size", "--expert-parallel-size", "--ep"),
}
_RPC_PORT = ("--data-parallel-rpc-port", "-dpp")


@dataclass(frozen=True)
class Sizes:
    """What the arguments shall say; None leaves the engine's default.

    Attributes:
        tensor: Ways each layer is split.
        pipeline: Stages of the layers.
        data: Copies of the model.
        data_local: Copies on one node, where the launcher does not work them out.
        rpc_port: Port on which the leader coordinates copies on other nodes.
        expert: Whether experts are spread.
    """

    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    data_local: int | None = None
    rpc_port: int | None = None
    expert: bool | None = None


@dataclass(frozen=True)
class Wanted:
    """One argument.

    Attributes:
        field: Field of `parallelism` that asks for it.
        names: Its spellings, the one that is written first.
        value: Its value; None for a switch.
    """

    field: str
    names: tuple[str, ...]
    value: int | None


def wanted_arguments(engine: str, sizes: Sizes) -> list[Wanted]:
    """The arguments that say these sizes.

    Args:
        engine: `vllm` or `sglang`.
        sizes: What they shall say.

    Returns:
        One for each size; SGLang has none for `data_local` and `rpc_port`.
    """
    spelled = SPELLINGS[engine]
    numbers = {
        "tensor": ("tensor", sizes.tensor),
        "pipeline": ("pipeline", sizes.pipeline),
        "data": ("data", sizes.data),
        "data_local": ("dataLocal", sizes.data_local),
    }
    found = [
        Wanted(field, spelled[key], value)
        for key, (field, value) in numbers.items()
        if value is not None and key in spelled
    ]
    if sizes.rpc_port is not None and engine == "vllm":
        found.append(Wanted("dataRPCPort", _RPC_PORT, sizes.rpc_port))
    if sizes.expert:
        # SGLang's own advice: as many expert ranks as tensor ranks.
        ranks = None if engine == "vllm" else sizes.tensor or 1
        found.append(Wanted("expert", _EXPERT[engine], ranks))
    return found


def missing_arguments(command: EngineCommand, wanted: Sequence[Wanted]) -> list[str]:
    """The words that have to be added for what a command line does not say yet."""
    arguments = split_joined_flags(command.arguments)
    words: list[str] = []
    for each in wanted:
        if not has_flag(arguments, *each.names):
            words.append(each.names[0])
            if each.value is not None:
                words.append(str(each.value))
    return words


def contradictions(
    command: EngineCommand, wanted: Sequence[Wanted], *, expert: bool | None
) -> Iterator[str]:
    """What a command line says differently.

    Args:
        command: The command line as written.
        wanted: What it shall say.
        expert: The stated `expert`, for the switch that must not be there when it is False.

    Yields:
        One sentence for each argument.
    """
    arguments = split_joined_flags(command.arguments)
    for each in wanted:
        if each.value is None or not has_flag(arguments, *each.names):
            continue
        given = flag_value(arguments, *each.names)
        if integer(given) != each.value:
            yield (
                f"{each.names[0]} {given or 'without a value'} contradicts "
                f"parallelism.{each.field} ({each.value}); remove one"
            )
    if command.engine is None:
        return
    names = _EXPERT[command.engine]
    switched_on = has_flag(arguments, *names)
    if command.engine == "sglang":
        switched_on = switched_on and integer(flag_value(arguments, *names)) != 1
    if expert is False and switched_on:
        yield f"{names[0]} contradicts parallelism.expert (false); remove one"
    if expert and has_flag(arguments, "--no-enable-expert-parallel"):
        yield "--no-enable-expert-parallel contradicts parallelism.expert (true); remove one"
