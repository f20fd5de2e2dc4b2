"""Findings about a model that does not fit, with the smallest change that makes it fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fusioninfer_capacity.fit.architecture import Architecture
from fusioninfer_capacity.fit.engines import (
    AUTOMATIC_LENGTHS,
    GIB,
    SIZED_ENGINES,
    UnknownMemoryError,
)
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import find_problems
from fusioninfer_pulumi.plugins.capacity import (
    EngineCommand,
    Finding,
    Location,
    Rule,
    error,
    info,
    warning,
)

WEIGHTS_EXCEED_MEMORY = Rule("weights-exceed-memory")
CACHE_TOO_SMALL = Rule("cache-too-small")
MEMORY_ESTIMATED = Rule("memory-estimated")

#: Tensor parallel sizes to try, and the maximum number of accelerators of a node.
_TENSOR_SIZES = (2, 4, 8, 16)
_PER_NODE = 8
_LENGTH_STEP = 256


def check_fit(
    role_path: Location,
    command_path: Location,
    command: EngineCommand,
    model: Architecture,
    role_fit: Fit,
    nodes: int,
) -> Iterator[Finding]:
    """Yield findings about a role's memory; an info if it fits.

    `command_path` is the location of the engine's arguments; `nodes` counts a replica's nodes.
    """
    device, total = role_fit.accelerator.name, role_fit.accelerator.total
    margin = role_fit.margin * total
    if role_fit.cache <= 0:
        is_beyond_margin = role_fit.cache + margin < 0
        is_certain = is_beyond_margin if role_fit.certain else role_fit.weights > total
        make_finding = error if is_certain else warning
        message = (
            f"weights need {_format_gib(role_fit.weights)} and the engine "
            f"{_format_gib(role_fit.overhead)} of {_format_gib(role_fit.usable)} on each {device}, "
            "which leaves no memory for the KV cache"
        )
        change = "" if is_certain else _format_doubt(role_fit)
        change += _suggest_change(command, model, role_fit, nodes)
        yield make_finding(WEIGHTS_EXCEED_MEMORY, command_path, message + change)
        return
    text = f"memory estimated for {device}: {role_fit.basis}"
    if role_fit.needed is not None and role_fit.cache < role_fit.needed:
        if _has_automatic_length(command):
            longest = find_longest(command, model, role_fit, nodes)
            shorter = f", sequences of {longest} tokens" if longest is not None else ""
            yield info(MEMORY_ESTIMATED, role_path, text + shorter + _format_doubt(role_fit))
            return
        is_certain = (
            role_fit.certain
            and role_fit.holds_longest
            and role_fit.cache + margin < role_fit.needed
        )
        make_finding = error if is_certain else warning
        message = (
            f"a sequence of {role_fit.length} tokens needs {_format_gib(role_fit.needed)} of KV "
            f"cache on each {device}, but only {_format_gib(role_fit.cache)} are left"
        )
        change = "" if is_certain else _format_doubt(role_fit)
        change += _suggest_change(command, model, role_fit, nodes)
        yield make_finding(CACHE_TOO_SMALL, command_path, message + change)
        return
    yield info(MEMORY_ESTIMATED, role_path, text + _format_doubt(role_fit))


def _has_automatic_length(command: EngineCommand) -> bool:
    """Return whether the engine uses the longest sequence that fits (`--max-model-len auto`)."""
    engine = command.engine
    return engine is not None and command.value(engine.length_flag) in AUTOMATIC_LENGTHS


def _suggest_change(command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int) -> str:
    """Return the end of a message, such as "; --max-model-len 8192 fits"."""
    engine = command.engine
    assert engine is not None, "checked by the caller"
    sized = SIZED_ENGINES[engine.name]
    changes = []
    if role_fit.cache > 0:
        length = find_longest(command, model, role_fit, nodes)
        if length is not None:
            changes.append(f"{engine.length_flag} {length}")
        if not role_fit.fp8_cache and _is_fitting(
            _extend(command, *sized.fp8_cache), model, role_fit, nodes
        ):
            changes.append(" ".join(sized.fp8_cache))
    if not changes:
        sizes = command.parallelism
        flag = engine.sizes.flags["tensor"][0]
        tensor = sizes.tensor if sizes is not None else 1
        for size in (size for size in _TENSOR_SIZES if tensor < size <= _PER_NODE * nodes):
            splits: list[tuple[str, ...]] = [(flag, str(size))]
            if model.expert_width:
                splits.append((flag, str(size), *sized.expert_argument(size)))
            fits = [
                words
                for words in splits
                if _is_fitting(_extend(command, *words), model, role_fit, nodes)
            ]
            if fits:
                fitting_sizes = _extend(command, *fits[0]).parallelism
                needed = size if fitting_sizes is None else fitting_sizes.count_accelerators(nodes)
                per_pod = math.ceil(needed / nodes)
                changes.append(f"{' '.join(fits[0])} with {per_pod} accelerators per pod")
                break
    return f"; {' or '.join(changes)} fits" if changes else "; use more or larger accelerators"


def find_longest(
    command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int
) -> int | None:
    """Return the length of the longest sequence that fits, a multiple of 256; None if none fits."""
    engine = command.engine
    assert engine is not None, "checked by the caller"
    flag = engine.length_flag

    def is_fitting(steps: int) -> bool:
        changed = _extend(command, flag, str(steps * _LENGTH_STEP))
        return _is_fitting(changed, model, role_fit, nodes)

    low, high = 0, (role_fit.length or 0) // _LENGTH_STEP
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_fitting(middle) else (low, middle - 1)
    return low * _LENGTH_STEP if low else None


def _is_fitting(command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int) -> bool:
    try:
        changed = fit(command, model, role_fit.accelerator, nodes)
    except UnknownMemoryError:
        return False
    if any(find_problems(command, model, None)):
        return False
    return changed.cache > 0 and (changed.needed is None or changed.cache >= changed.needed)


def _extend(command: EngineCommand, *words: str) -> EngineCommand:
    """Return a command line with arguments at its end, which override earlier ones."""
    return replace(command, arguments=(*command.arguments, *words))


def _format_doubt(role_fit: Fit) -> str:
    return f"; uncertain: {role_fit.doubt}" if role_fit.doubt is not None else ""


def _format_gib(size: int) -> str:
    return f"{max(size, 0) / GIB:.1f} GiB"
