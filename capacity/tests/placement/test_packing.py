"""Packing, compared with trying each pod on each node."""

from __future__ import annotations

import functools
import random

from hypothesis import given, strategies as st
from profiles import examples
from rows import each_row

from fusioninfer_capacity.placement._packing import PoolFit, PoolLoad, Pools, add_replicas, can_pack
from fusioninfer_pulumi.api import NodePoolArgs

sizes = st.sampled_from((1, 2, 4, 8))
free_gpus = st.lists(st.integers(0, 8), max_size=4)


def can_pack_exhaustively(pods: tuple[int, ...], nodes: tuple[int, ...]) -> bool:
    """Return whether pods fit, by trying each pod on each node."""

    @functools.cache
    def place(at: int, free: tuple[int, ...]) -> bool:
        if at == len(pods):
            return True
        return any(
            place(at + 1, tuple(sorted((*free[:i], gpus - pods[at], *free[i + 1 :]))))
            for i, gpus in enumerate(free)
            if gpus >= pods[at]
        )

    return place(0, tuple(sorted(nodes)))


@given(st.lists(st.integers(1, 8), max_size=6), free_gpus)
def test_packed_pods_fit(pods: list[int], nodes: list[int]) -> None:
    if can_pack([(size, 1) for size in pods], [(gpus, 1) for gpus in nodes]):
        assert can_pack_exhaustively(tuple(pods), tuple(nodes))


@given(st.lists(sizes, max_size=6), free_gpus)
def test_pods_of_sizes_that_divide_each_other_are_packed_if_they_fit(
    pods: list[int], nodes: list[int]
) -> None:
    result = can_pack([(size, 1) for size in pods], [(gpus, 1) for gpus in nodes])
    assert result == can_pack_exhaustively(tuple(pods), tuple(nodes))


@each_row(
    ("pods", "nodes", "fits"),
    [
        ([], [], True),
        ([(8, 2)], [(8, 2)], True),
        ([(8, 2), (1, 1)], [(8, 2)], False),
        ([(6, 1), (3, 3)], [(8, 2)], False),  # 16 are free, but not in these sizes
        ([(5, 2), (3, 2)], [(8, 2)], True),
        ([(3, 2), (2, 4)], [(7, 2)], False),  # best fit puts both threes together
        ([(4, 2), (3, 2), (2, 5)], [(8, 3)], True),
        ([(3, 400), (2, 1)], [(8, 199)], False),
        ([(0, 7)], [], True),
    ],
)
def test_packing_examples(
    pods: list[tuple[int, int]], nodes: list[tuple[int, int]], fits: bool
) -> None:
    assert can_pack(pods, nodes) == fits


@given(
    st.integers(0, 4),
    st.lists(st.integers(1, 8), max_size=2),
    st.lists(st.tuples(st.lists(sizes, min_size=1, max_size=3), st.integers(1, 3)), max_size=3),
)
@examples(2)
def test_pools_equal_exhaustive_packing(
    nodes: int, in_use: list[int], replicas: list[tuple[list[int], int]]
) -> None:
    count = nodes + len(in_use)
    pools = Pools([NodePoolArgs(name="a", nodes=count, accelerators=8, in_use=in_use)])
    load: PoolLoad = ()
    for shape, times in replicas:
        load = add_replicas(load, tuple(sorted(shape, reverse=True)), times)
    pods = tuple(size for shape, times in load for size in shape for _ in range(times))
    free = (*(8,) * nodes, *(8 - used for used in in_use))
    fits = can_pack_exhaustively(pods, free)
    assert (pools.fit(0, load) is not PoolFit.NO) == fits
    missing = pools.count_missing_nodes(0, load)
    assert can_pack_exhaustively(pods, (*free, *(8,) * missing))
    assert missing == 0 or not can_pack_exhaustively(pods, (*free, *(8,) * (missing - 1)))
    if fits:
        whole = pools.count_whole_nodes(0, load)
        other_nodes = sorted(free, reverse=True)[whole:]
        assert can_pack_exhaustively(pods, tuple(other_nodes))
        assert whole == nodes or not can_pack_exhaustively(
            pods, tuple(sorted(free, reverse=True)[whole + 1 :])
        )


@given(
    st.integers(1, 4), st.lists(sizes, min_size=1, max_size=8), st.randoms(use_true_random=False)
)
def test_guaranteed_fit_is_independent_of_pod_order(
    nodes: int, pods: list[int], dice: random.Random
) -> None:
    pools = Pools([NodePoolArgs(name="a", nodes=nodes, accelerators=8)])
    load: PoolLoad = ()
    for size in pods:
        load = add_replicas(load, (size,), 1)
    if pools.fit(0, load) is not PoolFit.CERTAIN:
        return
    free = [8] * nodes
    for size in pods:
        fitting = [at for at, gpus in enumerate(free) if gpus >= size]
        assert fitting, "a scheduler that chooses nodes at random found none"
        free[dice.choice(fitting)] -= size
