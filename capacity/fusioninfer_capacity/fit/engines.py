"""How an engine divides an accelerator's memory, by its arguments and its release.

vLLM, 0.9.0 and later (`v1/worker/gpu_worker.py`): the cache gets the memory that
`--gpu-memory-utilization` allows, minus weights, the peak of a profiling run and memory outside
PyTorch; since 0.21.0 also minus an estimate for CUDA graphs. From the sources of 0.8.5, 0.11.0,
0.14.0, 0.17.1, 0.18.0, 0.20.0, 0.21.0 and 0.24.0 to 0.33.0. The constants are fitted to recorded
startups (capacity/tests/fit/startup_logs.yaml).

SGLang (`model_executor/model_runner*.py`): `--mem-fraction-static` of the memory that is free
before loading the weights is for weights and cache. Its default leaves memory for activations and
CUDA graphs (`server_args.py` of 0.4.6.post1, 0.4.9, 0.5.3, 0.5.9 to 0.5.15, `memory_hook.py` of
0.5.19 and 0.5.23).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.plugins.capacity import NIXL, PRESETS, EngineCommand, parse_integer

GIB = 2**30
#: Values of `--max-model-len` with which vLLM uses the longest sequence that fits.
AUTOMATIC_LENGTHS = ("-1", "auto")
Version = tuple[int, ...]


@dataclass(frozen=True)
class ModelShape:
    """The properties of a model that determine the memory of activations.

    Attributes:
        intermediate: Width of the widest dense layer.
        expert_width: Width that one token's routed experts have together, 0 without experts.
        experts_per_token: Routed experts of one token.
        expert_hidden: Width of the experts' input.
        vision: Parameters of the vision encoder, 0 without one.
        encoder: Layers and width of the vision encoder, as SGLang reads them.
        image: Bytes of activations of the largest image.
        depth: Layers.
        recurrent: Whether some layers keep a state of fixed size.
        latent: Whether its attention is multi-head latent attention.
        sparse: Whether its attention is sparse.
    """

    hidden: int
    vocabulary: int
    intermediate: int
    expert_width: int
    experts_per_token: int
    expert_hidden: int
    vision: int
    encoder: tuple[int, int]
    image: int
    depth: int
    recurrent: bool
    latent: bool
    sparse: bool


@dataclass(frozen=True)
class Accelerator:
    """One kind of accelerator.

    Attributes:
        name: Its name, as in `--accelerator`.
        total: Bytes that its driver reports.
        large_batches: Whether vLLM batches more on it: 70 GiB or more, and not an A100.
        has_bfloat16: Whether it computes in bfloat16; true if unknown.
    """

    name: str
    total: int
    large_batches: bool
    has_bfloat16: bool = True


@dataclass(frozen=True)
class Memory:
    """How an engine divides the memory of one accelerator.

    Attributes:
        usable: Bytes available to weights, overhead and KV cache together.
        overhead: Bytes for activations and the engine itself, a part of `usable`.
        length: Tokens of the longest sequence, or None for the model's own.
        cache_bits: Bits of an element of the KV cache; None for the type of the weights.
        bits: Bits of an unquantized parameter if the arguments set it, else None.
        block: Tokens in a block of the KV cache.
        batched: Tokens of all steps in flight, which sliding-window layers also keep.
        margin: Fraction of the accelerator's memory by which the estimate may be wrong.
        doubt: Why the overhead is too uncertain to reject a model; None if it is not.
        holds_longest: Whether the engine only starts when a sequence of `length` fits.
        experts_across_copies: Whether data parallel copies share their routed experts.
        windows: How the cache of sliding-window layers is kept: in separate `groups` of layers, in
            `pools` of tokens, or in `full`, as for any other layer.
        close_factor: Kinds of layers whose numbers differ by less than this factor form one group
            each; otherwise groups have the size of the rarest kind.
        allows_uneven_groups: Whether groups may have different numbers of bytes per token.
        sequences: Maximum sequences of a step.
        state_pages: Pages of a sequence in each group of layers that keep a state.
        has_latent_scales: Whether 8-bit latents of sparse attention are stored with scales.
        packing: How pages of several sizes share a block (`compressed.py`); None if unknown.
        basis: Description of the source of the numbers.
    """

    usable: int
    overhead: int
    length: int | None
    cache_bits: int | None
    bits: int | None
    block: int
    batched: int
    margin: float
    doubt: str | None
    holds_longest: bool
    experts_across_copies: bool
    windows: str
    basis: str
    close_factor: float = 1.25
    allows_uneven_groups: bool = False
    sequences: int = 256
    state_pages: int = 1
    has_latent_scales: bool = True
    packing: str | None = None


class UnknownMemoryError(Exception):
    """The memory cannot be estimated; the message has the reason."""


_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])i?")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_WEIGHT_TYPES = {
    "auto": None, "bfloat16": 16, "float16": 16, "half": 16, "float": 32, "float32": 32,
}  # fmt: skip


def read_number(command: EngineCommand, flag: str) -> int | None:
    """Return the number of a flag, such as 16, `16k` or `1M`; None without the flag."""
    if not command.has(flag):
        return None
    text = command.value(flag)
    number = parse_integer(text)
    match = _HUMAN.fullmatch(text or "")
    if number is None and match is not None:
        number = int(float(match[1]) * _UNITS[match[2]])
    if number is None or number < 1:
        raise UnknownMemoryError(f"{flag} {text or ''} is not a positive number")
    return number


def _read_fraction(command: EngineCommand, flag: str) -> float | None:
    if not command.has(flag):
        return None
    text = command.value(flag)
    try:
        fraction = float(text or "")
    except ValueError:
        raise UnknownMemoryError(f"{flag} {text or ''} is not a positive number") from None
    if not 0 < fraction <= 1:
        raise UnknownMemoryError(f"{flag} {text} is not between 0 and 1")
    return fraction


def _read_bits(command: EngineCommand, flag: str, types: Mapping[str, int | None]) -> int | None:
    """Return the bits of the type that a flag names."""
    if not command.has(flag):
        return None
    text = str(command.value(flag))
    if text not in types:
        raise UnknownMemoryError(f"{flag} {text} is unknown")
    return types[text]


def _choose_release(
    command: EngineCommand, oldest: Version, newest: Version, flags: tuple[str, ...]
) -> tuple[Version, str]:
    """Return the release whose memory is estimated, and its description.

    If the image names no release, the newest supported one is assumed.

    Raises:
        UnknownMemoryError: The release is too old, or a flag is not supported.
    """
    engine, image_version = command.engine, command.image.stock_release
    assert engine is not None, "checked by the caller"
    version = image_version or newest
    if version < oldest:
        raise UnknownMemoryError(
            f"{engine.title} before {_format_version(oldest)} divides its memory differently"
        )
    for flag in flags:
        if command.has(flag):
            raise UnknownMemoryError(f"{flag} is not supported by the estimate")
    name = f"{engine.title} {_format_version(version)}"
    if image_version is None:
        name += ", assumed, because the image names no release"
    elif version > newest:
        name += f", estimated as {_format_version(newest)}"
    return version, name


def _explain_doubt(command: EngineCommand, newest: Version) -> str | None:
    """Return why the overhead of a release is uncertain; None if the release is supported."""
    version = command.image.stock_release
    if version is None:
        return "the image names no release"
    if version > newest:
        return f"the sources of releases after {_format_version(newest)} were not read"
    return None


def _format_version(version: Version) -> str:
    return ".".join(map(str, version))


#: Fractions of the accelerator's memory by which an estimate may be wrong: for releases and models
#: with recorded startups, and for others. All errors of recorded startups are smaller, and each
#: recorded failure exceeds the memory by more.
MARGIN, WIDE_MARGIN = 0.01, 0.05

# vLLM

_VLLM_OLDEST: Version = (0, 9, 0)
#: The newest supported release, and the newest with logs of many models.
_VLLM_NEWEST: Version = (0, 33, 0)
_VLLM_LOGGED: Version = (0, 24, 0)
#: First release whose default fraction is 0.92, which includes CUDA graphs.
_GRAPHS: Version = (0, 21, 0)
#: First release whose sampler has a kernel that does not sort.
_SAMPLER_KERNEL: Version = (0, 18, 0)
#: First release that runs all tokens of a step through the experts at once, in a workspace that it
#: keeps (vllm-project/vllm#34086, `workspace_shapes`).
_UNCHUNKED: Version = (0, 18, 0)
#: First releases with Model Runner V2, for dense models and for all. Its sampler needs fewer
#: tensors. It reserves memory for CUDA graphs from the second of these releases on.
_RUNNER_V2_DENSE: Version = (0, 25, 0)
_RUNNER_V2: Version = (0, 29, 0)
#: First release with the largest batches on accelerators of 160 GiB or more
#: (`get_batch_defaults`).
_LARGEST_BATCHES: Version = (0, 28, 0)
#: First release with `allows_uneven_groups`.
_UNEVEN: Version = (0, 21, 0)
#: First release that caches prefixes of models with states: a sequence then has two states.
_STATE_PREFIXES: Version = (0, 26, 0)
#: First release that reserves pages of sliding windows for all steps in flight.
_IN_FLIGHT: Version = (0, 26, 0)
#: First releases that change how pages of several sizes are put into a block.
_SLOTS, _STRIDES = (0, 23, 0), (0, 27, 0)
#: First release whose `close_factor` is 1.5.
_CLOSER: Version = (0, 18, 0)
#: Bytes of the sampler's tensors, for each sequence and token of the vocabulary: with sorting,
#: without, and in Model Runner V2. Up to 0.11.0 sorting depends on whether FlashInfer works
#: (vllm-project/vllm#26859, LMCache/LMCache#913), which is unknown: the cache may be larger.
_SAMPLER_SORTS, _SAMPLER, _SAMPLER_V2 = 38.5, 16.0, 4.0
#: Memory outside PyTorch, with one rank and with several.
_VLLM_OUTSIDE_ONE, _VLLM_OUTSIDE_MANY = int(0.15 * GIB), int(0.9 * GIB)
#: CUDA graphs: a fixed part, and the part of each graph in each layer.
_FIRST_GRAPH, _GRAPH_OF_LAYER = int(0.1 * GIB), int(0.15 * 2**20)
#: Largest step, in tokens, whose expert activations were compared with logs.
_MAX_LOGGED_TOKENS = 16384
#: Arguments whose effect on weights and cache is not estimated.
_VLLM_UNSUPPORTED = (
    "--cpu-offload-gb", "--num-gpu-blocks-override", "--kv-cache-memory-bytes",
    "--kv-cache-memory", "--speculative-config", "--decode-context-parallel-size",
    "--enable-lora", "--hf-overrides", "--load-format", "--enable-eplb", "-dcp",
)  # fmt: skip
_VLLM_CACHE = {"auto": None, "bfloat16": 16, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}


def divide_vllm_memory(
    command: EngineCommand, device: Accelerator, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """Return how vLLM divides memory with tensor parallel size `ways` on `ranks` devices."""
    version, release = _choose_release(command, _VLLM_OLDEST, _VLLM_NEWEST, _VLLM_UNSUPPORTED)
    default_fraction = 0.92 if version >= _GRAPHS else 0.9
    fraction = _read_fraction(command, "--gpu-memory-utilization") or default_fraction
    automatic = command.value("--max-model-len") in AUTOMATIC_LENGTHS
    default_tokens, default_sequences = (8192, 1024) if device.large_batches else (2048, 256)
    if version >= _LARGEST_BATCHES and device.total >= 160 * GIB:
        default_tokens = 16384
    batched = read_number(command, "--max-num-batched-tokens") or default_tokens
    sequences = read_number(command, "--max-num-seqs") or default_sequences
    has_images = bool(shape.vision) and not command.has("--language-model-only")
    overhead = _estimate_activations(command, version, shape, ways, batched, sequences)
    overhead = max(overhead, shape.image if has_images else 0)
    routed = _count_expert_tokens(command, batched) if shape.experts_per_token else 0
    is_single = ranks == 1 and routed <= batched  # no copies that share experts
    overhead += _VLLM_OUTSIDE_ONE if is_single else _VLLM_OUTSIDE_MANY
    overhead += _estimate_graphs(command, version, shape, sequences)
    needs_full = command.has("--kv-transfer-config", "--disable-hybrid-kv-cache-manager")
    # The constants were fitted without image encoders, states and later releases.
    is_fitted = version <= _VLLM_LOGGED and not has_images and not shape.recurrent
    doubt = _explain_doubt(command, _VLLM_NEWEST)
    if doubt is None and version >= _UNCHUNKED and routed > _MAX_LOGGED_TOKENS:
        doubt = (
            f"the experts process {routed} tokens per step, but estimates are verified only up to "
            f"{_MAX_LOGGED_TOKENS}"
        )
    if doubt is None and shape.experts_per_token and device.name.startswith("MI"):
        doubt = "estimates for experts on AMD accelerators were up to 27 % wrong"
    has_prefixes = version >= _STATE_PREFIXES and not command.has("--no-enable-prefix-caching")
    packing = "slots" if version >= _SLOTS else "tuples"
    return Memory(
        usable=int(device.total * fraction),
        overhead=overhead,
        length=None if automatic else read_number(command, "--max-model-len"),
        cache_bits=_read_bits(command, "--kv-cache-dtype", _VLLM_CACHE),
        bits=_read_bits(command, "--dtype", _WEIGHT_TYPES),
        block=command.block_size or 16,
        batched=batched * _count_steps(command, version, shape),
        margin=MARGIN if is_fitted else WIDE_MARGIN,
        doubt=doubt,
        holds_longest=not automatic,
        experts_across_copies=True,
        windows="full" if needs_full and not shape.recurrent else "groups",
        basis=f"{release}, --gpu-memory-utilization {fraction:g}, {batched} tokens and {sequences} "
        "sequences per step",
        close_factor=1.5 if version >= _CLOSER else 1.25,
        allows_uneven_groups=version >= _UNEVEN,
        sequences=sequences,
        state_pages=2 if has_prefixes or command.has("--enable-prefix-caching") else 1,
        packing="groups" if version >= _STRIDES else packing,
    )


def _count_steps(command: EngineCommand, version: Version, shape: ModelShape) -> int:
    """Return the number of concurrent steps (`VllmConfig.max_concurrent_batches`)."""
    if version < _IN_FLIGHT:
        return 1
    stages = command.parallelism.pipeline if command.parallelism is not None else 1
    has_runner_v2 = version >= _RUNNER_V2 or _is_dense(shape)
    is_overlapping = not command.has("--no-async-scheduling") and (has_runner_v2 or stages == 1)
    return stages + 1 if is_overlapping else stages


def _estimate_activations(
    command: EngineCommand,
    version: Version,
    shape: ModelShape,
    ways: int,
    batched: int,
    sequences: int,
) -> int:
    """Return the peak of the profiling run in bytes: the sampler's or a layer's activations."""
    sampler = _SAMPLER if version >= _SAMPLER_KERNEL else _SAMPLER_SORTS
    if version >= _RUNNER_V2 or (version >= _RUNNER_V2_DENSE and _is_dense(shape)):
        sampler = _SAMPLER_V2
    width, workspace = shape.expert_width or shape.intermediate, 0
    if shape.experts_per_token and version >= _UNCHUNKED:
        width = shape.intermediate
        is_whole = command.engine is not None and command.engine.sizes.has_expert_parallelism(
            command
        )
        expert = shape.expert_width / shape.experts_per_token / (1 if is_whole else ways)
        tokens = _count_expert_tokens(command, batched) if _is_gathered(command) else batched
        rows = tokens * shape.experts_per_token
        hidden = shape.expert_hidden
        # Two 16-bit buffers, which both projections of an expert reuse.
        workspace = int(2 * rows * (max(2 * expert, hidden) + max(expert, hidden)))
    layer = batched * 6 * width / ways
    peak = max(sampler * min(sequences, batched) * shape.vocabulary, layer)
    return int(peak + 4 * shape.hidden * batched) + workspace


def _is_dense(shape: ModelShape) -> bool:
    return not shape.experts_per_token and not shape.recurrent


def _count_expert_tokens(command: EngineCommand, batched: int) -> int:
    """Return the tokens of a step in all data parallel copies, which share their experts."""
    sizes = command.parallelism
    return batched * (sizes.data if sizes is not None else 1)


def _is_gathered(command: EngineCommand) -> bool:
    """Return whether each rank holds the tokens of all copies at once, as it does by default.

    Other backends send each rank the tokens of its experts; their memory is unknown.
    """
    backend = command.value("--all2all-backend")
    fused = command.value("--moe-backend") == "deep_gemm_mega_moe"
    return backend in (None, "allgather_reducescatter") and not fused


def _estimate_graphs(
    command: EngineCommand, version: Version, shape: ModelShape, sequences: int
) -> int:
    """Return the bytes reserved for CUDA graphs: piecewise ones, and ones of decode steps."""
    if version < _GRAPHS or command.has("--enforce-eager"):
        return 0
    if _RUNNER_V2_DENSE <= version < _RUNNER_V2 and _is_dense(shape):
        return 0
    largest = read_number(command, "--max-cudagraph-capture-size") or min(2 * sequences, 512)
    graphs = _count_captures(largest) + _count_captures(min(sequences, largest))
    return _FIRST_GRAPH + _GRAPH_OF_LAYER * shape.depth * graphs


def _count_captures(largest: int) -> int:
    """Return the number of captured batch sizes (`VllmConfig._set_cudagraph_sizes`)."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return sum(size <= largest for size in sizes)


