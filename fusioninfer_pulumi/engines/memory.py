"""What an engine does with the memory of its accelerators, as its arguments and its release say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusioninfer_pulumi.engines.flags import integer

if TYPE_CHECKING:  # the protocol's method returns what is defined here
    from fusioninfer_pulumi.engines.engine import EngineCommand

GIB = 2**30


@dataclass(frozen=True)
class ModelShape:
    """What of a model the memory of activations depends on.

    Attributes:
        hidden: Width of the hidden state.
        vocabulary: Tokens of the vocabulary.
        intermediate: Width of the widest dense layer.
        expert_width: Width that one token's routed experts have together, 0 without experts.
        vision: Whether it encodes images.
        longest: Tokens of its longest sequence, None where it does not say.
    """

    hidden: int
    vocabulary: int
    intermediate: int
    expert_width: int
    vision: bool
    longest: int | None


@dataclass(frozen=True)
class DeviceMemory:
    """An accelerator to an engine.

    Attributes:
        total: Bytes that its driver reports.
        large_batches: Whether vLLM batches more on it: 70 GiB or more, and no A100.
    """

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
        length_flag: Flag of `length`.
        cache_argument: Argument that stores the KV cache in 8 bits.
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
    length_flag: str
    cache_argument: str
    basis: str


class Unclear(Exception):  # noqa: N818  # no error: the memory is not checked then
    """Why the memory cannot be told; the text ends a sentence."""


_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])i?")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def stated_number(command: EngineCommand, *flags: str) -> int | None:
    """The number of a flag, also as vLLM writes it (`16k`, `1M`); None without it."""
    if not command.has(*flags):
        return None
    text = command.value(*flags)
    number = integer(text)
    match = _HUMAN.fullmatch(text or "")
    if number is None and match is not None:
        number = int(float(match[1]) * _UNITS[match[2]])
    if number is None or number < 1:
        raise Unclear(f"{flags[0]} {text or ''} is not a number")
    return number


def stated_fraction(command: EngineCommand, *flags: str) -> float | None:
    """The fraction of a flag, None without it."""
    if not command.has(*flags):
        return None
    text = command.value(*flags)
    try:
        fraction = float(text or "")
    except ValueError:
        raise Unclear(f"{flags[0]} {text or ''} is not a number") from None
    if not 0 < fraction <= 1:
        raise Unclear(f"{flags[0]} {text} is not between 0 and 1")
    return fraction


def stated_bits(command: EngineCommand, flag: str, known: Mapping[str, int | None]) -> int | None:
    """The bits that a flag with a type names."""
    if not command.has(flag):
        return None
    text = str(command.value(flag))
    if text not in known:
        raise Unclear(f"{flag} {text} is not known")
    return known[text]


#: Flags that change the weights or the memory in ways that are not followed, in all engines.
WEIGHT_TYPES = {
    "auto": None, "bfloat16": 16, "float16": 16, "half": 16, "float": 32, "float32": 32,
}  # fmt: skip


def refuse(command: EngineCommand, *flags: str) -> None:
    """Raises where one of these flags is given: what it does to the memory is not followed."""
    for flag in flags:
        if command.has(flag):
            raise Unclear(f"{flag} is not followed")
