"""Counts the accelerators that an engine's parallelism flags ask for."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.notes import EngineNote

__all__ = ["SPELLINGS", "EngineNote", "Parallelism", "check_parallelism", "read_parallelism"]

# Spellings per engine, the one for messages first. `--tensor-parallel` and SGLang's `--tp` are
# abbreviations that argparse completes, as the engines' own documents write them.
# vLLM: `vllm/engine/arg_utils.py` 0.11.0 to 0.33.0. SGLang: `ServerArgs` 0.4.6 to 0.5.23.
SPELLINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor": ("--tensor-parallel-size", "-tp", "--tensor-parallel"),
        "pipeline": ("--pipeline-parallel-size", "-pp", "--pipeline-parallel"),
        "context": ("--prefill-context-parallel-size", "-pcp"),
        "data": ("--data-parallel-size", "-dp"),
        "data_local": ("--data-parallel-size-local", "-dpl"),
    },
    "sglang": {
        "tensor": ("--tp-size", "--tensor-parallel-size", "--tp"),
        "pipeline": ("--pp-size", "--pipeline-parallel-size", "--pp"),
        "data": ("--dp-size", "--data-parallel-size", "--dp"),
    },
}

#: vLLM flags that make a process run one data parallel rank, the others run elsewhere.
_ONE_RANK = ("--data-parallel-rank", "-dpn", "--data-parallel-external-lb", "-dpe")


@dataclass(frozen=True)
class Parallelism:
    """How many ways an engine splits and copies the model.

    Attributes:
        tensor: Ways each layer is split.
        pipeline: Ways the layers are divided into stages.
        data: Copies of the model that take requests, each with its own accelerators. For SGLang's
            data parallel attention it is 1: its ranks share the tensor parallel accelerators.
        data_local: Copies that run on one node, where the flags say so (vLLM only).
        stated: Whether any of these was given.
        context: Ways the prompt is split (vLLM's prefill context parallelism, 0.12.0 and later;
            decode context parallelism shares the tensor parallel accelerators).
    """

    tensor: int
    pipeline: int
    data: int
    data_local: int | None
    stated: bool
    context: int = 1

    def devices(self, nodes: int | None = None) -> int:
        """Counts the accelerators of one replica.

        tensor x pipeline x context for every data parallel rank (vLLM `ParallelConfig.world_size`,
        SGLang `compute_world_size`). `--data-parallel-size-local` says how many ranks run on one
        node; the rest of `--data-parallel-size` may run in other deployments.

        Args:
            nodes: Nodes of the replica; None counts all ranks, wherever they run.

        Returns:
            The number of accelerators.
        """
        return self.tensor * self.pipeline * self.context * self._ranks(nodes)

    def _ranks(self, nodes: int | None) -> int:
        if nodes is None or self.data_local is None:
            return self.data
        return min(self.data, self.data_local * nodes)

    def written(self, engine: str, nodes: int | None = None) -> str:
        """Writes the product behind `devices` with the engine's flags, for messages."""
        names = {size: spellings[0] for size, spellings in SPELLINGS[engine].items()}
        sizes = {"tensor": self.tensor, "pipeline": self.pipeline, "context": self.context}
        parts = [f"{names[size]} {number}" for size, number in sizes.items() if number > 1]
        ranks = self._ranks(nodes)
        if ranks < self.data and self.data_local != 1:
            parts.append(f"{names['data_local']} {self.data_local} on each node")
        elif ranks > 1:
            parts.append(f"{names['data']} {ranks}")
        return " x ".join(parts) or f"{names['tensor']} 1"


def read_parallelism(command: EngineCommand) -> Parallelism | None:
    """Reads an engine's parallelism flags.

    Args:
        command: The container's command line.

    Returns:
        The parallelism; None when it is not known: another engine, hidden arguments, a value that
        is no positive integer (`$TP`), or options in a file (`--config`).
    """
    if command.engine is None or not command.readable:
        return None
    arguments = split_joined_flags(command.arguments)
    sizes: dict[str, int] = {}
    for size, names in SPELLINGS[command.engine].items():
        text = flag_value(arguments, *names)
        if text is None and not has_flag(arguments, *names):
            continue
        number = integer(text)
        if number is None or number < (0 if size == "data_local" else 1):
            return None
        sizes[size] = number
    if has_flag(arguments, "--config"):
        return None
    data, local = sizes.get("data", 1), sizes.get("data_local")
    if command.engine == "sglang" and data > 1:
        if any(part in argument for argument in arguments for part in ("-cp", "context-parallel")):
            return None  # some of its context parallel layouts reuse --dp-size for other ranks
        if has_flag(arguments, "--enable-dp-attention"):
            data = 1
    if command.engine == "vllm" and local is None and has_flag(arguments, *_ONE_RANK):
        local = 1
    return Parallelism(
        tensor=sizes.get("tensor", 1),
        pipeline=sizes.get("pipeline", 1),
        data=data,
        data_local=local,
        stated=bool(sizes),
        context=sizes.get("context", 1),
    )


def check_parallelism(
    command: EngineCommand, accelerators_per_pod: int, nodes: int
) -> list[EngineNote]:
    """Compares what an engine asks for with what its replica has.

    Args:
        command: The serving container's command line.
        accelerators_per_pod: Accelerators that the pod asks for; call it only when it does.
        nodes: Pods of one replica.

    Returns:
        An error when the engine needs more than the replica has, a warning when some stay idle,
        nothing when both agree or the parallelism is not known.
    """
    parallelism = read_parallelism(command)
    # With no local rank the head only serves HTTP; how many ranks the others run is not said.
    if command.engine is None or parallelism is None or parallelism.data_local == 0:
        return []
    need, have = parallelism.devices(nodes), accelerators_per_pod * nodes
    asked = parallelism.written(command.engine, nodes)
    flag = asked.partition(" ")[0]
    has = f"a replica has {nodes} nodes x {accelerators_per_pod} = {have}"
    if nodes == 1:
        has = f"the pod has {have}"
    if need > have:
        return [EngineNote("error", flag, f"{asked} needs {_count(need)}, but {has}")]
    if need == have:
        return []
    if parallelism.stated:
        message = f"{asked} uses {_count(need)}, but {has}: {have - need} stay idle"
    else:
        tensor = SPELLINGS[command.engine]["tensor"][0]
        message = (
            f"no parallelism is given, so {command.engine} uses 1 accelerator, but {has}: "
            f"give {tensor} {have}, or ask for fewer accelerators"
        )
    return [EngineNote("warning", flag, message)]


def _count(number: int) -> str:
    return f"{number} accelerator{'' if number == 1 else 's'}"
