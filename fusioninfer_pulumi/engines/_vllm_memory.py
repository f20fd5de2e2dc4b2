"""vLLM's division of an accelerator's memory, releases 0.9.0 and later (`v1/worker/gpu_worker.py`).

The cache gets what `--gpu-memory-utilization` leaves when weights, the peak of a profiling run and
memory outside of PyTorch are taken away; from 0.21.0 on an estimate for CUDA graphs, too. The
constants are fitted to recorded start-ups (tests/fit/startup_logs.yaml).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusioninfer_pulumi.engines._image import Version
from fusioninfer_pulumi.engines.memory import (
    GIB,
    WEIGHT_TYPES,
    DeviceMemory,
    Memory,
    ModelShape,
    Unclear,
    refuse,
    stated_bits,
    stated_fraction,
    stated_number,
)

if TYPE_CHECKING:
    from fusioninfer_pulumi.engines.engine import EngineCommand

#: The newest release that was read; taken where the image does not name its own.
_NEWEST: Version = (0, 24, 0)
_OLDEST: Version = (0, 9, 0)
#: From here on a share of 0.92 is the default, and CUDA graphs count.
_GRAPHS: Version = (0, 21, 0)
#: From here on the sampler sorts nothing where it can use a kernel of its own.
_KERNEL: Version = (0, 18, 0)
#: Bytes of the sampler's tensors, for each sequence and token of the vocabulary. Up to 0.11.0 it
#: sorts nothing, either, where FlashInfer works in the image, which its reference does not tell
#: (vllm-project/vllm#26859, LMCache/LMCache#913): the cache is larger there than estimated.
_SAMPLER_SORTS, _SAMPLER = 38.5, 16.0
_OUTSIDE_ONE, _OUTSIDE_MANY = int(0.15 * GIB), int(0.9 * GIB)
_CUDA_GRAPHS = int(0.55 * GIB)
#: Arguments that move weights or cache elsewhere, or size them otherwise.
_UNFOLLOWED = (
    "--cpu-offload-gb", "--num-gpu-blocks-override", "--kv-cache-memory-bytes",
    "--kv-cache-memory", "--speculative-config", "--decode-context-parallel-size",
    "--enable-lora", "--hf-overrides", "--load-format", "--enable-eplb", "-dcp",
)  # fmt: skip
_CACHE_TYPES = {"auto": None, "bfloat16": 16, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}


def vllm_memory(
    command: EngineCommand, device: DeviceMemory, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """The division for a model on `ways` tensor parallel of `ranks` accelerators in all.

    Raises:
        Unclear: An argument is not understood.
    """
    version = command.image.version or _NEWEST
    if version < _OLDEST:
        raise Unclear("vLLM before 0.9.0 profiles its memory differently")
    refuse(command, *_UNFOLLOWED)
    stated = stated_fraction(command, "--gpu-memory-utilization")
    fraction = stated if stated is not None else 0.92 if version >= _GRAPHS else 0.9
    longest = command.value("--max-model-len")
    automatic = longest in ("-1", "auto")
    length = None if automatic else stated_number(command, "--max-model-len")
    many = device.large_batches
    batched = stated_number(command, "--max-num-batched-tokens") or (8192 if many else 2048)
    sequences = stated_number(command, "--max-num-seqs") or (1024 if many else 256)
    sampler = _SAMPLER if version >= _KERNEL else _SAMPLER_SORTS
    overhead = _activations(shape, batched, sampler * min(sequences, batched), ways)
    overhead += _OUTSIDE_ONE if ranks == 1 else _OUTSIDE_MANY
    if version >= _GRAPHS and not command.has("--enforce-eager"):
        overhead += _CUDA_GRAPHS
    release = ".".join(map(str, version))
    known = f"vLLM {release}" if command.image.version else f"vLLM {release}, the image names none"
    if version > _NEWEST:
        known += f", reckoned as {'.'.join(map(str, _NEWEST))}"
    connected = command.has("--kv-transfer-config") or command.has(
        "--disable-hybrid-kv-cache-manager"
    )
    return Memory(
        share=int(device.total * fraction),
        overhead=overhead,
        length=length,
        cache_bits=stated_bits(command, "--kv-cache-dtype", _CACHE_TYPES),
        bits=stated_bits(command, "--dtype", WEIGHT_TYPES),
        block=command.block_size or 16,
        batched=batched,
        # How much the encoder of images takes in the profiling run is not followed, nor releases
        # that were not read or that the image does not name.
        certain=command.image.version is not None
        and version <= _NEWEST
        and (not shape.vision or command.has("--language-model-only")),
        holds_longest=not automatic,
        experts_across_copies=True,
        windows="full" if connected else "groups",
        length_flag="--max-model-len",
        cache_argument="--kv-cache-dtype fp8",
        basis=f"{known}, {fraction:g} of the memory, {batched} tokens and {sequences} sequences "
        "in a step",
    )


def _activations(shape: ModelShape, tokens: int, sampler: float, ways: int) -> int:
    """Peak of the profiling run: the sampler's, or that of a layer, beside the hidden states."""
    layer = tokens * 6 * (shape.expert_width or shape.intermediate) / ways
    return int(max(sampler * shape.vocabulary, layer) + 4 * shape.hidden * tokens)
