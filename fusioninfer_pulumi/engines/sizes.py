"""How many ways an engine splits and copies a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
        port_per_rank: Whether each copy serves on a port of its own.
    """

    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    data_local: int | None = None
    rpc_port: int | None = None
    expert: bool | None = None
    port_per_rank: bool | None = None


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

    def ranks_of_pod(self, nodes: int) -> int:
        """Data parallel ranks of one pod."""
        return self.data_local or max(self.data // nodes, 1)

    def written(self, size_flags: Mapping[str, Sequence[str]], nodes: int | None = None) -> str:
        """The product behind `devices` with an engine's flags, for messages."""
        names = {size: spellings[0] for size, spellings in size_flags.items()}
        sizes = {"tensor": self.tensor, "pipeline": self.pipeline, "context": self.context}
        parts = [f"{names[size]} {number}" for size, number in sizes.items() if number > 1]
        ranks = self._ranks(nodes)
        if ranks < self.data and self.data_local != 1:
            parts.append(f"{names['data_local']} {self.data_local} on each node")
        elif ranks > 1:
            parts.append(f"{names['data']} {ranks}")
        return " x ".join(parts) or f"{names['tensor']} 1"
