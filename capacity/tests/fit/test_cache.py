"""Tokens and sequences that fit a KV cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacity.tests.startup_logs import command_of
from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import Cache, Compressed, Layer, State, find_architecture
from fusioninfer_capacity.fit.cache import CacheLayout, make_cache_layout
from fusioninfer_capacity.fit.compressed import CompressedLayout
from fusioninfer_capacity.fit.engines import GIB, Memory, divide_vllm_memory

MEMORY = Memory(
    usable=0, overhead=0, length=None, cache_bits=None, bits=None, block=16, batched=8192,
    margin=0.01, doubt=None, holds_longest=True, experts_across_copies=True, windows="groups",
    basis="",
)  # fmt: skip
#: Written by `tools/engine_pages.py`.
PAGES = Path(__file__).parent / "engine_pages.json"
ENGINE, *ROWS = json.loads(PAGES.read_text(encoding="utf-8"))
FULL, SLIDING = Cache(8, 128), Cache(8, 128, window=128)


def layers(full: int, sliding: int) -> list[Layer]:
    return [*[Layer((), FULL)] * full, *[Layer((), SLIDING)] * sliding]


def test_sequence_uses_whole_blocks() -> None:
    layout = make_cache_layout(layers(10, 0), 16, 16, 1, MEMORY)
    assert layout.token_bytes == 10 * 8 * 128 * 2
    assert layout.measure_sequence(17) == 32 * layout.token_bytes


def test_every_rank_stores_whole_latents() -> None:
    layout = make_cache_layout([Layer((), Cache(1, 576, latent=True))] * 61, 16, 16, 8, MEMORY)
    assert layout.token_bytes == 61 * 576 * 2


def test_groups_of_sliding_layers_keep_their_window() -> None:
    """gpt-oss: two kinds with the same number of layers are two groups."""
    layout = make_cache_layout(layers(18, 18), 16, 16, 1, MEMORY)
    page = 16 * 18 * 8 * 128 * 2
    assert layout.measure_sequence(131072) == (131072 // 16 + (127 + 8192 + 15) // 16 + 1) * page


def test_groups_have_the_size_of_the_smaller_kind() -> None:
    """Gemma 3 27B: 10 layers without a window are one group, 52 with a window are six groups."""
    layout = make_cache_layout(layers(10, 52), 16, 16, 1, replace(MEMORY, batched=2048))
    page = 16 * 10 * 8 * 128 * 2
    window = (127 + 2048 + 15) // 16 + 1
    assert layout.measure_sequence(8192) == (8192 // 16 + 6 * window) * page


@pytest.mark.parametrize(("windows", "factor"), [("full", 36), ("pools", 18 + 0.8 * 18)])
def test_sliding_layers_depend_on_the_engine(windows: str, factor: float) -> None:
    layout = make_cache_layout(layers(18, 18), 16, 16, 1, replace(MEMORY, windows=windows))
    assert layout.measure_sequence(1600) == pytest.approx(1600 * factor * 8 * 128 * 2)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']}-{row['tensor']}")
def test_requests_agree_with_engine_code(row: dict[str, Any]) -> None:
    """If all layers are one group, vLLM counts whole pages, and the estimate does not."""
    layout = layout_of(row["model"], row["tensor"], row["bits"])
    requests = layout.count_requests(int(row["gib"] * GIB), row["length"])
    assert requests == pytest.approx(row["requests"], rel=1e-12 if row["groups"] > 1 else 1e-4)


def test_engine_code_covers_all_cache_kinds() -> None:
    assert ENGINE["vllm"] == "0.32.0"
    kinds = {type(kind) for row in ROWS for kind in kinds_of(row["model"])}
    assert kinds == {Cache, State, Compressed}
    assert len({row["model"] for row in ROWS}) >= 15


def kinds_of(model: str) -> list[Cache | State | Compressed]:
    architecture = find_architecture(model)
    assert architecture is not None
    return [layer.cache for layer in architecture.layers]


def test_block_sizes_depend_on_the_release() -> None:
    """Pages in a block of DeepSeek-V4-Flash, for each `Memory.packing`: tuples, slots, groups."""
    sizes = {}
    for version in ("0.22.0", "0.26.0", "0.27.0"):
        layout = layout_of("deepseek-ai/DeepSeek-V4-Flash", 4, 8, version)
        assert isinstance(layout, CompressedLayout)
        sizes[version] = layout.block_bytes
    latents, indexer_keys, states = 37440, 8640, 1728
    assert sizes["0.22.0"] == 22 * (latents + indexer_keys + states)
    assert sizes["0.26.0"] == 22 * latents + 21 * indexer_keys + 20 * states
    assert sizes["0.27.0"] == 21 * latents + 21 * indexer_keys + 20 * states


def layout_of(
    model: str, ways: int, bits: int, version: str = "0.32.0"
) -> CacheLayout | CompressedLayout:
    architecture = find_architecture(model)
    assert architecture is not None
    words = ["--tensor-parallel-size", str(ways)]
    log = {"engine": "vllm", "version": version, "model": model, "arguments": words}
    memory = divide_vllm_memory(command_of(log), ACCELERATORS["H100"], architecture, ways, ways)
    return make_cache_layout(architecture.layers, bits, 16, ways, memory)
