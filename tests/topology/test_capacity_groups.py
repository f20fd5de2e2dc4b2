"""Capacity of serving groups, compared with a simulated scheduler."""

from __future__ import annotations

from hypothesis import given, strategies as st
from profiles import examples
from rows import each_row

from fusioninfer_pulumi.topology.capacity_model import (
    GangScope,
    NodePool,
    RoleDemand,
    compute_gang_capacity,
    compute_group_capacity,
)

ALL_PODS, SUBGROUP, NONE = GangScope.ALL_PODS, GangScope.SUBGROUP, GangScope.NONE
PREFILL_DECODE = (RoleDemand("prefill", 1, (8, 8), 1), RoleDemand("decode", 2, (8,) * 4, 1))


@each_row(
    ("form", "nodes", "prefill", "decode", "groups", "status"),
    [
        (ALL_PODS, 20, 2, 4, 2, "Full"),
        (ALL_PODS, 19, 1, 2, 1, "Partial"),
        (ALL_PODS, 10, 1, 2, 1, "Partial"),
        (ALL_PODS, 9, 0, 0, 0, "Blocked"),
        (SUBGROUP, 20, 2, 4, 2, "Full"),
        (SUBGROUP, 16, 2, 3, 2, "Partial"),
        (SUBGROUP, 12, 2, 2, 2, "Partial"),
        # The second group's minimum does not fit, so its nodes go to the first group's decoder.
        (SUBGROUP, 11, 1, 2, 1, "Partial"),
        (SUBGROUP, 6, 1, 1, 1, "Partial"),
        (SUBGROUP, 5, 0, 0, 0, "Blocked"),
    ],
)
def test_capacity_of_two_groups_depends_on_gang_and_nodes(
    form: GangScope, nodes: int, prefill: int, decode: int, groups: int, status: str
) -> None:
    result = compute_group_capacity(PREFILL_DECODE, form, [NodePool(nodes, 8)], 2)
    assert result.running == {"prefill": prefill, "decode": decode}
    assert (result.groups, result.status, result.exact) == (groups, status, True)


def test_groups_without_a_gang_are_not_counted() -> None:
    result = compute_group_capacity(PREFILL_DECODE, NONE, [NodePool(20, 8)], 2)
    assert result.running == {"prefill": 2, "decode": 4}
    assert result.groups is None


@st.composite
def demands(draw: st.DrawFn) -> tuple[list[RoleDemand], int, int]:
    roles = []
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        replicas = draw(st.integers(0, 3))
        pods = (1,) * draw(st.integers(1, 3))
        roles.append(RoleDemand(name, replicas, pods, draw(st.integers(0, replicas))))
    return roles, draw(st.integers(1, 4)), draw(st.integers(0, 40))


def schedule(
    roles: list[RoleDemand], groups: int, free: int, *, round_robin: bool
) -> dict[str, int]:
    """Return running replicas if optional ones are bound round-robin or group by group."""
    minimum = sum(item.minimum * len(item.pod_sizes) for item in roles)
    running = {item.name: 0 for item in roles}
    started = min(groups, free // minimum if minimum else groups)
    free -= started * minimum
    waiting = []
    for _ in range(started):
        for role in roles:
            running[role.name] += role.minimum
        waiting.append(
            sorted(
                (index, role.name, len(role.pod_sizes))
                for role in roles
                for index in range(role.minimum, role.replicas)
            )
        )
    while any(waiting):
        for fields in waiting:
            while fields:
                _, name, pods = fields.pop(0)
                if pods <= free:
                    free -= pods
                    running[name] += 1
                    if round_robin:
                        break
    return running


@given(demands())
@examples(4)
def test_capacity_is_exact_or_an_upper_bound(example: tuple[list[RoleDemand], int, int]) -> None:
    roles, groups, free = example
    if not any(role.minimum for role in roles):
        return
    result = compute_group_capacity(roles, SUBGROUP, [NodePool(free, 1)], groups)
    for round_robin in (True, False):
        real = schedule(roles, groups, free, round_robin=round_robin)
        assert all(real[name] <= result.running[name] for name in real)
        if result.exact:
            assert real == dict(result.running)
            wanted = {role.name: role.replicas * groups for role in roles}
            assert (result.status == "Full") == (real == wanted)


@given(demands())
@examples(2)
def test_one_group_gets_no_more_than_a_service_without_groups(
    example: tuple[list[RoleDemand], int, int],
) -> None:
    roles, _, free = example
    for form in (ALL_PODS, SUBGROUP):
        if form is SUBGROUP and not any(role.minimum for role in roles):
            continue
        one = compute_group_capacity(roles, form, [NodePool(free, 1)], 1)
        plain = compute_gang_capacity(roles, form, [NodePool(free, 1)])
        assert all(plain.running[name] <= one.running[name] for name in plain.running)
        if one.exact:
            assert dict(one.running) == dict(plain.running)
