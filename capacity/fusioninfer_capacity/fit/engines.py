"""How an engine divides an accelerator's memory, as its arguments and its release say.

vLLM, 0.9.0 and later (`v1/worker/gpu_worker.py`): the cache gets what `--gpu-memory-utilization`
leaves when weights, the peak of a profiling run and memory outside of PyTorch are taken away; from
0.21.0 on an estimate for CUDA graphs, too. The constants are fitted to recorded start-ups
(capacity/tests/fit/startup_logs.yaml).

SGLang (`model_executor/model_runner*.py`): of the memory that is free before the weights are
loaded, `--mem-fraction-static` is for weights and cache. Its default leaves room for activations
and CUDA graphs (`server_args.py` of 0.4.6.post1, 0.4.9, 0.5.3 and 0.5.9).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.plugins.capacity import NIXL, PRESETS, EngineCommand, integer

GIB = 2**30
Version = tuple[int, ...]


@dataclass(frozen=True)
class ModelShape:
    """What of a model the memory of activations depends on.

    Attributes:
        intermediate: Width of the widest dense layer.
        expert_width: Width that one token's routed experts have together, 0 without experts.
        vision: Parameters of encoders of images, 0 without one.
    """

    hidden: int
    vocabulary: int
    intermediate: int
    expert_width: int
    vision: int


@dataclass(frozen=True)
class Accelerator:
    """One kind of accelerator.

    Attributes:
        name: Its name, as `--accelerator` takes it.
        total: Bytes that its driver reports.
        large_batches: Whether vLLM batches more on it: 70 GiB or more, and no A100.
    """

    name: str
    total: int
    large_batches: bool


@dataclass(frozen=True)
class Memory:
    """How an engine divides the memory of one accelerator.

    Attributes:
        share: Bytes that weights, overhead and KV cache have together.
        overhead: Bytes of these that activations and the engine itself take.
        length: Tokens of the longest sequence, None for the model's own.
        cache_bits: Bits of an element of the KV cache; None for the type of the weights.
        bits: Bits of an unquantized parameter where the arguments say so, else None.
        block: Tokens in a block of the KV cache.
        batched: Tokens of one step.
        certain: Whether the overhead is known well enough to refuse by it.
        holds_longest: Whether the engine only starts when a sequence of `length` fits.
        experts_across_copies: Whether data parallel copies share their routed experts.
        windows: How layers with a sliding window are kept: `groups` of layers with blocks of
            their own, `pools` of tokens, or like any other layer (`full`).
        basis: What the numbers rest on, for people.
    """

    share: int
    overhead: int
    length: int | None
    cache_bits: int | None
    bits: int | None
    block: int
    batched: int
    certain: bool
    holds_longest: bool
    experts_across_copies: bool
    windows: str
    basis: str


class Unclear(Exception):  # noqa: N818  # no error: the memory is not checked then
    """Why the memory is not known; the text ends a sentence."""


_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])i?")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_WEIGHT_TYPES = {
    "auto": None, "bfloat16": 16, "float16": 16, "half": 16, "float": 32, "float32": 32,
}  # fmt: skip


def stated_number(command: EngineCommand, flag: str) -> int | None:
    """The number of a flag, also as vLLM writes it (`16k`, `1M`); None without it."""
    if not command.has(flag):
        return None
    text = command.value(flag)
    number = integer(text)
    match = _HUMAN.fullmatch(text or "")
    if number is None and match is not None:
        number = int(float(match[1]) * _UNITS[match[2]])
    if number is None or number < 1:
        raise Unclear(f"{flag} {text or ''} is not a number")
    return number


def _fraction(command: EngineCommand, flag: str) -> float | None:
    if not command.has(flag):
        return None
    text = command.value(flag)
    try:
        fraction = float(text or "")
    except ValueError:
        raise Unclear(f"{flag} {text or ''} is not a number") from None
    if not 0 < fraction <= 1:
        raise Unclear(f"{flag} {text} is not between 0 and 1")
    return fraction


def _bits(command: EngineCommand, flag: str, known: Mapping[str, int | None]) -> int | None:
    """The bits of the type that a flag names."""
    if not command.has(flag):
        return None
    text = str(command.value(flag))
    if text not in known:
        raise Unclear(f"{flag} {text} is not known")
    return known[text]


def _release(
    command: EngineCommand, oldest: Version, newest: Version, flags: tuple[str, ...]
) -> tuple[Version, str]:
    """The release whose memory is estimated, and how to name it.

    It is the newest one that was read where the image does not name its own.

    Raises:
        Unclear: It is older than all that were read, or a flag changes what is estimated.
    """
    engine, stated = command.engine, command.image.version
    assert engine is not None, "the memory of an engine is asked for"
    version = stated or newest
    if version < oldest:
        raise Unclear(f"{engine.title} before {_text(oldest)} divides its memory differently")
    for flag in flags:
        if command.has(flag):
            raise Unclear(f"{flag} is not followed")
    named = f"{engine.title} {_text(version)}"
    if stated is None:
        return version, f"{named}, the image names none"
    return version, f"{named}, reckoned as {_text(newest)}" if version > newest else named


def _text(version: Version) -> str:
    return ".".join(map(str, version))


# vLLM

_VLLM_OLDEST: Version = (0, 9, 0)
_VLLM_NEWEST: Version = (0, 24, 0)
#: First release whose default share is 0.92, with CUDA graphs in it.
_GRAPHS: Version = (0, 21, 0)
#: First release whose sampler sorts nothing if its own kernel works.
_KERNEL: Version = (0, 18, 0)
#: First release with the largest batches on accelerators of 160 GiB or more
#: (`get_batch_defaults`).
_LARGEST_BATCHES: Version = (0, 28, 0)
#: Bytes of the sampler's tensors, for each sequence and token of the vocabulary. Up to 0.11.0 it
#: sorts nothing, either, where FlashInfer works in the image, which its reference does not say
#: (vllm-project/vllm#26859, LMCache/LMCache#913): the cache is larger there than estimated.
_SAMPLER_SORTS, _SAMPLER = 38.5, 16.0
_VLLM_OUTSIDE_ONE, _VLLM_OUTSIDE_MANY = int(0.15 * GIB), int(0.9 * GIB)
_CUDA_GRAPHS = int(0.55 * GIB)
#: Arguments that move weights or cache elsewhere, or size them otherwise.
_VLLM_UNFOLLOWED = (
    "--cpu-offload-gb", "--num-gpu-blocks-override", "--kv-cache-memory-bytes",
    "--kv-cache-memory", "--speculative-config", "--decode-context-parallel-size",
    "--enable-lora", "--hf-overrides", "--load-format", "--enable-eplb", "-dcp",
)  # fmt: skip
_VLLM_CACHE = {"auto": None, "bfloat16": 16, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}


def vllm_memory(
    command: EngineCommand, device: Accelerator, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """VLLM's division for a model on `ways` tensor parallel of `ranks` accelerators in all."""
    version, release = _release(command, _VLLM_OLDEST, _VLLM_NEWEST, _VLLM_UNFOLLOWED)
    stated = _fraction(command, "--gpu-memory-utilization")
    fraction = stated if stated is not None else 0.92 if version >= _GRAPHS else 0.9
    automatic = command.value("--max-model-len") in ("-1", "auto")
    many = device.large_batches
    default = 8192 if many else 2048
    if version >= _LARGEST_BATCHES and device.total >= 160 * GIB:
        default = 16384
    batched = stated_number(command, "--max-num-batched-tokens") or default
    sequences = stated_number(command, "--max-num-seqs") or (1024 if many else 256)
    # Peak of the profiling run: the sampler's, or that of a layer, beside the hidden states.
    sampler = _SAMPLER if version >= _KERNEL else _SAMPLER_SORTS
    layer = batched * 6 * (shape.expert_width or shape.intermediate) / ways
    peak = max(sampler * min(sequences, batched) * shape.vocabulary, layer)
    overhead = int(peak + 4 * shape.hidden * batched)
    overhead += _VLLM_OUTSIDE_ONE if ranks == 1 else _VLLM_OUTSIDE_MANY
    if version >= _GRAPHS and not command.has("--enforce-eager"):
        overhead += _CUDA_GRAPHS
    connected = command.has("--kv-transfer-config", "--disable-hybrid-kv-cache-manager")
    return Memory(
        share=int(device.total * fraction),
        overhead=overhead,
        length=None if automatic else stated_number(command, "--max-model-len"),
        cache_bits=_bits(command, "--kv-cache-dtype", _VLLM_CACHE),
        bits=_bits(command, "--dtype", _WEIGHT_TYPES),
        block=command.block_size or 16,
        batched=batched,
        # Not estimated: the encoder of images in the profiling run, and releases
        # that were not read or that the image does not name.
        certain=command.image.version is not None
        and version <= _VLLM_NEWEST
        and (not shape.vision or command.has("--language-model-only")),
        holds_longest=not automatic,
        experts_across_copies=True,
        windows="full" if connected else "groups",
        basis=f"{release}, {fraction:g} of the memory, {batched} tokens and {sequences} sequences "
        "in a step",
    )


