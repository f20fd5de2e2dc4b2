"""The KV cache of DeepSeek-V4 in vLLM: pages of several sizes that share the blocks of one pool.

Each layer keeps the latents of a window. Most keep one latent for 4 or 128 tokens, too, with the
state of what compresses them; those for 4 have an index, which has a compressor of its own. Read in
vLLM 0.20.0, 0.22.0 to 0.28.0 and 0.32.0 (`kv_cache_utils.py`, `models/deepseek_v4`), and held
against logs of 0.22 and of a build after 0.27.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fusioninfer_capacity.fit.architecture import Compressed
from fusioninfer_capacity.fit.engines import Memory

#: Tokens in a page of compressed latents, and in one of the window.
_BLOCK, _WINDOW_BLOCK = 256, 64
#: Tokens in a page of the state of a compressor, by its ratio.
_STATE_BLOCKS = {4: 4}
_STATE_BLOCK = 8
#: Bytes of which a page has a multiple.
_ALIGNED = 576
#: Bytes of the scales of a latent, and of that of an index.
_SCALES, _INDEX_SCALE = 8, 4


@dataclass(frozen=True)
class _Group:
    """Layers whose pages are taken together.

    Attributes:
        pages: How many pages of each number of bytes a block of it has.
        block: Tokens in a page.
        window: Tokens of the window, None where all tokens are kept.
        count: Groups of this kind.
    """

    pages: Counter[int]
    block: int
    window: int | None
    count: int = 1


@dataclass(frozen=True)
class CompressedLayout:
    """The cache of one pipeline stage on one accelerator."""

    layers: Sequence[Compressed]
    memory: Memory

    def sequence(self, length: int) -> float:
        """Return bytes that one sequence of a length takes."""
        return self.blocks(length) * self.block_bytes

    def requests(self, room: int, length: int) -> float:
        """Sequences of a length for which there is room."""
        return max(0, room) // self.block_bytes / self.blocks(length)

    def blocks(self, length: int) -> int:
        """Blocks of one sequence in all groups of layers."""
        blocks = 0
        for group in self._groups:
            kept, more = length, 0
            if group.window is not None:
                kept, more = min(group.window - 1 + self.memory.batched, length), 1
            blocks += group.count * (-(-kept // group.block) + more)
        return blocks

    @property
    def block_bytes(self) -> int:
        """Bytes of a block, which has room for one of any group."""
        full, *others = self._groups
        if self.memory.packed == "groups":
            return max(sum(size * many for size, many in group.pages.items())
                       for group in self._groups)  # fmt: skip
        if self.memory.packed == "tuples":
            return sum(full.pages) * self._repeats
        # Pages of states are as large as the next larger ones of latents.
        slots = Counter(full.pages)
        for group in others:
            for size, many in group.pages.items():
                fitting = min(other for other in full.pages if other >= size)
                slots[fitting] = max(slots[fitting], many)
        return sum(size * many for size, many in slots.items())

    @property
    def _repeats(self) -> int:
        """Most layers of a group with pages of one size."""
        counts = Counter(layer.ratio for layer in self.layers)
        compressed = [many for ratio, many in counts.items() if ratio]
        least = max(compressed, default=1)
        return _least_padding([len(self.layers), *compressed], least)

    @cached_property
    def _groups(self) -> list[_Group]:
        """All tokens first, then windows, then the states of compressors."""
        counts = Counter(self.layers)
        full: Counter[int] = Counter()
        for layer, many in counts.items():
            if layer.ratio:
                rows = _BLOCK // layer.ratio
                full[_aligned(rows * _latent(layer))] += many
                if layer.index:
                    full[_aligned(rows * (layer.index + _INDEX_SCALE))] += many
        first = self.layers[0]
        windows = -(-len(self.layers) // self._repeats)
        in_window = -(-len(self.layers) // windows)
        page = _aligned(_WINDOW_BLOCK * _latent(first))
        groups = [
            _Group(full, _BLOCK, None),
            _Group(Counter({page: in_window}), _WINDOW_BLOCK, first.window, windows),
        ]
        for layer, many in counts.items():
            if layer.ratio:
                block = _STATE_BLOCKS.get(layer.ratio, _STATE_BLOCK)
                overlap = 2 if layer.index else 1
                widths = (layer.width, layer.index) if layer.index else (layer.width,)
                # Keys and their weights, in 32 bits.
                pages = Counter({_aligned(block * 2 * overlap * width * 4): many
                                 for width in widths})  # fmt: skip
                groups.append(_Group(pages, block, overlap * layer.ratio))
        return groups


def _latent(layer: Compressed) -> int:
    """Return bytes of a latent: 8 bits an element, 16 of those with positions, and scales."""
    return layer.width + layer.rope + _SCALES


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _least_padding(counts: Sequence[int], least: int) -> int:
    """Return the group size of at least `least` with the least padding, else the largest."""
    sizes = range(least, max(*counts, least) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))