# SGLang

_SGLANG_OLDEST: Version = (0, 4, 6)
#: The newest supported release, and the newest with logs.
_SGLANG_NEWEST: Version = (0, 5, 23)
_SGLANG_LOGGED: Version = (0, 5, 9)
#: Margin without logs: for a startup of 0.5.19 with 9.5 GiB of cache the estimate is 4.2 GiB.
_SGLANG_WIDE_MARGIN = 0.08
#: First releases that capture piecewise CUDA graphs for prefill, and that batch more on
#: accelerators of less than 35 GiB.
_PIECEWISE: Version = (0, 5, 10)
_SMALL_BATCHES: Version = (0, 5, 20)
#: Bytes in use before weights are loaded (driver, communication), with one rank and with several.
_SGLANG_OUTSIDE_ONE, _SGLANG_OUTSIDE_MANY = int(0.5 * GIB), int(1.8 * GIB)
#: The same on AMD accelerators, from a single log with two ranks.
_SGLANG_OUTSIDE_AMD = int(8.8 * GIB)
_SGLANG_UNSUPPORTED = (
    "--cpu-offload-gb", "--speculative-algorithm", "--enable-lora", "--max-total-tokens",
    "--json-model-override-args", "--load-format", "--enable-dp-attention", "--enable-eplb",
    "--ep-num-redundant-experts", "--moe-a2a-backend",
)  # fmt: skip
#: Arguments that disable piecewise CUDA graphs for prefill.
_NO_PIECEWISE = (
    "--disable-piecewise-cuda-graph", "--disable-cuda-graph", "--disaggregation-mode",
    "--enable-torch-compile", "--enable-hierarchical-cache", "--enable-deterministic-inference",
    "--enable-symm-mem",
)  # fmt: skip
_SGLANG_CACHE = {"auto": None, "bf16": 16, "bfloat16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8}


def divide_sglang_memory(
    command: EngineCommand, device: Accelerator, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """Return how SGLang divides memory with tensor parallel size `ways` on `ranks` devices."""
    version, release = _choose_release(command, _SGLANG_OLDEST, _SGLANG_NEWEST, _SGLANG_UNSUPPORTED)
    fraction = _read_fraction(command, "--mem-fraction-static")
    chunk = read_number(command, "--chunked-prefill-size")
    if fraction is None:
        has_graphs = not shape.vision and ways == ranks and not device.name.startswith("MI")
        piecewise_model = shape if has_graphs and not command.has(*_NO_PIECEWISE) else None
        fraction = _compute_fraction(version, device, chunk, ways, ranks, piecewise_model)
        if shape.vision and version >= (0, 5, 0) and not command.has("--language-only"):
            fraction *= _compute_image_factor(shape)
    cache_bits = _read_bits(command, "--kv-cache-dtype", _SGLANG_CACHE)
    if cache_bits is None and shape.sparse and device.name.startswith("B"):
        cache_bits = 8
    is_fitted = version <= _SGLANG_LOGGED and not shape.vision and not shape.recurrent
    outside = _SGLANG_OUTSIDE_ONE if ranks == 1 else _SGLANG_OUTSIDE_MANY
    doubt = _explain_doubt(command, _SGLANG_NEWEST)
    if device.name.startswith("MI"):
        outside = _SGLANG_OUTSIDE_AMD
        doubt = doubt or "SGLang's memory on AMD accelerators is known from one log only"
    free = device.total - outside
    return Memory(
        usable=int(free * fraction),
        overhead=0,
        length=read_number(command, "--context-length"),
        cache_bits=cache_bits,
        bits=_read_bits(command, "--dtype", _WEIGHT_TYPES),
        block=read_number(command, "--page-size") or 1,
        batched=chunk or 8192,
        margin=MARGIN if is_fitted else _SGLANG_WIDE_MARGIN,
        doubt=doubt,
        holds_longest=False,
        experts_across_copies=False,
        windows="pools" if version >= (0, 5, 0) else "full",
        basis=f"{release}, --mem-fraction-static {fraction:.3g}",
        has_latent_scales=not device.name.startswith("MI"),
    )


def _compute_image_factor(shape: ModelShape) -> float:
    """Return the factor of the fraction for image encoders (`adjust_mem_fraction_for_vlm`)."""
    layers, width = shape.encoder
    complexity = layers * width**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (complexity - 1.0)))


