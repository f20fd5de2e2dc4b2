"""The memory of one accelerator: weights, overhead and KV cache, and what the cache holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.memory import DeviceMemory, ModelShape, Unclear
from fusioninfer_pulumi.fit.accelerators import Accelerator
from fusioninfer_pulumi.fit.architecture import Architecture
from fusioninfer_pulumi.fit.cache import CacheLayout, layout
from fusioninfer_pulumi.fit.weights import Split, stages


@dataclass(frozen=True)
class Fit:
    """How a model lies in the memory of one accelerator; of several stages, in the fullest one.

    Sizes are in bytes.

    Attributes:
        accelerator: The accelerator.
        share: What weights, overhead and cache have together.
        weights: What the weights take.
        overhead: What activations and the engine take beside them.
        cache: What is left for the KV cache; negative where the weights leave nothing.
        length: Tokens of the longest sequence; None where it is not known.
        needed: What one sequence of that length takes of the cache; None where it is not known
            what the model keeps, or for how long.
        tokens: Tokens that the caches of a replica hold, with sequences of that length.
        requests: Requests of that length that a replica holds at a time.
        certain: Whether the overhead is known well enough to refuse by it.
        holds_longest: Whether the engine only starts when a sequence of that length fits.
        length_flag: Flag of the length.
        cache_argument: Argument that stores the cache in 8 bits; None where it does already.
        basis: What the numbers rest on.
    """

    accelerator: Accelerator
    share: int
    weights: int
    overhead: int
    cache: int
    length: int | None
    needed: int | None
    tokens: int | None
    requests: float | None
    certain: bool
    holds_longest: bool
    length_flag: str
    cache_argument: str | None
    basis: str


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
    shape = ModelShape(
        hidden=model.hidden,
        vocabulary=model.vocabulary,
        intermediate=model.intermediate,
        expert_width=model.expert_width,
        vision=model.vision > 0,
        longest=model.longest,
    )
    device = DeviceMemory(accelerator.total, accelerator.large_batches)
    memory = engine.memory(command, device, shape, sizes.tensor, ranks)
    if command.has("--quantization", "-q") and model.quantization is None:
        raise Unclear("weights are quantized while they are loaded")
    shared = sizes.data > 1 and memory.experts_across_copies
    split = Split(sizes.tensor, sizes.pipeline, sizes.tensor * sizes.data if shared else 1)
    if sizes.pipeline > len(model.layers):
        raise Unclear(f"{sizes.pipeline} stages are more than its {len(model.layers)} layers")
    stored = replace(model, bits=memory.bits) if memory.bits is not None else model
    each = stages(stored, split)
    heaviest = max(stage.weights for stage in each)
    length = memory.length if memory.length is not None else model.longest
    found = Fit(
        accelerator=accelerator,
        share=memory.share,
        weights=heaviest,
        overhead=memory.overhead,
        cache=memory.share - memory.overhead - heaviest,
        length=length,
        needed=None,
        tokens=None,
        requests=None,
        certain=memory.certain,
        holds_longest=memory.holds_longest,
        length_flag=memory.length_flag,
        cache_argument=memory.cache_argument if memory.cache_bits != 8 else None,
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
        cache=room[tightest],
        needed=int(kept[tightest].sequence(length)),
        tokens=int(requests * length) * copies,
        requests=requests * copies,
    )


def _requests(kept: CacheLayout, room: int, length: int) -> float:
    return room / kept.sequence(length)
