"""The memory of sequences in the KV cache of one accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusioninfer_capacity.fit.architecture import Cache, Compressed, Layer, State
from fusioninfer_capacity.fit.compressed import CompressedLayout
from fusioninfer_capacity.fit.engines import Memory

#: SGLang's `--swa-full-tokens-ratio`: tokens of a sliding pool for each token of the full one.
_POOL_RATIO = 0.8
#: SGLang's `--mamba-full-memory-ratio`: bytes of the pool of states for each byte of the KV cache.
_STATE_RATIO = 0.9

#: Layers with equal values have the same kind of cache.
Kind = Cache | State


@dataclass(frozen=True)
class CacheLayout:
    """The cache of one pipeline stage on one accelerator.

    Attributes:
        kinds: Kinds of cache, each with its number of layers.
        bits: Bits per element of the KV cache.
        state_bits: Bits of the model's type, in which convolutions are stored.
        ways: Number of ranks among which attention is split.
    """

    kinds: Sequence[tuple[Kind, int]]
    bits: int
    state_bits: int
    ways: int
    memory: Memory

    @property
    def token_bytes(self) -> int:
        """Bytes of a token in all layers."""
        return sum(self._count_bytes(kind) * count for kind, count in self._caches)

    def measure_sequence(self, length: int) -> float:
        """Return the bytes of one sequence of a length."""
        if self._has_pools:
            return length * self._pooled_token_bytes
        if self.memory.windows != "groups" and self._states:
            return length * self.token_bytes * (1 + _STATE_RATIO)
        if not self._groups:
            block = self.memory.block
            return -(-length // block) * block * self.token_bytes
        return self._count_pages(length) * self._page_bytes

    def count_requests(self, available: int, length: int) -> float:
        """Return the number of sequences of a length that fit."""
        if self._groups and not self._has_pools:
            # Only whole pages count, because pages are large if layers keep states.
            return max(0, available) // self._page_bytes / self._count_pages(length)
        return available / self.measure_sequence(length)

    def _count_pages(self, length: int) -> int:
        """Return pages of one sequence in all groups of layers."""
        assert self._groups is not None, "checked by the caller"
        pages = 0
        for kind, groups in self._groups[1]:
            if isinstance(kind, State):
                pages += groups * self.memory.state_pages
                continue
            block = self._count_page_tokens(kind)
            tokens, extra = length, 0
            if kind.window is not None:
                # A window that begins inside a page needs one page more.
                tokens, extra = min(kind.window - 1 + self.memory.batched, length), 1
            pages += groups * (-(-tokens // block) + extra)
        return pages

    @property
    def _page_bytes(self) -> int:
        """Bytes of a page in all layers of a group."""
        assert self._groups is not None, "checked by the caller"
        return self._groups[0] * self._widest_page_tokens * self._widest_bytes

    def _count_page_tokens(self, kind: Cache) -> int:
        """Return the tokens in a page of a kind; pages of all kinds have the same bytes."""
        return self._widest_page_tokens * (self._widest_bytes // self._count_bytes(kind))

    @property
    def _widest_bytes(self) -> int:
        """Bytes of a token in a layer of the widest kind."""
        return max(self._count_bytes(kind) for kind, _ in self._caches)

    @property
    def _widest_page_tokens(self) -> int:
        """Tokens in a page of the widest kind; it can hold a state (`_align_hybrid_block_size`)."""
        block = self.memory.block
        if not self._states:
            return block
        largest = max(self._count_bytes(kind) for kind, _ in self._states)
        has_latents = any(kind.latent for kind, _ in self._caches)
        aligned = _ALIGNED_LATENT if has_latents else _ALIGNED
        return max(block, -(-largest // (aligned * self._widest_bytes)) * aligned)

    def _count_bytes(self, kind: Kind) -> int:
        return kind.count_bytes(
            self.ways, self.state_bits if isinstance(kind, State) else self.bits
        )

    @property
    def _caches(self) -> list[tuple[Cache, int]]:
        return [(kind, count) for kind, count in self.kinds if isinstance(kind, Cache)]

    @property
    def _states(self) -> list[tuple[State, int]]:
        return [(kind, count) for kind, count in self.kinds if isinstance(kind, State)]

    @property
    def _has_pools(self) -> bool:
        return self.memory.windows == "pools" and any(kind.window for kind, _ in self._caches)

    @property
    def _pooled_token_bytes(self) -> float:
        full = sum(
            self._count_bytes(kind) * many for kind, many in self._caches if kind.window is None
        )
        windowed = sum(self._count_bytes(kind) * many for kind, many in self._caches if kind.window)
        return full + _POOL_RATIO * windowed

    @property
    def _groups(self) -> tuple[int, Sequence[tuple[Kind, int]]] | None:
        """Layers of a group, and the number of groups of each kind; None if all are one group.

        vLLM's `_get_kv_cache_groups_uniform_page_size`: the smaller number of layers is the size
        of all groups, unless the numbers are close.
        """
        if self.memory.windows != "groups" or len(self.kinds) < 2 or not self._caches:
            return None
        if not self._states and all(kind.window is None for kind, _ in self._caches):
            return None  # layers of any size form one group (`UniformTypeKVCacheSpecs`)
        counts = [count for _, count in self.kinds]
        smallest, largest = min(counts), max(counts)
        size = largest if largest < smallest * self.memory.close_factor else smallest
        return size, [(kind, -(-count // size)) for kind, count in self.kinds]


#: If layers keep states, tokens in a page are a multiple of this: without and with latents.
_ALIGNED, _ALIGNED_LATENT = 16, 128


def make_cache_layout(
    layers: Sequence[Layer], bits: int, state_bits: int, ways: int, memory: Memory
) -> CacheLayout | CompressedLayout:
    """Return the cache layout of the layers of one stage."""
    compressed = [layer.cache for layer in layers if isinstance(layer.cache, Compressed)]
    if compressed:
        return CompressedLayout(tuple(compressed), memory)
    all_kinds = [layer.cache for layer in layers if not isinstance(layer.cache, Compressed)]
    if not memory.has_latent_scales:
        all_kinds = [
            replace(kind, scaled_bytes=None) if isinstance(kind, Cache) else kind
            for kind in all_kinds
        ]
    kinds: Counter[Kind] = Counter(filter(_has_cache, all_kinds))
    token_bytes = {kind.count_bytes(ways, bits) for kind in kinds if isinstance(kind, Cache)}
    uneven = len(token_bytes) > 1
    if memory.windows == "full" or (uneven and not memory.allows_uneven_groups):
        unwindowed: Counter[Kind] = Counter()
        for kind, count in kinds.items():
            unwindowed[replace(kind, window=None) if isinstance(kind, Cache) else kind] += count
        kinds = unwindowed
        if uneven and memory.windows == "groups":
            memory = replace(memory, windows="full")
    return CacheLayout(tuple(kinds.items()), bits, state_bits, ways, memory)


def _has_cache(kind: Kind) -> bool:
    return isinstance(kind, State) or kind.width > 0
