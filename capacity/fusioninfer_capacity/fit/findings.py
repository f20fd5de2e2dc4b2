"""Findings about a model that does not fit, with the smallest change that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusioninfer_capacity.fit.architecture import Architecture
from fusioninfer_capacity.fit.engines import AUTOMATIC_LENGTHS, GIB, SIZED, Unclear
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import shape_problems
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

#: Sizes of tensor parallelism that are tried, and accelerators that a node has at most.
_WAYS = (2, 4, 8, 16)
_NODE = 8
_STEP = 256


def fit_findings(
    at: Location,
    place: Location,
    command: EngineCommand,
    model: Architecture,
    role_fit: Fit,
    nodes: int,
) -> Iterator[Finding]:
    """Yield the problems of a role's memory; an info if there are none.

    `at` is the role, `place` its engine's arguments; `nodes` are those of a replica.
    """
    margin = role_fit.margin * role_fit.accelerator.total
    where = role_fit.accelerator.name
    if role_fit.cache <= 0:
        whole = role_fit.accelerator.total
        sure = role_fit.cache + margin < 0 if role_fit.certain else role_fit.weights > whole
        make_finding = error if sure else warning
        message = (
            f"weights take {_gib(role_fit.weights)} and the engine {_gib(role_fit.overhead)} of "
            f"{_gib(role_fit.share)} on each {where}: no room for the KV cache"
        )
        change = "" if sure else _doubt(role_fit)
        change += _smallest(command, model, role_fit, nodes)
        yield make_finding(WEIGHTS_EXCEED_MEMORY, place, message + change)
        return
    text = f"memory estimated for {where}: {role_fit.basis}"
    if role_fit.needed is not None and role_fit.cache < role_fit.needed:
        if _shortens(command):
            longest = longest_that_fits(command, model, role_fit, nodes)
            shorter = f", sequences of {longest} tokens" if longest is not None else ""
            yield info(MEMORY_ESTIMATED, at, text + shorter + _doubt(role_fit))
            return
        sure = (
            role_fit.certain
            and role_fit.holds_longest
            and role_fit.cache + margin < role_fit.needed
        )
        make_finding = error if sure else warning
        message = (
            f"a sequence of {role_fit.length} tokens takes {_gib(role_fit.needed)} of KV cache on "
            f"each {where}, and {_gib(role_fit.cache)} are left"
        )
        change = "" if sure else _doubt(role_fit)
        change += _smallest(command, model, role_fit, nodes)
        yield make_finding(CACHE_TOO_SMALL, place, message + change)
        return
    yield info(MEMORY_ESTIMATED, at, text + _doubt(role_fit))


def _shortens(command: EngineCommand) -> bool:
    """Return whether the engine takes the longest sequence that fits (`--max-model-len auto`)."""
    engine = command.engine
    return engine is not None and command.value(engine.length_flag) in AUTOMATIC_LENGTHS


def _smallest(command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int) -> str:
    """Return the end of a sentence with the smallest change that fits."""
    engine = command.engine
    assert engine is not None, "the memory of an engine was estimated"
    sized = SIZED[engine.name]
    fitting = []
    if role_fit.cache > 0:
        length = longest_that_fits(command, model, role_fit, nodes)
        if length is not None:
            fitting.append(f"{engine.length_flag} {length}")
        if not role_fit.small_cache and _fits(
            _with(command, *sized.small_cache), model, role_fit, nodes
        ):
            fitting.append(" ".join(sized.small_cache))
    if not fitting:
        sizes = command.parallelism
        flag = engine.size_flags["tensor"][0]
        tensor = sizes.tensor if sizes is not None else 1
        for ways in (size for size in _WAYS if tensor < size <= _NODE * nodes):
            splits: list[tuple[str, ...]] = [(flag, str(ways))]
            if model.expert_width:
                splits.append((flag, str(ways), *sized.expert_argument(ways)))
            fits = [
                words for words in splits if _fits(_with(command, *words), model, role_fit, nodes)
            ]
            if fits:
                fitting.append(" ".join(fits[0]))
                break
    return f"; {' or '.join(fitting)} fits" if fitting else "; take more or larger accelerators"


def longest_that_fits(
    command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int
) -> int | None:
    """Return the longest sequence that fits, in steps of 256 tokens; None if none does."""
    engine = command.engine
    assert engine is not None, "the memory of an engine was estimated"
    flag = engine.length_flag

    def fits(steps: int) -> bool:
        changed = _with(command, flag, str(steps * _STEP))
        return _fits(changed, model, role_fit, nodes)

    low, high = 0, (role_fit.length or 0) // _STEP
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low * _STEP if low else None


def _fits(command: EngineCommand, model: Architecture, role_fit: Fit, nodes: int) -> bool:
    try:
        changed = fit(command, model, role_fit.accelerator, nodes)
    except Unclear:
        return False
    if any(shape_problems(command, model, None)):
        return False
    return changed.cache > 0 and (changed.needed is None or changed.cache >= changed.needed)


def _with(command: EngineCommand, *words: str) -> EngineCommand:
    """Return a command line with more arguments; the last of two that are the same counts."""
    return replace(command, arguments=(*command.arguments, *words))


def _doubt(role_fit: Fit) -> str:
    return f"; uncertain: {role_fit.doubt}" if role_fit.doubt is not None else ""


def _gib(size: int) -> str:
    return f"{max(size, 0) / GIB:.1f} GiB"
