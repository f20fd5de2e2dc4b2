"""The capacity model: the measured table, edge cases, and every outcome of small clusters."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from profiles import examples
from rows import each_row

from fusioninfer_pulumi.topology.capacity_model import (
    Capacity,
    GangScope,
    NodePool,
    RoleDemand,
    build_pools,
    compute_gang_capacity,
)

NONE, ALL_PODS, SUBGROUP = GangScope.NONE, GangScope.ALL_PODS, GangScope.SUBGROUP
PREFILL_DECODE = (RoleDemand("prefill", 1, (8, 8), 1), RoleDemand("decode", 2, (8,) * 4, 1))


def one(name: str, replicas: int, *sizes: int, minimum: int = 0) -> RoleDemand:
    return RoleDemand(name, replicas, sizes, minimum)


def row(
    roles: Sequence[RoleDemand], form: GangScope, *pools: tuple[int, int]
) -> tuple[dict[str, int], str, bool]:
    result = compute_gang_capacity(roles, form, [NodePool(*pool) for pool in pools])
    return dict(result.running), result.status, result.exact


@each_row(
    ("form", "gpus", "prefill", "decode", "status"),
    [
        (ALL_PODS, 80, 1, 2, "Full"),
        *((ALL_PODS, gpus, 0, 0, "Blocked") for gpus in (79, 64, 48, 32, 16, 0)),
        (SUBGROUP, 80, 1, 2, "Full"),
        (SUBGROUP, 64, 1, 1, "Partial"),
        (SUBGROUP, 48, 1, 1, "Partial"),
        *((SUBGROUP, gpus, 0, 0, "Blocked") for gpus in (47, 32, 16, 0)),
    ],
)
def test_capacity_table_equals_measurements(
    form: GangScope, gpus: int, prefill: int, decode: int, status: str
) -> None:
    want = Capacity(gpus, {"prefill": prefill, "decode": decode}, status, exact=True)
    assert compute_gang_capacity(PREFILL_DECODE, form, build_pools(gpus, 8)) == want


@pytest.mark.parametrize(
    ("roles", "form", "pools", "want"),
    [
        pytest.param([], NONE, [], ({}, "Full", True), id="no roles"),
        pytest.param([one("a", 0, 8)], ALL_PODS, [], ({"a": 0}, "Full", True), id="scaled to 0"),
        pytest.param([one("a", 1, 8)], ALL_PODS, [], ({"a": 0}, "Blocked", True), id="no pools"),
        pytest.param([one("a", 2, 0, 0)], ALL_PODS, [], ({"a": 2}, "Full", True),
                     id="pods without accelerators always fit"),
        pytest.param([one("a", 2, 8, 0)], ALL_PODS, [(2, 8)], ({"a": 2}, "Full", True),
                     id="workers without accelerators take none"),
        pytest.param([one("a", 1, 8), one("b", 1, 0)], ALL_PODS, [(1, 4)],
                     ({"a": 0, "b": 0}, "Blocked", True), id="a blocked gang holds every pod"),
        pytest.param([one("a", 1, 8), one("b", 1, 0)], NONE, [(1, 4)],
                     ({"a": 0, "b": 1}, "Partial", True), id="without a gang the others start"),
        pytest.param([one("a", 1, 8), one("b", 1, 0), one("c", 0, 4)], SUBGROUP, [(1, 4)],
                     ({"a": 0, "b": 1, "c": 0}, "Partial", True), id="all optional"),
        pytest.param([one("p", 3, 8), one("d", 3, 8)], SUBGROUP, [(3, 8)],
                     ({"p": 1, "d": 2}, "Partial", True), id="same index: by name, not as listed"),
        pytest.param([one("p", 3, 8, minimum=2), one("d", 3, 8)], SUBGROUP, [(4, 8)],
                     ({"p": 2, "d": 2}, "Partial", True), id="the minimum precedes lower indices"),
        pytest.param([one("a", 2, 1), one("a-0", 2, 1)], SUBGROUP, [(1, 3)],
                     ({"a": 1, "a-0": 2}, "Partial", True), id="a-0-1 sorts before a-1"),
        pytest.param([one("big", 9, 8, 8, 8), one("small", 3, 8, minimum=1)], SUBGROUP, [(6, 8)],
                     ({"big": 1, "small": 3}, "Partial", True), id="a smaller one slips past"),
        pytest.param([one("a", 3, 8, 8), one("b", 2, 8)], SUBGROUP, [(4, 8)],
                     ({"a": 1, "b": 2}, "Partial", True), id="a failed role is skipped for good"),
        pytest.param([one("a", 2, 4)], ALL_PODS, [(3, 6)], ({"a": 2}, "Full", True),
                     id="what a node has left over is lost"),
        pytest.param([one("a", 1, 5), one("b", 2, 8, minimum=1)], SUBGROUP, [(2, 8)],
                     ({"a": 1, "b": 1}, "Partial", True), id="any two sizes exclude each other"),
        pytest.param([one("a", 1, 8), one("b", 2, 4)], ALL_PODS, [(2, 8)],
                     ({"a": 1, "b": 2}, "Full", False), id="mixed sizes may fragment"),
        pytest.param([one("a", 1, 8), one("b", 2, 4)], ALL_PODS, [(3, 8)],
                     ({"a": 1, "b": 2}, "Full", True), id="mixed sizes with room to spare"),
        pytest.param([one("a", 1, 8), one("b", 3, 4)], ALL_PODS, [(2, 8)],
                     ({"a": 0, "b": 0}, "Blocked", True), id="mixed sizes without room"),
        pytest.param([one("a", 4, 8)], NONE, [(3, 8)], ({"a": 3}, "Partial", True),
                     id="single pods without a gang"),
        pytest.param([one("a", 4, 8, 8)], NONE, [(5, 8)], ({"a": 2}, "Partial", False),
                     id="without a gang replicas can starve each other"),
        pytest.param([one("a", 1, 8), one("b", 1, 8)], NONE, [(1, 8)],
                     ({"a": 1, "b": 1}, "Partial", False), id="either role, not both"),
        pytest.param([one("a", 2, 8, 8), one("b", 1, 8)], NONE, [(5, 8)],
                     ({"a": 2, "b": 1}, "Full", True), id="room for all needs no gang"),
    ],
)  # fmt: skip
def test_capacity_of_edge_cases_is_exact(
    roles: list[RoleDemand],
    form: GangScope,
    pools: list[tuple[int, int]],
    want: tuple[dict[str, int], str, bool],
) -> None:
    assert row(roles, form, *pools) == want


@each_row(
    ("gpus", "largest", "want"),
    [
        (64, 8, [(8, 8)]),
        (60, 8, [(7, 8), (1, 4)]),
        (4, 8, [(1, 4)]),
        (0, 8, []),
        (5, 0, [(1, 5)]),
        (10**6, 8, [(125_000, 8)]),
    ],
)
def test_gpus_are_divided_into_pools(gpus: int, largest: int, want: list[tuple[int, int]]) -> None:
    assert build_pools(gpus, largest) == tuple(NodePool(*pool) for pool in want)


# --- properties ----------------------------------------------------------------------------------


@st.composite
def services(draw: st.DrawFn, sizes: st.SearchStrategy[int], most: int = 4) -> list[RoleDemand]:
    names = draw(st.lists(st.sampled_from(["a", "a-0", "b", "p"]), max_size=most, unique=True))
    result = []
    for name in names:
        leader, worker, workers = draw(st.tuples(sizes, sizes, st.integers(0, most - 1)))
        replicas = draw(st.integers(0, most))
        minimum = draw(st.integers(0, replicas))
        result.append(RoleDemand(name, replicas, (leader, *[worker] * workers), minimum))
    return result


FORMS = st.sampled_from(GangScope)
POOLS = st.lists(st.builds(NodePool, st.integers(0, 6), st.integers(0, 9)), max_size=3)


@given(services(st.integers(0, 9)), FORMS, POOLS)
def test_running_replicas_never_exceed_the_accelerators(
    roles: list[RoleDemand], form: GangScope, pools: list[NodePool]
) -> None:
    result = compute_gang_capacity(roles, form, pools)
    assert result == compute_gang_capacity(roles, form, pools)
    assert result.gpus == sum(pool.nodes * pool.accelerators for pool in pools)
    assert list(result.running) == [role.name for role in roles]
    taken = {role.name: result.running[role.name] * sum(role.pod_sizes) for role in roles}
    assert all(0 <= result.running[role.name] <= role.replicas for role in roles)
    assert max(taken.values(), default=0) <= result.gpus
    if result.exact or result.status == "Full":
        assert sum(taken.values()) <= result.gpus
    short = any(result.running[role.name] < role.replicas for role in roles)
    assert result.status in (["Partial", "Blocked"] if short else ["Full", "Partial"])
    assert (result.status == "Blocked") == (short and not any(result.running.values()))
    if form is ALL_PODS:
        assert result.status in {"Full", "Blocked"}
    if form is SUBGROUP and result.status != "Blocked":
        assert all(result.running[role.name] >= role.minimum for role in roles)


@given(services(st.integers(0, 9)), FORMS, POOLS, st.data())
def test_more_nodes_never_worsen_the_status(
    roles: list[RoleDemand], form: GangScope, pools: list[NodePool], data: st.DataObject
) -> None:
    larger = [*pools, NodePool(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 9)))]
    rank = ["Blocked", "Partial", "Full"].index
    less, result = (
        compute_gang_capacity(roles, form, pools),
        compute_gang_capacity(roles, form, larger),
    )
    assert rank(result.status) >= rank(less.status)
    if form is not SUBGROUP:
        # With subgroups, a new node can let a large replica start in place of smaller ones.
        assert all(result.running[name] >= count for name, count in less.running.items())


@given(services(st.sampled_from([0, 2])), st.sampled_from([ALL_PODS, SUBGROUP]), POOLS)
def test_gang_of_one_pod_size_is_exact(
    roles: list[RoleDemand], form: GangScope, pools: list[NodePool]
) -> None:
    assert compute_gang_capacity(roles, form, pools).exact


@each_row("form", GangScope)
@each_row("sizes", [(8, 8), (8, 4)])
def test_capacity_model_is_fast(form: GangScope, sizes: tuple[int, int]) -> None:
    roles = [RoleDemand(f"r{i}", 100, sizes, i % 3) for i in range(99)]
    roles.append(RoleDemand("many", 10**6, sizes, 1))
    for gpus in (10**6, 79_999, 9_999):
        took = []
        for _ in range(3):
            start = time.process_time()
            compute_gang_capacity(roles, form, build_pools(gpus, 8))
            took.append(time.process_time() - start)
        assert min(took) < 0.05


# --- every outcome of small clusters -------------------------------------------------------------

Left = tuple[int, ...]  # accelerators left on each node, sorted: equal nodes are interchangeable


def remaining_capacity(pods: Sequence[int], free: Left) -> set[Left]:
    """Return the possible free accelerators after placing the pods; empty if one does not fit."""
    states = {free}
    for pod in pods:
        states = {
            tuple(sorted((*left[:at], room - pod, *left[at + 1 :])))
            for left in states
            for at, room in enumerate(left)
            if room >= pod
        } if pod else states  # fmt: skip
    return states


def gang_outcomes(roles: Sequence[RoleDemand], free: Left) -> set[tuple[int, ...]]:
    """Place the gang subgroup by subgroup, on every node that the scheduler could choose."""
    order = sorted(
        (i, f"{r.name}-{i}", at) for at, r in enumerate(roles) for i in range(r.replicas)
    )
    needed = [at for i, _, at in order if i < roles[at].minimum]
    beyond = [at for i, _, at in order if i >= roles[at].minimum]
    nothing = (0,) * len(roles)
    states = {(nothing, free)}
    for at in (*needed, *beyond):
        tried = set()
        for bound, left in states:
            one_more = (*bound[:at], bound[at] + 1, *bound[at + 1 :])
            after = remaining_capacity(roles[at].pod_sizes, left)
            tried |= {(one_more, rest) for rest in after} or {(bound, left)}
        states = tried
    minima = tuple(role.minimum for role in roles)
    return {
        bound if all(n >= least for n, least in zip(bound, minima, strict=True)) else nothing
        for bound, _ in states
    }


def lone_pod_outcomes(roles: Sequence[RoleDemand], free: Left) -> set[tuple[int, ...]]:
    """Place pods without a gang, in every order and on every node."""
    replicas = [(r.name, i, r.pod_sizes) for r in roles for i in range(r.replicas)]
    pods = frozenset((n, i, at, pod) for n, i, all_ in replicas for at, pod in enumerate(all_))
    item, seen = set(), {(pods, free)}
    queue = list(seen)
    while queue:
        waiting, left = queue.pop()
        steps = {
            (waiting - {p}, after) for p in waiting for after in remaining_capacity(p[3:], left)
        }
        if not steps:
            incomplete = [name for name, _ in {pod[:2] for pod in waiting}]
            item.add(tuple(r.replicas - incomplete.count(r.name) for r in roles))
        queue.extend(steps - seen)
        seen |= steps
    return item


def replica_outcomes(roles: Sequence[RoleDemand], free: Left) -> set[tuple[int, ...]]:
    """Place whole replicas, in every order and on every node."""
    outcomes, seen = set(), {((0,) * len(roles), free)}
    queue = list(seen)
    while queue:
        bound, left = queue.pop()
        steps = {
            ((*bound[:at], bound[at] + 1, *bound[at + 1 :]), after)
            for at, role in enumerate(roles)
            if bound[at] < role.replicas
            for after in remaining_capacity(role.pod_sizes, left)
        }
        if not steps:
            outcomes.add(bound)
        queue.extend(steps - seen)
        seen |= steps
    return outcomes


OUTCOMES = {NONE: lone_pod_outcomes, GangScope.REPLICA: replica_outcomes}

SMALL_POOLS = st.lists(st.builds(NodePool, st.integers(1, 2), st.integers(0, 5)), max_size=2)


@examples(5)
@given(services(st.integers(0, 4), most=2), FORMS, SMALL_POOLS)
def test_no_scheduling_outcome_exceeds_the_model(
    roles: list[RoleDemand], form: GangScope, pools: list[NodePool]
) -> None:
    model = compute_gang_capacity(roles, form, pools)
    free = tuple(sorted(itertools.chain(*([pool.accelerators] * pool.nodes for pool in pools))))
    if form is ALL_PODS:
        roles = [replace(role, minimum=role.replicas) for role in roles]
    outcomes = OUTCOMES.get(form, gang_outcomes)(roles, free)
    running = tuple(model.running.values())
    if model.exact:
        assert outcomes == {running}
    for outcome in outcomes:
        assert all(n <= most for n, most in zip(outcome, running, strict=True))
        assert model.status == "Full" or any(
            n < role.replicas for n, role in zip(outcome, roles, strict=True)
        )
