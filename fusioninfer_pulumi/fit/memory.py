"""The memory of one accelerator: weights, overhead and KV cache, and what the cache holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.memory import GIB, Accelerator, Unclear
from fusioninfer_pulumi.fit.architecture import Architecture
from fusioninfer_pulumi.fit.cache import CacheLayout, layout
from fusioninfer_pulumi.fit.weights import Split, stages


@dataclass(frozen=True)
class Fit:
    """How a model lies in the memory of one accelerator; of several stages, in the fullest one.

    Sizes are in bytes.

    Attributes:
        share: What weights, overhead and cache have together.
        overhead: What activations and the engine take beside them.
        length: Tokens of the longest sequence; None where it is not known.
        certain: Whether the overhead is known well enough to refuse by it.
        holds_longest: Whether the engine only starts when a sequence of that length fits.
        small_cache: Whether the cache is stored in 8 bits.
        needed: What one sequence of that length takes of the cache; None where it is not known
            what the model keeps, or for how long.
        tokens: Tokens that the caches of a replica hold, with sequences of that length.
        requests: Requests of that length that a replica holds at a time.
    """

    accelerator: Accelerator
    share: int
    weights: int
    overhead: int
    length: int | None
    certain: bool
    holds_longest: bool
    small_cache: bool
    basis: str
    needed: int | None = None
    tokens: int | None = None
    requests: float | None = None

    @property
    def cache(self) -> int:
        """What is left for the KV cache; negative where the weights leave nothing."""
        return self.share - self.overhead - self.weights


def fit(
    command: EngineCommand, model: Architecture, accelerator: Accelerator, nodes: int = 1
) -> Fit:
    """How a model fits an engine's accelerators.

    Raises:
        Unclear: Something is not understood; the text ends a sentence.
    """
    engine, sizes = command.engine, command.parallelism
    if engine is None or not command.readable:
        raise Unclear("the engine's arguments are not known")
    if sizes is None:
        raise Unclear("its parallelism is not known")
    if sizes.context > 1:
        raise Unclear("context parallelism is not followed")
    ranks = sizes.tensor * sizes.pipeline
    memory = engine.memory(command, accelerator, model, sizes.tensor, ranks)
    if command.has("--quantization", "-q") and model.quantization is None:
        raise Unclear("weights are quantized while they are loaded")
    shared = sizes.data > 1 and memory.experts_across_copies
    split = Split(sizes.tensor, sizes.pipeline, sizes.tensor * sizes.data if shared else 1)
    if sizes.pipeline > len(model.layers):
        raise Unclear(f"{sizes.pipeline} stages are more than its {len(model.layers)} layers")
    stored = replace(model, bits=memory.bits) if memory.bits is not None else model
    each = stages(stored, split)
    length = memory.length if memory.length is not None else model.longest
    found = Fit(
        accelerator=accelerator,
        share=memory.share,
        weights=max(stage.weights for stage in each),
        overhead=memory.overhead,
        length=length,
        certain=memory.certain,
        holds_longest=memory.holds_longest,
        small_cache=memory.cache_bits == 8,
        basis=memory.basis,
    )
    if not model.known_cache or length is None:
        return found
    bits = memory.cache_bits or stored.bits
    kept = [layout(stage.layers, bits, sizes.tensor, memory) for stage in each]
    room = [memory.share - memory.overhead - stage.weights for stage in each]
    tightest = min(range(len(each)), key=lambda at: _requests(kept[at], room[at], length))
    requests = max(0.0, _requests(kept[tightest], room[tightest], length))
    copies = max(1, sizes.devices(nodes) // ranks)
    return replace(
        found,
        weights=each[tightest].weights,
        needed=int(kept[tightest].sequence(length)),
        tokens=int(requests * length) * copies,
        requests=requests * copies,
    )


def _requests(kept: CacheLayout, room: int, length: int) -> float:
    return room / kept.sequence(length)


# For people and programs

#: Columns of the table for people.
COLUMNS = ("GPU", "USABLE", "WEIGHTS", "OVERHEAD", "KV CACHE", "TOKENS", "REQUESTS")


def memory_row(found: Fit) -> tuple[str, ...]:
    """One role's row; sizes in GiB on each accelerator, tokens and requests of a replica."""
    unknown = "not checked"
    requests = f"{found.requests:.1f} x {found.length}" if found.requests is not None else unknown
    return (
        found.accelerator.name,
        *(f"{size / GIB:.1f}" for size in (found.share, found.weights, found.overhead)),
        f"{max(found.cache, 0) / GIB:.1f}",
        str(found.tokens) if found.tokens is not None else unknown,
        requests,
    )


def memory_json(found: Fit) -> dict[str, Any]:
    """One role's memory in bytes; null is not known."""
    return {
        "accelerator": found.accelerator.name,
        "usable": found.share,
        "weights": found.weights,
        "overhead": found.overhead,
        "kvCache": max(found.cache, 0),
        "tokens": found.tokens,
        "length": found.length,
        "requests": None if found.requests is None else round(found.requests, 2),
        "basis": found.basis,
    }


def changes(old: Mapping[str, Fit], new: Mapping[str, Fit]) -> Iterator[str]:
    """Yields what a change does to the KV caches of roles that are in both."""
    for name, before in old.items():
        after = new.get(name)
        if after is None or before.tokens is None or after.tokens is None:
            continue
        if before.tokens == after.tokens and before.length == after.length:
            continue
        yield (
            f"{name}: KV cache of a replica {before.tokens} -> {after.tokens} tokens, "
            f"{before.requests or 0:.1f} x {before.length} -> "
            f"{after.requests or 0:.1f} x {after.length} requests (estimated)"
        )
