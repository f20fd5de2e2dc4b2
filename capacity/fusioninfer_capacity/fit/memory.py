"""The memory of one accelerator: weights, overhead, KV cache and the cache's capacity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fusioninfer_capacity.fit.architecture import Architecture, Compressed
from fusioninfer_capacity.fit.cache import make_cache_layout
from fusioninfer_capacity.fit.engines import GIB, SIZED_ENGINES, Accelerator, UnknownMemoryError
from fusioninfer_capacity.fit.weights import Split, split_stages
from fusioninfer_pulumi.plugins.capacity import EngineCommand


@dataclass(frozen=True)
class Fit:
    """The memory of one accelerator with a model, in bytes.

    It is an accelerator of the pipeline stage with the least memory left.

    Attributes:
        usable: Memory available to weights, overhead and cache together.
        overhead: Memory of activations and the engine.
        length: Tokens of the longest sequence; None if unknown.
        margin: Fraction of the accelerator's memory by which the estimate may be wrong.
        doubt: Why the result is uncertain; None if it is certain.
        holds_longest: Whether the engine only starts if a sequence of `length` tokens fits.
        fp8_cache: Whether the cache is stored in 8 bits.
        sequences: Maximum sequences of a step.
        needed: Cache that one sequence of `length` tokens needs; None if unknown.
        tokens: Tokens that fit the caches of a replica, in sequences of `length` tokens.
        requests: Requests of `length` tokens that fit the caches of a replica.
    """

    accelerator: Accelerator
    usable: int
    weights: int
    overhead: int
    length: int | None
    margin: float
    doubt: str | None
    holds_longest: bool
    fp8_cache: bool
    basis: str
    sequences: int = 256
    needed: int | None = None
    tokens: int | None = None
    requests: float | None = None

    def count_max_requests(self, length: int) -> float:
        """Return the maximum concurrent requests of a length: by the cache, and by `sequences`."""
        return min((self.tokens or 0) / length, self.sequences)

    @property
    def certain(self) -> bool:
        """Whether the estimate may reject a model."""
        return self.doubt is None

    @property
    def cache(self) -> int:
        """Bytes for the KV cache; negative if the weights do not fit."""
        return self.usable - self.overhead - self.weights

    #: Titles of the cells of `row`, in the output of `plan` and `diff`.
    columns: ClassVar[tuple[str, ...]] = (
        "GPU", "USABLE GiB", "WEIGHTS GiB", "OVERHEAD GiB", "KV CACHE GiB", "CACHED TOKENS",
        "CONCURRENT REQUESTS",
    )  # fmt: skip

    def row(self) -> tuple[str, ...]:
        """Return the cells of `columns`: sizes per accelerator, tokens and requests per replica."""
        unknown = "not checked"
        requests = unknown if self.requests is None else self._describe_requests()
        return (
            self.accelerator.name,
            *(f"{size / GIB:.1f}" for size in (self.usable, self.weights, self.overhead)),
            f"{max(self.cache, 0) / GIB:.1f}",
            str(self.tokens) if self.tokens is not None else unknown,
            requests,
        )

    def to_json(self) -> dict[str, Any]:
        """Return sizes in bytes; unknown ones are null."""
        return {
            "accelerator": self.accelerator.name,
            "usable": self.usable,
            "weights": self.weights,
            "overhead": self.overhead,
            "kvCache": max(self.cache, 0),
            "tokens": self.tokens,
            "length": self.length,
            "requests": None if self.requests is None else round(self.requests, 2),
            "basis": self.basis,
            "uncertain": self.doubt,
        }

    def describe_change(self, new: Fit) -> str | None:
        """Return the change of a replica's KV cache; None if it is unchanged or unknown."""
        if self.tokens is None or new.tokens is None:
            return None
        if self.tokens == new.tokens and self.length == new.length:
            return None
        before = (
            f"{self.requests or 0:.1f}" if self.length == new.length else self._describe_requests()
        )
        return (
            f"KV cache per replica {self.tokens} -> {new.tokens} tokens, concurrent requests "
            f"{before} -> {new._describe_requests()} (estimated)"
        )

    def _describe_requests(self) -> str:
        return f"{self.requests or 0:.1f} of {self.length:,} tokens"


def fit(
    command: EngineCommand, model: Architecture, accelerator: Accelerator, nodes: int = 1
) -> Fit:
    """Return how a model fits an engine's accelerators.

    Raises:
        UnknownMemoryError: The memory cannot be estimated; the message says why.
    """
    engine, sizes = command.engine, command.parallelism
    if engine is None or not command.is_readable:
        raise UnknownMemoryError("the engine or its arguments are unknown")
    if sizes is None:
        raise UnknownMemoryError("the engine's parallelism is unknown")
    if sizes.context > 1:
        raise UnknownMemoryError("context parallelism is not supported")
    ranks = sizes.tensor * sizes.pipeline
    if engine.name not in SIZED_ENGINES:
        raise UnknownMemoryError(f"the memory of {engine.title} is unknown")
    memory = SIZED_ENGINES[engine.name].memory(command, accelerator, model, sizes.tensor, ranks)
    if command.has("--quantization", "-q") and model.quantization is None:
        raise UnknownMemoryError("the engine quantizes weights while it loads them")
    has_shared_experts = sizes.data > 1 and memory.experts_across_copies
    split = Split(
        sizes.tensor,
        sizes.pipeline,
        sizes.tensor * sizes.data if has_shared_experts else 1,
        whole_encoder=has_whole_encoders(command),
    )
    if sizes.pipeline > len(model.layers):
        raise UnknownMemoryError(
            f"{sizes.pipeline} stages are more than the model's {len(model.layers)} layers"
        )
    stored = replace(model, bits=memory.bits) if memory.bits is not None else model
    pipeline_stages = split_stages(stored, split)
    length = memory.length if memory.length is not None else model.longest
    role_fit = Fit(
        accelerator=accelerator,
        usable=memory.usable,
        weights=max(stage.weights for stage in pipeline_stages),
        overhead=memory.overhead,
        length=length,
        margin=memory.margin,
        doubt=memory.doubt or model.doubt,
        holds_longest=memory.holds_longest,
        fp8_cache=memory.cache_bits == 8,
        basis=memory.basis,
        sequences=memory.sequences,
    )
    compressed = any(isinstance(layer.cache, Compressed) for layer in model.layers)
    if length is None or (compressed and memory.packing is None):
        return role_fit
    bits = memory.cache_bits or stored.bits
    caches = [
        make_cache_layout(stage.layers, bits, stored.bits, sizes.tensor, memory)
        for stage in pipeline_stages
    ]
    free = [memory.usable - memory.overhead - stage.weights for stage in pipeline_stages]
    tightest = min(
        range(len(pipeline_stages)),
        key=lambda stage: caches[stage].count_requests(free[stage], length),
    )
    requests = max(0.0, caches[tightest].count_requests(free[tightest], length))
    copies = max(1, sizes.count_accelerators(nodes) // ranks)
    return replace(
        role_fit,
        weights=pipeline_stages[tightest].weights,
        needed=int(caches[tightest].measure_sequence(length)),
        tokens=int(requests * length) * copies,
        requests=requests * copies,
    )


def has_whole_encoders(command: EngineCommand) -> bool:
    """Return whether each rank has whole image encoders and encodes a part of the images."""
    mode = command.value("--mm-encoder-tp-mode")
    return mode == "data" or command.has("--mm-enable-dp-encoder")