def _compute_fraction(
    version: Version,
    device: Accelerator,
    chunk: int | None,
    ways: int,
    ranks: int,
    piecewise_model: ModelShape | None,
) -> float:
    """Return the default of `--mem-fraction-static`; sizes in MiB as in `server_args.py`.

    `piecewise_model` is None if no piecewise CUDA graphs are captured.
    """
    total = device.total / 2**20
    if version < (0, 4, 7):
        if total <= 81920:
            steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
            return next((share for minimum, share in steps if ways >= minimum), 0.88)
        return (total - 1024 * 13) / total
    if version < (0, 5, 1):
        return round((total - _compute_old_reserve(total, ranks)) / total, 3)
    prefill, graphs = _choose_batches(total, ways)
    if version >= _SMALL_BATCHES and 20 * 1024 <= total < 35 * 1024:
        prefill, graphs = 4096, 48 if ways < 4 else 160
    reserved = 512 + max(chunk or prefill, 2048) * 1.5 + graphs * 2 + ranks / 8 * 1024
    if version >= _PIECEWISE and piecewise_model is not None:
        reserved += 1536 if piecewise_model.latent else _count_prefill_sizes(chunk or prefill) * 8
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return round((total - reserved) / total, 3)


def _count_prefill_sizes(largest: int) -> int:
    """Return the number of captured prefill sizes."""
    sizes = [
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256), *range(4608, largest + 1, 512),
    ]  # fmt: skip
    return sum(size <= largest for size in sizes)


