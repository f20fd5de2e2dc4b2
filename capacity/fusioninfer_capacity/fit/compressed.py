"""The KV cache of DeepSeek-V4 in vLLM: pages of several sizes that share the blocks of one pool.

Each layer keeps one latent for each token of a window. Most layers also have a compressor, which
keeps a state and turns 4 or 128 tokens into one latent. Layers that compress 4 tokens have an
indexer with a second compressor. From the sources of vLLM 0.20.0, 0.22.0 to 0.28.0 and 0.32.0
(`kv_cache_utils.py`, `models/deepseek_v4`), compared with logs of 0.22 and of a build after 0.27.
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
#: Tokens in a page of a compressor's state: by its ratio, and for any other ratio.
_STATE_BLOCKS, _STATE_BLOCK = {4: 4}, 8
#: Page sizes are multiples of these bytes.
_ALIGNED = 576
#: Bytes of the scales of a latent, and of the scale of an indexer's key.
_SCALES, _INDEX_SCALE = 8, 4


@dataclass(frozen=True)
class _Group:
    """Layers whose pages are allocated together.

    Attributes:
        pages: Number of pages in a block, by their size in bytes.
        block: Tokens in a page.
        window: Tokens of the window, or None if all tokens are kept.
        count: Number of equal groups.
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

    def measure_sequence(self, length: int) -> float:
        """Return the bytes of one sequence of a length."""
        return self.count_blocks(length) * self.block_bytes

    def count_requests(self, available: int, length: int) -> float:
        """Return the number of sequences of a length that fit."""
        return max(0, available) // self.block_bytes / self.count_blocks(length)

    def count_blocks(self, length: int) -> int:
        """Return the blocks of one sequence in all groups of layers."""
        blocks = 0
        for group in self._groups:
            tokens, extra = length, 0
            if group.window is not None:
                tokens, extra = min(group.window - 1 + self.memory.batched, length), 1
            blocks += group.count * (-(-tokens // group.block) + extra)
        return blocks

    @property
    def block_bytes(self) -> int:
        """Bytes of a block, which is large enough for the pages of any group."""
        full, *other_groups = self._groups
        if self.memory.packing == "groups":
            return max(sum(size * count for size, count in group.pages.items())
                       for group in self._groups)  # fmt: skip
        if self.memory.packing == "tuples":
            return sum(full.pages) * self._group_size
        # A page of a state takes a slot of the next larger size of latent pages.
        slots = Counter(full.pages)
        for group in other_groups:
            for size, many in group.pages.items():
                fitting = min(page for page in full.pages if page >= size)
                slots[fitting] = max(slots[fitting], many)
        return sum(size * many for size, many in slots.items())

    @property
    def _group_size(self) -> int:
        """Maximum number of layers of a group with pages of one size."""
        counts = Counter(layer.ratio for layer in self.layers)
        compressed = [many for ratio, many in counts.items() if ratio]
        minimum = max(compressed, default=1)
        return _choose_group_size([len(self.layers), *compressed], minimum)

    @cached_property
    def _groups(self) -> list[_Group]:
        """The group that keeps all tokens, then the groups of windows and of compressor states."""
        counts = Counter(self.layers)
        full: Counter[int] = Counter()
        for layer, many in counts.items():
            if layer.ratio:
                rows = _BLOCK // layer.ratio
                full[_align(rows * _count_latent_bytes(layer))] += many
                if layer.indexer:
                    full[_align(rows * (layer.indexer + _INDEX_SCALE))] += many
        first = self.layers[0]
        windows = -(-len(self.layers) // self._group_size)
        in_window = -(-len(self.layers) // windows)
        page = _align(_WINDOW_BLOCK * _count_latent_bytes(first))
        groups = [
            _Group(full, _BLOCK, None),
            _Group(Counter({page: in_window}), _WINDOW_BLOCK, first.window, windows),
        ]
        for layer, many in counts.items():
            if layer.ratio:
                block = _STATE_BLOCKS.get(layer.ratio, _STATE_BLOCK)
                overlap = 2 if layer.indexer else 1
                widths = (layer.width, layer.indexer) if layer.indexer else (layer.width,)
                # A key and a weight per element, in 4 bytes each.
                pages = Counter({_align(block * 2 * overlap * width * 4): many
                                 for width in widths})  # fmt: skip
                groups.append(_Group(pages, block, overlap * layer.ratio))
        return groups


def _count_latent_bytes(layer: Compressed) -> int:
    """Return bytes of a latent: one per element, one more if it encodes positions, and scales."""
    return layer.width + layer.rope + _SCALES


def _align(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _choose_group_size(counts: Sequence[int], minimum: int) -> int:
    """Return the size of at least `minimum` with the least padding; among equals, the largest."""
    sizes = range(minimum, max(*counts, minimum) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))
