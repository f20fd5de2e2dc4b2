"""Tokens of a KV cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusioninfer_capacity.fit.architecture import Cache, Layer
from fusioninfer_capacity.fit.cache import layout
from fusioninfer_capacity.fit.engines import Memory

MEMORY = Memory(
    share=0, overhead=0, length=None, cache_bits=None, bits=None, block=16, batched=8192,
    margin=0.01, doubt=None, holds_longest=True, experts_across_copies=True, windows="groups",
    basis="",
)  # fmt: skip
FULL, SLIDING = Cache(8, 128), Cache(8, 128, window=128)


def layers(full: int, sliding: int) -> list[Layer]:
    return [*[Layer((), FULL)] * full, *[Layer((), SLIDING)] * sliding]


def test_a_sequence_takes_whole_blocks() -> None:
    kept = layout(layers(10, 0), 16, 16, 1, MEMORY)
    assert kept.token == 10 * 8 * 128 * 2
    assert kept.sequence(17) == 32 * kept.token


def test_a_latent_is_kept_by_every_rank() -> None:
    kept = layout([Layer((), Cache(1, 576, latent=True))] * 61, 16, 16, 8, MEMORY)
    assert kept.token == 61 * 576 * 2


def test_groups_of_sliding_layers_keep_their_window() -> None:
    """gpt-oss: as many layers of each kind, two groups."""
    kept = layout(layers(18, 18), 16, 16, 1, MEMORY)
    page = 16 * 18 * 8 * 128 * 2
    assert kept.sequence(131072) == (131072 // 16 + (127 + 8192 + 15) // 16 + 1) * page


def test_groups_have_the_size_of_the_smaller_kind() -> None:
    """Gemma 3 27B: 10 layers see everything, 52 a window: a group, and six of those."""
    kept = layout(layers(10, 52), 16, 16, 1, replace(MEMORY, batched=2048))
    page = 16 * 10 * 8 * 128 * 2
    window = (127 + 2048 + 15) // 16 + 1
    assert kept.sequence(8192) == (8192 // 16 + 6 * window) * page


@pytest.mark.parametrize(("windows", "factor"), [("full", 36), ("pools", 18 + 0.8 * 18)])
def test_other_ways_to_keep_sliding_layers(windows: str, factor: float) -> None:
    kept = layout(layers(18, 18), 16, 16, 1, replace(MEMORY, windows=windows))
    assert kept.sequence(1600) == pytest.approx(1600 * factor * 8 * 128 * 2)