def _compute_old_reserve(total: float, ranks: int) -> float:
    if total < 35 * 1024:
        return (2.8 + ranks / 10) * 1024
    if total < 90 * 1024:
        return (9.5 + ranks / 2) * 1024
    return (12 + ranks / 2) * 1024 if total < 160 * 1024 else 32 * 1024


def _choose_batches(total: float, ways: int) -> tuple[int, int]:
    """Return default tokens of a prefill chunk, and the largest batch size with a CUDA graph."""
    is_small = ways < 4
    if total < 20 * 1024:
        return 2048, 8
    if total < 35 * 1024:
        return 2048, 16 if is_small else 80
    if total < 60 * 1024:
        return 4096, 32 if is_small else 160
    if total < 160 * 1024:
        return 8192, 256 if is_small else 512
    return 16384, 512


# Facts about each engine for `fit` and `size`.


@dataclass(frozen=True)
class ProposedContainer:
    """The container in proposals of `size`.

    Attributes:
        image: Image of the core package's default release.
        program: Command that starts it, the same as the image's entrypoint.
        connector: Connector that transfers the KV cache from prefill to decode pods.
        arguments: Arguments of any pod.
    """

    image: str
    program: Sequence[str]
    connector: str
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class SizedEngine:
    """An engine whose memory can be estimated.

    Attributes:
        longer_variable: Environment variable that allows sequences longer than the model's limit.
        fp8_cache: Argument that stores the KV cache in 8 bits.
        expert_argument: Returns the argument that distributes whole experts over so many ranks.
        proposal: Container of proposed services.
        shares_experts: Whether data parallel copies share their experts.
        rejects_bfloat16: Whether it exits if bfloat16 is set and the accelerator does not support
            it, instead of computing in float16.
        memory: `divide_vllm_memory` or `divide_sglang_memory`; raises `UnknownMemoryError`.
    """

    longer_variable: str
    fp8_cache: tuple[str, str]
    expert_argument: Callable[[int], tuple[str, ...]]
    proposal: ProposedContainer
    shares_experts: bool
    rejects_bfloat16: bool
    memory: Callable[[EngineCommand, Accelerator, ModelShape, int, int], Memory]


