"""Checks for splits and sequence lengths that an engine rejects, independent of memory.

From the sources of vLLM 0.24.0 to 0.33.0 (`ModelConfig.verify_with_parallel_config`,
`_get_and_verify_max_len`, `validate_fp8_block_shape_moe`) and SGLang 0.5.9 and 0.5.23
(`ModelConfig`, `Fp8MoEMethod`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_capacity.fit.architecture import Architecture, Part
from fusioninfer_capacity.fit.engines import SIZED_ENGINES, UnknownMemoryError, Version, read_number
from fusioninfer_pulumi.plugins.capacity import (
    EngineCommand,
    Finding,
    Location,
    Parallelism,
    Rule,
    error,
    parse_integer,
    warning,
)

MODEL_NOT_DIVISIBLE = Rule("model-not-divisible")
LENGTH_ABOVE_MODEL = Rule("length-above-model")

#: First release of vLLM that divides the blocks of FP8 experts into smaller ones, down to a side of
#: 32 (`refine_fp8_moe_block_shape`).
_SMALLER_BLOCKS: Version = (0, 29, 0)
_MIN_BLOCK = 32
#: Arguments that replace the model's own config.
_OVERRIDES = (
    "--hf-overrides", "--rope-scaling", "--rope-theta", "--config-format", "--hf-config-path",
    "--json-model-override-args", "--decrypted-config-file",
)  # fmt: skip
_SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Problem:
    """A reason why an engine does not start.

    Attributes:
        certain: Whether the engine's release is known to reject it.
        about_blocks: Whether the reason is the size of FP8 blocks.
    """

    rule: Rule
    text: str
    certain: bool = True
    about_blocks: bool = False


def check_shapes(
    command_path: Location,
    command: EngineCommand,
    model: Architecture,
    variables: Mapping[str, Any] | None,
    nodes: int,
) -> Iterator[Finding]:
    """Yield findings about values that the engine rejects; see `find_problems`.

    `command_path` is the location of the arguments, `nodes` the number of nodes of a replica.
    """
    for problem in find_problems(command, model, variables):
        # A warning only: the engines document such a split for DeepSeek-R1 on several nodes.
        is_block_on_nodes = problem.about_blocks and nodes > 1
        make_finding = error if problem.certain and not is_block_on_nodes else warning
        yield make_finding(problem.rule, command_path, problem.text)


def find_problems(
    command: EngineCommand, model: Architecture, variables: Mapping[str, Any] | None
) -> Iterator[Problem]:
    """Yield values that the engine rejects; `variables` is its environment, or None if unknown."""
    engine = command.engine
    if engine is None or engine.name not in SIZED_ENGINES or not command.is_readable:
        return
    if command.has(*_OVERRIDES):
        return
    if variables is not None:
        yield from _check_length(command, model, variables)
    sizes = command.parallelism
    # With data parallel attention, fewer ranks than `sizes.tensor` split the heads.
    if sizes is None or sizes.context > 1 or command.has("--enable-dp-attention"):
        return
    yield from _check_heads(model, sizes.tensor)
    layers = len(model.layers)
    if sizes.pipeline > layers:
        text = f"{sizes.pipeline} pipeline stages are more than the model's {layers} layers"
        yield Problem(MODEL_NOT_DIVISIBLE, text)
    yield from _check_blocks(command, model, sizes)


def _check_heads(model: Architecture, tensor: int) -> Iterator[Problem]:
    heads, kv = model.heads
    for count, kind in ((heads, "attention heads"), (kv, "key-value heads")):
        if count and not _is_divisible(count, tensor, can_share=kind.startswith("key")):
            ways = [
                size
                for size in _SIZES
                if heads % size == 0 and (not kv or _is_divisible(kv, size, can_share=True))
            ]
            text = f"{count} {kind} cannot be split {tensor} ways; use {_join_sizes(ways)}"
            yield Problem(MODEL_NOT_DIVISIBLE, text)
            return


def _is_divisible(count: int, ways: int, *, can_share: bool) -> bool:
    """Return whether ranks divide the heads evenly; with `can_share`, ranks may share one."""
    return count % ways == 0 or (can_share and ways % count == 0)


def _check_blocks(
    command: EngineCommand, model: Architecture, sizes: Parallelism
) -> Iterator[Problem]:
    stored = model.quantization
    if stored is None or stored.block is None:
        return
    part = _find_unaligned(command, model, sizes)
    if part is None:
        return
    ways = _count_ways(command, part, sizes)
    share = part.width / ways if part.width else 0
    kind = "experts" if part.expert else "feed-forward layers"
    fitting = [
        size
        for size in _SIZES
        if model.heads[0] % size == 0
        and _find_unaligned(command, model, sizes._replace(tensor=size)) is None
    ]
    remedy = f"use {_join_sizes(fitting)} ways"
    engine = command.engine
    assert engine is not None, "checked by the caller"
    if part.expert:
        words = " ".join(SIZED_ENGINES[engine.name].expert_argument(sizes.tensor))
        remedy += f", or spread experts with {words}"
    has_version = command.image.stock_release is not None
    # With `--moe-backend`, vLLM uses smaller blocks or pads experts, depending on the kernel.
    can_adapt = part.expert and _has_smaller_blocks(command) and not _chooses_expert_kernel(command)
    prefix = "" if has_version or engine.name != "vllm" else "vLLM before 0.29.0 rejects it: "
    text = (
        f"{prefix}{kind} of width {part.width} split {ways} ways are {share:g} wide, not a "
        f"multiple of the FP8 block size {stored.block}; {remedy}"
    )
    if can_adapt:
        text += f"; {command.value('--moe-backend')} may use smaller blocks, or pad the experts"
    certain = (has_version and not can_adapt) or not part.expert
    yield Problem(MODEL_NOT_DIVISIBLE, text, certain=certain, about_blocks=True)


def _find_unaligned(command: EngineCommand, model: Architecture, sizes: Parallelism) -> Part | None:
    """Return a part of the model in which ranks would get incomplete FP8 blocks; None if none."""
    stored = model.quantization
    assert stored is not None, "checked by the caller"
    assert stored.block is not None, "checked by the caller"
    seen = set()
    for index, layer in enumerate(model.layers):
        for part in layer.parts:
            key = (part.width, part.expert)
            if not part.width or key in seen or not stored.covers(index, part.name):
                continue
            seen.add(key)
            ways = _count_ways(command, part, sizes)
            share, remainder = divmod(part.width, ways)
            if ways == 1 or (not remainder and share % stored.block == 0):
                continue
            if (
                remainder
                or not part.expert
                or not _fits_smaller_blocks(command, stored.block, share, model.hidden)
            ):
                return part
    return None


def _count_ways(command: EngineCommand, part: Part, sizes: Parallelism) -> int:
    """Return the number of ranks that split one expert, or one feed-forward layer."""
    engine = command.engine
    if not part.expert or engine is None:
        return sizes.tensor
    if not engine.sizes.has_expert_parallelism(command):
        # vLLM splits experts over the ranks of all copies (`FusedMoEParallelConfig.make`).
        return sizes.tensor * (sizes.data if engine.name == "vllm" else 1)
    # SGLang's flag has the number of groups; vLLM spreads experts over all ranks.
    groups = parse_integer(command.value(*engine.sizes.expert_flags))
    return max(1, sizes.tensor // groups) if groups else 1


def _fits_smaller_blocks(command: EngineCommand, block: int, share: int, hidden: int) -> bool:
    is_large = math.gcd(block, share, hidden) >= _MIN_BLOCK
    return is_large and _has_smaller_blocks(command) and _chooses_expert_kernel(command)


def _has_smaller_blocks(command: EngineCommand) -> bool:
    engine, version = command.engine, command.image.stock_release
    return engine is not None and engine.name == "vllm" and (version or ()) >= _SMALLER_BLOCKS


def _chooses_expert_kernel(command: EngineCommand) -> bool:
    """Return whether the engine chooses the kernel of its experts."""
    return command.value("--moe-backend") in (None, "auto")


def _check_length(
    command: EngineCommand, model: Architecture, variables: Mapping[str, Any]
) -> Iterator[Problem]:
    engine = command.engine
    assert engine is not None, "checked by the caller"
    flag, variable = engine.length_flag, SIZED_ENGINES[engine.name].longer_variable
    try:
        length = read_number(command, flag)
    except UnknownMemoryError:  # `auto`, or a variable
        return
    if length is None or model.limit is None or length <= model.limit:
        return
    if str(variables.get(variable, "0")).strip().lower() not in ("", "0", "false"):
        return
    text = (
        f"{flag} {length} is above the {model.limit} tokens of the model; lower it, or set "
        f"{variable}=1"
    )
    # An image that is not the engine's official one may set the variable.
    yield Problem(LENGTH_ABOVE_MODEL, text, certain=command.image.is_stock)


def _join_sizes(sizes: list[int]) -> str:
    *first, last = [str(size) for size in sizes] or ["1"]
    return f"{', '.join(first)} or {last}" if first else last
