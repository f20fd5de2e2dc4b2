"""Tokens of a KV cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capacity.tests.startup_logs import command_of
from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import Cache, Layer, known_architecture
from fusioninfer_capacity.fit.cache import CacheLayout, layout
from fusioninfer_capacity.fit.engines import GIB, SIZED, Memory

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


@pytest.mark.parametrize(
    ("model", "ways", "bits", "gib", "length", "pages", "requests"),
    [
        ("openai/gpt-oss-120b", 1, 16, 10, 131072, 18204, 1.9733333333333334),
        ("nvidia/Gemma-4-31B-IT-NVFP4", 1, 16, 38.85, 262144, 15912, 1.1668255481410867),
        ("Qwen/Qwen3.8-27B-FP8", 2, 8, 4.99, 131072, 208, 2.311111111111111),
        ("XiaomiMiMo/MiMo-V2-Flash", 4, 16, 50, 262144, 291271, 21.80661825260163),
        ("XiaomiMiMo/MiMo-V2-Flash", 8, 16, 50, 262144, 582542, 27.033365817439325),
        ("stepfun-ai/Step-3.7-Flash", 8, 16, 50, 262144, 546133, 27.92804909230376),
    ],
)
def test_pages_and_requests_are_those_of_the_engine_s_own_code(
    model: str, ways: int, bits: int, gib: float, length: int, pages: int, requests: float
) -> None:
    """By `get_kv_cache_groups` and `get_max_concurrency_for_kv_cache_config` of vLLM 0.32.0.

    They were run on a processor, with the layers' specs, 8,192 tokens a step and two steps in
    flight. They make the sizes of groups, not the memory that is left for them.
    """
    kept = layout_of(model, ways, bits)
    room = int(gib * GIB)
    assert room // kept._page == pages
    assert kept.requests(room, length) == requests


@pytest.mark.parametrize("ways", [4, 8])
def test_layers_that_keep_all_tokens_are_one_group_whatever_their_sizes(ways: int) -> None:
    """MiniMax-M3 by the same code: 60 caches and 57 indexes in one group, 74,051 whole pages."""
    kept = layout_of("MiniMaxAI/MiniMax-M3", ways, 16)
    assert 50 * GIB // (16 * kept.token) == 74051
    assert kept.requests(50 * GIB, 131072) == pytest.approx(9.0394287109375, rel=1e-4)


def layout_of(model: str, ways: int, bits: int) -> CacheLayout:
    architecture = known_architecture(model)
    assert architecture is not None
    words = ["--tensor-parallel-size", str(ways)]
    log = {"engine": "vllm", "version": "0.32.0", "model": model, "arguments": words}
    memory = SIZED["vllm"].memory(command_of(log), ACCELERATORS["H100"], architecture, ways, ways)
    return layout(architecture.layers, bits, 16, ways, memory)
