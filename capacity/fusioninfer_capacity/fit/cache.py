"""How many tokens a KV cache holds, and what one sequence takes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_capacity.fit.architecture import Cache, Layer
from fusioninfer_capacity.fit.engines import Memory

#: SGLang's `--swa-full-tokens-ratio`: tokens of a sliding pool for each token of the full one.
_POOL_RATIO = 0.8


@dataclass(frozen=True)
class CacheLayout:
    """The cache of one pipeline stage on one accelerator.

    Attributes:
        kinds: What its layers keep of a token, with the number of layers that keep it.
        ways: Ways that attention is split.
    """

    kinds: Sequence[tuple[Cache, int]]
    bits: int
    ways: int
    memory: Memory

    @property
    def token(self) -> int:
        """Bytes of a token that all layers keep."""
        return sum(self._bytes(kind) * count for kind, count in self.kinds)

    def sequence(self, length: int) -> float:
        """Bytes that one sequence of a length takes."""
        if self._pools:
            return length * self._pooled
        block = self.memory.block
        if not self._groups:
            return -(-length // block) * block * self.token
        layers, groups = self._groups
        page = block * max(self._bytes(kind) for kind, _ in self.kinds) * layers
        pages = 0
        for kind, many in groups:
            kept = (
                length
                if kind.window is None
                else min(kind.window - 1 + self.memory.batched, length)
            )
            pages += many * (-(-kept // block) + (0 if kind.window is None else 1))
        return pages * page

    def _bytes(self, kind: Cache) -> int:
        return kind.elements(self.ways) * self.bits // 8

    @property
    def _pools(self) -> bool:
        return self.memory.windows == "pools" and any(kind.window for kind, _ in self.kinds)

    @property
    def _pooled(self) -> float:
        full = sum(self._bytes(kind) * many for kind, many in self.kinds if kind.window is None)
        slid = sum(self._bytes(kind) * many for kind, many in self.kinds if kind.window)
        return full + _POOL_RATIO * slid

    @property
    def _groups(self) -> tuple[int, Sequence[tuple[Cache, int]]] | None:
        """Layers of a group, and how many groups each kind has; None where all layers are one.

        vLLM's `_get_kv_cache_groups_uniform_page_size`: the smaller number of layers is the size
        of all groups, unless the numbers are close.
        """
        if self.memory.windows != "groups" or len(self.kinds) < 2:
            return None
        counts = [count for _, count in self.kinds]
        least, most = min(counts), max(counts)
        size = most if most < least * 1.25 else least
        return size, [(kind, -(-count // size)) for kind, count in self.kinds]


def layout(layers: Sequence[Layer], bits: int, ways: int, memory: Memory) -> CacheLayout:
    """The cache of layers of which all is known."""
    kinds = Counter(layer.cache for layer in layers if layer.cache is not None)
    if memory.windows == "full":
        plain: Counter[Cache] = Counter()
        for kind, count in kinds.items():
            plain[Cache(kind.heads, kind.width, None, kind.latent)] += count
        kinds = plain
    return CacheLayout(tuple(kinds.items()), bits, ways, memory)