# SGLang

_SGLANG_OLDEST: Version = (0, 4, 6)
_SGLANG_NEWEST: Version = (0, 5, 9)
#: Bytes that the driver and the communication library take before any weight.
_SGLANG_OUTSIDE_ONE, _SGLANG_OUTSIDE_MANY = int(0.5 * GIB), int(1.8 * GIB)
_SGLANG_UNFOLLOWED = (
    "--cpu-offload-gb", "--speculative-algorithm", "--enable-lora", "--max-total-tokens",
    "--json-model-override-args", "--load-format", "--enable-dp-attention", "--enable-eplb",
    "--ep-num-redundant-experts", "--moe-a2a-backend",
)  # fmt: skip
_SGLANG_CACHE = {"auto": None, "bf16": 16, "bfloat16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8}


def sglang_memory(
    command: EngineCommand, device: Accelerator, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """SGLang's division for a model on `ways` tensor parallel of `ranks` accelerators in all."""
    version, release = _release(command, _SGLANG_OLDEST, _SGLANG_NEWEST, _SGLANG_UNFOLLOWED)
    fraction = _fraction(command, "--mem-fraction-static")
    chunk = stated_number(command, "--chunked-prefill-size")
    if fraction is None and shape.vision:
        raise Unclear("SGLang's default for models with images is not followed; give "
                      "--mem-fraction-static")  # fmt: skip
    if fraction is None:
        fraction = _default_fraction(version, device, chunk, ways, ranks)
    free = device.total - (_SGLANG_OUTSIDE_ONE if ranks == 1 else _SGLANG_OUTSIDE_MANY)
    return Memory(
        share=int(free * fraction),
        overhead=0,
        length=stated_number(command, "--context-length"),
        cache_bits=_bits(command, "--kv-cache-dtype", _SGLANG_CACHE),
        bits=_bits(command, "--dtype", _WEIGHT_TYPES),
        block=stated_number(command, "--page-size") or 1,
        batched=chunk or 8192,
        certain=command.image.version is not None and version <= _SGLANG_NEWEST,
        holds_longest=False,
        experts_across_copies=False,
        windows="pools" if version >= (0, 5, 0) else "full",
        basis=f"{release}, {fraction:.3g} of the memory",
    )


def _default_fraction(
    version: Version, device: Accelerator, chunk: int | None, ways: int, ranks: int
) -> float:
    """The default of `--mem-fraction-static`; sizes in MiB as in `server_args.py`."""
    total = device.total / 2**20
    if version < (0, 4, 7):
        if total <= 81920:
            steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
            return next((share for least, share in steps if ways >= least), 0.88)
        return (total - 1024 * 13) / total
    if version < (0, 5, 1):
        return round((total - _reserved_before(total, ranks)) / total, 3)
    prefill, graphs = _batches(total, ways)
    reserved = 512 + max(chunk or prefill, 2048) * 1.5 + graphs * 2 + ranks / 8 * 1024
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return round((total - reserved) / total, 3)


def _reserved_before(total: float, ranks: int) -> float:
    if total < 35 * 1024:
        return (2.8 + ranks / 10) * 1024
    if total < 90 * 1024:
        return (9.5 + ranks / 2) * 1024
    return (12 + ranks / 2) * 1024 if total < 160 * 1024 else 32 * 1024


def _batches(total: float, ways: int) -> tuple[int, int]:
    """Tokens of a chunk of prefill, and the largest batch of CUDA graphs."""
    few = ways < 4
    if total < 20 * 1024:
        return 2048, 8
    if total < 35 * 1024:
        return 2048, 16 if few else 80
    if total < 60 * 1024:
        return 4096, 32 if few else 160
    if total < 160 * 1024:
        return 8192, 256 if few else 512
    return 16384, 512


# What `fit` and `size` know of each engine.


@dataclass(frozen=True)
class Proposal:
    """What `size` proposes to run.

    Attributes:
        image: The release that the core runs where none is stated.
        program: Words that start it; the image's own entrypoint has no others.
        connector: What hands the KV cache from prefill to decode.
        arguments: Further arguments of a pod.
        launcher: Launcher of several nodes, None for the default.
    """

    image: str
    program: Sequence[str]
    connector: str
    arguments: Sequence[str] = ()
    launcher: str | None = None


@dataclass(frozen=True)
class SizedEngine:
    """An engine whose memory is known.

    Attributes:
        longer_variable: Variable without which it takes no length above the model's.
        small_cache: Argument that stores the KV cache in 8 bits.
        expert_argument: Argument that spreads experts over so many ranks.
        proposal: What a proposed service runs.
        memory: How it divides the memory of one of so many accelerators; raises `Unclear`.
    """

    longer_variable: str
    small_cache: tuple[str, str]
    expert_argument: Callable[[int], tuple[str, ...]]
    proposal: Proposal
    memory: Callable[[EngineCommand, Accelerator, ModelShape, int, int], Memory]


def _preset_image(engine: str) -> str:
    return PRESETS[engine].image.format(release=PRESETS[engine].release)


SIZED: Mapping[str, SizedEngine] = {
    "vllm": SizedEngine(
        longer_variable="VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        small_cache=("--kv-cache-dtype", "fp8"),
        expert_argument=lambda _: ("--enable-expert-parallel",),
        proposal=Proposal(
            image=_preset_image("vllm"),
            program=PRESETS["vllm"].program,
            connector=NIXL,
            launcher="multiprocessing",  # its newer images have no ray
        ),
        memory=vllm_memory,
    ),
    "sglang": SizedEngine(
        longer_variable="SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        small_cache=("--kv-cache-dtype", "fp8_e4m3"),
        expert_argument=lambda ranks: ("--ep-size", str(ranks)),
        proposal=Proposal(
            image=_preset_image("sglang"),
            program=PRESETS["sglang"].program,
            connector="nixl",
            # By default it listens on the pod itself alone, and on a port of its own.
            arguments=("--host", "0.0.0.0", "--port", "8000"),  # noqa: S104  # a pod's interfaces
        ),
        memory=sglang_memory,
    ),
}
