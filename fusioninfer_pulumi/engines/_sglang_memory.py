"""SGLang's division of an accelerator's memory (`model_executor/model_runner*.py`).

Of the memory that is free before the weights are loaded, `--mem-fraction-static` is for weights
and cache. Its default leaves room for activations and CUDA graphs: `server_args.py` of 0.4.6.post1,
0.4.9, 0.5.3 and 0.5.9.
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
_NEWEST: Version = (0, 5, 9)
_OLDEST: Version = (0, 4, 6)
#: Bytes that the driver and the communication library take before any weight.
_OUTSIDE_ONE, _OUTSIDE_MANY = int(0.5 * GIB), int(1.8 * GIB)
_UNFOLLOWED = (
    "--cpu-offload-gb", "--speculative-algorithm", "--enable-lora", "--max-total-tokens",
    "--json-model-override-args", "--load-format", "--enable-dp-attention", "--enable-eplb",
    "--ep-num-redundant-experts", "--moe-a2a-backend",
)  # fmt: skip
_CACHE_TYPES = {"auto": None, "bf16": 16, "bfloat16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8}


def sglang_memory(
    command: EngineCommand, device: DeviceMemory, shape: ModelShape, ways: int, ranks: int
) -> Memory:
    """The division for a model on `ways` tensor parallel of `ranks` accelerators in all.

    Raises:
        Unclear: An argument is not understood.
    """
    version = command.image.version or _NEWEST
    if version < _OLDEST:
        raise Unclear("SGLang before 0.4.6 divides its memory differently")
    refuse(command, *_UNFOLLOWED)
    stated = stated_fraction(command, "--mem-fraction-static")
    if stated is None and shape.vision:
        raise Unclear("SGLang's default for models with images is not followed; give "
                      "--mem-fraction-static")  # fmt: skip
    chunk = stated_number(command, "--chunked-prefill-size")
    fraction = stated if stated is not None else _fraction(version, device, chunk, ways, ranks)
    free = device.total - (_OUTSIDE_ONE if ranks == 1 else _OUTSIDE_MANY)
    release = ".".join(map(str, version))
    named = "" if command.image.version else ", the image names none"
    if version > _NEWEST:
        named = f", reckoned as {'.'.join(map(str, _NEWEST))}"
    return Memory(
        share=int(free * fraction),
        overhead=0,
        length=stated_number(command, "--context-length"),
        cache_bits=stated_bits(command, "--kv-cache-dtype", _CACHE_TYPES),
        bits=stated_bits(command, "--dtype", WEIGHT_TYPES),
        block=stated_number(command, "--page-size") or 1,
        batched=chunk or 8192,
        certain=command.image.version is not None and version <= _NEWEST,
        holds_longest=False,
        experts_across_copies=False,
        windows="pools" if version >= (0, 5, 0) else "full",
        length_flag="--context-length",
        cache_argument="--kv-cache-dtype fp8_e4m3",
        basis=f"SGLang {release}{named}, {fraction:.3g} of the memory",
    )


def _fraction(
    version: Version, device: DeviceMemory, chunk: int | None, ways: int, ranks: int
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
