"""How many ways an engine splits and copies a model, and the accelerators that this takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusioninfer_pulumi.engines.flags import integer
from fusioninfer_pulumi.engines.rules import ACCELERATORS_TOO_FEW
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.rules.common import STATED_TWICE

if TYPE_CHECKING:  # the protocol's methods return what is defined here
    from fusioninfer_pulumi.engines.engine import Argument, Engine, EngineCommand

ACCELERATORS_IDLE = Rule(
    "accelerators-idle",
    "warning",
    "The engine uses all accelerators of a replica's pods.",
    remedy="Raise the parallel sizes, or ask for fewer accelerators.",
)


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
        """The accelerators of one replica; with None for nodes, of all ranks wherever they run.

        tensor x pipeline x context for every data parallel rank (vLLM `ParallelConfig.world_size`,
        SGLang `compute_world_size`). `--data-parallel-size-local` says how many ranks run on one
        node; the rest of `--data-parallel-size` may run in other deployments.
        """
        return self.tensor * self.pipeline * self.context * self._ranks(nodes)

    def _ranks(self, nodes: int | None) -> int:
        if nodes is None or self.data_local is None:
            return self.data
        return min(self.data, self.data_local * nodes)

    def written(self, engine: Engine, nodes: int | None = None) -> str:
        """The product behind `devices` with the engine's flags, for messages."""
        names = {size: spellings[0] for size, spellings in engine.size_flags.items()}
        sizes = {"tensor": self.tensor, "pipeline": self.pipeline, "context": self.context}
        parts = [f"{names[size]} {number}" for size, number in sizes.items() if number > 1]
        ranks = self._ranks(nodes)
        if ranks < self.data and self.data_local != 1:
            parts.append(f"{names['data_local']} {self.data_local} on each node")
        elif ranks > 1:
            parts.append(f"{names['data']} {ranks}")
        return " x ".join(parts) or f"{names['tensor']} 1"


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
    # A file of options may hold any of them.
    return None if command.has("--config") else sizes


def contradictions(
    command: EngineCommand, wanted: Mapping[str, Argument], *, expert: bool | None
) -> Iterator[Finding]:
    """What a command line says otherwise than the fields of `parallelism`.

    The switch for experts must not be there when `expert` is stated as False.
    """
    for field, each in wanted.items():
        if not each.values or not command.has(*each.names):
            continue
        given = command.value(*each.names)
        if integer(given) != integer(each.values[0]):
            yield _contradiction(
                each.names[0],
                f"{each.names[0]} {given or 'without a value'} contradicts "
                f"parallelism.{field} ({each.values[0]}); remove one",
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
    asked = parallelism.written(engine, nodes)
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