def _format_image(engine: str) -> str:
    return PRESETS[engine].images["GPUs"].format(release=PRESETS[engine].release)


SIZED_ENGINES: Mapping[str, SizedEngine] = {
    "vllm": SizedEngine(
        longer_variable="VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        fp8_cache=("--kv-cache-dtype", "fp8"),
        expert_argument=lambda _: ("--enable-expert-parallel",),
        proposal=ProposedContainer(
            image=_format_image("vllm"), program=PRESETS["vllm"].program, connector=NIXL
        ),
        shares_experts=True,
        rejects_bfloat16=True,  # `check_if_supports_dtype`
        memory=divide_vllm_memory,
    ),
    "sglang": SizedEngine(
        longer_variable="SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        fp8_cache=("--kv-cache-dtype", "fp8_e4m3"),
        expert_argument=lambda ranks: ("--ep-size", str(ranks)),
        proposal=ProposedContainer(
            image=_format_image("sglang"),
            program=PRESETS["sglang"].program,
            connector="nixl",
            # By default it listens on localhost only, and on port 30000.
            arguments=("--host", "0.0.0.0", "--port", "8000"),  # noqa: S104  # a pod's interfaces
        ),
        # Its copies share experts with `--enable-dp-attention`, which is in `_SGLANG_UNSUPPORTED`.
        shares_experts=False,
        rejects_bfloat16=False,
        memory=divide_sglang_memory,
    ),
}
