"""How many replicas of each role run on a number of free accelerators.

It models what Volcano v1.14.1 binds after several scheduling cycles, for one service alone in its
queue. Only accelerators count: CPU, memory, affinity and taints are ignored. The scheduler's rules,
with lines under ``pkg/scheduler`` of that version:

* A replica is a subgroup and is placed as a whole or not at all: the first pod without a node
  discards its statement (``actions/allocate/allocate.go:628-632,658-670``,
  ``api/job_info.go:926-930``). The literal form is one such unit of all pods (``job_info.go:923``).
* The subgroups of the minimum come first: of each role the first ``minSubGroups`` in order
  (``allocate.go:226-244``). Nothing is bound before all of them have a place (``309``, ``396``,
  ``plugins/gang/gang.go:177-183``); then they are committed together (``384-386``).
* After that each commit takes one more subgroup, in the same order: pod priority (one for the
  whole service here), then the replica index, then the policy's UID, whose text ends in
  ``{role}-{index}`` (``framework/session_plugins.go:635-658``, ``api/sub_job_info.go:202-214``).
  So replica 1 of every role precedes replica 2 of any role, and roles take turns by name.
* A subgroup that does not fit is skipped in this cycle and the next one in order is tried, also a
  smaller one of another role (``allocate.go:370-388``). Every cycle tries it again
  (``buildAllocateContext``, ``149-192``), without success while no accelerators are released.
* Pods outside every subgroup form one of size 1 that comes first among index 0 and is never part
  of the minimum (``job_info.go:1239-1253``). Generated policies leave no pod outside.

Where Kueue admits replicas (read and run: v0.15.2), each is a workload of its own: it is admitted
as a whole while the quota of its queue covers it, and one that does not fit is passed over
(``BestEffortFIFO``). Workloads of one second have no order. Kueue counts quota and no nodes: the
model takes the accelerators of the pools for the quota, and is exact only where nodes hold pods
without loss.

The model assumes that all pods exist before the first one is bound. Roles that compete for the last
accelerators while their pods are still being created get them in order of creation.
"""

from __future__ import annotations

import bisect
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


class GangForm(enum.Enum):
    """The form of a service's PodGroup."""

    NONE = "none"
    """No PodGroup: every pod is scheduled by itself."""
    REPLICA = "replica"
    """Kueue: every replica is admitted as a whole, by itself."""
    LITERAL = "literal"
    """``minTaskMember`` for every replica, ``minMember`` their sum: all or nothing."""
    SUBGROUP = "subgroup"
    """One ``subGroupPolicy`` per role, named like the role, a replica being a subgroup."""


@dataclass(frozen=True)
class RoleDemand:
    """The replicas of one role and their accelerators.

    Attributes:
        name: The role, which is also the name of its subgroup policy.
        replicas: Desired replicas; 0 for a role scaled to zero.
        pod_sizes: Accelerators of each pod of one replica, the leader first; 0 for none.
        minimum: Replicas that the gang needs; used only by ``GangForm.SUBGROUP``.
    """

    name: str
    replicas: int
    pod_sizes: tuple[int, ...]
    minimum: int


@dataclass(frozen=True)
class NodePool:
    """Nodes of one size, all of their accelerators free."""

    nodes: int
    accelerators: int


@dataclass(frozen=True)
class Capacity:
    """What runs on some node pools.

    Attributes:
        gpus: All accelerators of the pools.
        running: Replicas of each role with all their pods bound.
        status: ``Full``, ``Partial`` or ``Blocked`` (nothing runs).
        exact: Whether the scheduler reaches exactly this. If False, ``running`` is an upper bound
            for each role, computed with the others at the gang's minimum: the roles may not reach
            it together, and ``Full`` means that no bound excludes it.
        groups: Serving groups of which at least the minimum runs, None without groups or gangs.
    """

    gpus: int
    running: Mapping[str, int]
    status: str
    exact: bool
    groups: int | None = None


def capacity(roles: Sequence[RoleDemand], form: GangForm, pools: Sequence[NodePool]) -> Capacity:
    """Return how many replicas of each role run on the pools.

    Exact if all pods with accelerators form a gang and are interchangeable (one size, or each node
    holds as many of the largest as of the smallest), or if the outcome does not depend on the nodes
    that pods get; otherwise an upper bound for each role.
    """
    wanted = _wanted(roles, form)
    units, nodes = _normalised(wanted, [(pool.nodes, pool.accelerators) for pool in pools])
    if any(role.minimum > role.replicas for role in units):
        # The scheduler never finds such a job valid (job_info.go:1114-1128).
        running, exact = {role.name: 0 for role in units}, True
    elif form is GangForm.REPLICA:
        running = _upper_bounds(units, nodes)
        lost = any(pool.accelerators % size for pool in pools for size in _sizes(wanted))
        complete = all(running[role.name] == role.replicas for role in units)
        exact = (complete or not lost) and _fit_together(units, running, nodes)
    elif form is not GangForm.NONE and all(size == 1 for role in units for size in role.pod_sizes):
        running, exact = _bound_in_order(units, sum(count * free for count, free in nodes)), True
    else:
        running = _upper_bounds(units, nodes)
        exact = _outcome_is_certain(units, running, nodes, form)
    return Capacity(
        gpus=sum(pool.nodes * pool.accelerators for pool in pools),
        running=running,
        status=_status(units, running, nodes),
        exact=exact,
    )


def pools_for_gpus(gpus: int, largest_pod: int) -> tuple[NodePool, ...]:
    """Return nodes of the largest pod's size that have this many accelerators in total.

    A remainder is one smaller node. `largest_pod` is 0 where no pod requests accelerators.
    """
    full, rest = divmod(gpus, largest_pod) if largest_pod > 0 else (0, gpus)
    pools = (NodePool(full, largest_pod), NodePool(1, rest))
    return tuple(pool for pool in pools if pool.nodes > 0 and pool.accelerators > 0)


_Nodes = list[tuple[int, int]]  # (how many, accelerators of each)


def _wanted(roles: Sequence[RoleDemand], form: GangForm) -> list[RoleDemand]:
    """Return the roles with the minimum of their gang form, and only pods with accelerators."""
    wanted = []
    for role in roles:
        sizes = tuple(size for size in role.pod_sizes if size > 0) if role.replicas else ()
        minima = {GangForm.NONE: 0, GangForm.REPLICA: 0, GangForm.LITERAL: role.replicas}
        minimum = minima.get(form, role.minimum)
        wanted.append(replace(role, pod_sizes=sizes, minimum=minimum))
    return wanted


def _sizes(roles: Sequence[RoleDemand]) -> set[int]:
    return {size for role in roles for size in role.pod_sizes}


def _normalised(roles: list[RoleDemand], nodes: _Nodes) -> tuple[list[RoleDemand], _Nodes]:
    """Return pods and nodes in the largest unit that does not change the result.

    Pods only take multiples of the greatest common divisor of their sizes. If every node holds
    exactly as many of the largest pods as of the smallest, it holds that many of any mixture, and
    sizes do not matter.
    """
    sizes = _sizes(roles)
    if not sizes:
        return roles, nodes
    if all(free // min(sizes) == free // max(sizes) for _, free in nodes):
        unit, scaled = max(sizes), dict.fromkeys(sizes, 1)
    else:
        unit = math.gcd(*sizes)
        scaled = {size: size // unit for size in sizes}
    units = [
        replace(role, pod_sizes=tuple(scaled[size] for size in role.pod_sizes)) for role in roles
    ]
    return units, [(count, free // unit) for count, free in nodes]


def _bound_in_order(roles: list[RoleDemand], free: int) -> dict[str, int]:
    """Return the replicas that run for pods of size 1: the gang's minimum, then in order."""
    free -= sum(role.minimum * len(role.pod_sizes) for role in roles)
    if free < 0:
        return {role.name: 0 for role in roles}
    running = {role.name: role.replicas for role in roles}

    def taken(index: int) -> int:
        """Return the pods of all replicas below the index that run beyond the minimum."""
        beyond = ((max(0, min(index, running[r.name]) - r.minimum), r.pod_sizes) for r in roles)
        return sum(replicas * len(pods) for replicas, pods in beyond)

    last = max(running.values(), default=0)
    while taken(last) > free:
        index = bisect.bisect_right(range(last), free, key=taken) - 1
        left = free - taken(index)
        for role in sorted(roles, key=lambda role: f"{role.name}-{index}"):
            if role.minimum <= index < running[role.name]:
                if len(role.pod_sizes) <= left:
                    left -= len(role.pod_sizes)
                else:
                    # Free accelerators only decrease, so no later replica of the role fits either.
                    running[role.name] = index
    return running


def _upper_bounds(roles: list[RoleDemand], nodes: _Nodes) -> dict[str, int]:
    """Return the most replicas of each role while the others have their minimum.

    For each size, pods of at least this size need that many places, and that many accelerators on
    nodes that can hold one of them.
    """
    bounds = {role.name: role.replicas for role in roles}
    for size in sorted(_sizes(roles)):
        large = {role.name: [pod for pod in role.pod_sizes if pod >= size] for role in roles}
        places = sum(count * (free // size) for count, free in nodes)
        usable = sum(count * free for count, free in nodes if free >= size)
        for left, weigh in ((places, len), (usable, sum)):
            loads = {name: weigh(pods) for name, pods in large.items()}
            spare = left - sum(role.minimum * loads[role.name] for role in roles)
            if spare < 0:
                return dict.fromkeys(bounds, 0)
            for role in roles:
                if load := loads[role.name]:
                    bounds[role.name] = min(bounds[role.name], role.minimum + spare // load)
    return bounds


def _fit_together(roles: list[RoleDemand], running: Mapping[str, int], nodes: _Nodes) -> bool:
    """Return whether all roles reach their bounds whichever replica is admitted first.

    A replica that does not run does not fit next to those that run. If the bounds fit together,
    one more replica of a role below its bound always fits.
    """
    if any(size != 1 for role in roles for size in role.pod_sizes):
        return _outcome_is_certain(roles, running, nodes, GangForm.NONE)
    taken = sum(running[role.name] * len(role.pod_sizes) for role in roles)
    return taken <= sum(count * free for count, free in nodes)


def _outcome_is_certain(
    roles: list[RoleDemand], running: Mapping[str, int], nodes: _Nodes, form: GangForm
) -> bool:
    """Return whether the bounds are reached on whichever nodes the scheduler puts pods.

    A pod finds no node only if each node that is large enough has less than its size free. That
    cannot happen if the other pods are too few to fill them.
    """
    incomplete = any(
        len(role.pod_sizes) > 1 and running[role.name] < role.replicas for role in roles
    )
    if form is GangForm.NONE and incomplete and any(running[r.name] for r in roles if r.pod_sizes):
        # Without a gang, pods of incomplete replicas hold accelerators.
        return False
    total = sum(running[role.name] * sum(role.pod_sizes) for role in roles)
    for role in roles:
        if role.pod_sizes and running[role.name]:
            # A node too small for the largest pod of a replica may be excluded for its smaller pods
            # too: the scheduler caches misfits by task name (util/predicate_helper.go).
            largest = max(role.pod_sizes)
            filled = sum(count * max(0, free - largest + 1) for count, free in nodes)
            if total - min(role.pod_sizes) >= filled:
                return False
    return True


def _status(roles: list[RoleDemand], running: Mapping[str, int], nodes: _Nodes) -> str:
    """Return `Full`, `Partial` or `Blocked`; a service of 0 replicas is `Full`."""
    if all(running[role.name] == role.replicas for role in roles):
        everything = [replace(role, minimum=role.replicas) for role in roles]
        return "Full" if _upper_bounds(everything, nodes) == running else "Partial"
    return "Partial" if any(running.values()) else "Blocked"


def group_capacity(
    roles: Sequence[RoleDemand], form: GangForm, pools: Sequence[NodePool], groups: int | None
) -> Capacity:
    """Return how many replicas of each role run over all serving groups, None for no groups.

    Exact if all pods with accelerators have one size and roles do not compete for what the groups'
    minima leave; otherwise an upper bound for each role.
    """
    if groups is None or form in (GangForm.REPLICA, GangForm.NONE):
        return capacity(_times(roles, groups or 1), form, pools)
    if groups == 1:
        one = capacity(roles, form, pools)
        return replace(one, groups=int(one.status != "Blocked"))
    whole = capacity(_times(roles, groups), GangForm.LITERAL, pools)
    if whole.status == "Full" and whole.exact:
        return replace(whole, groups=groups)
    least = roles if form is GangForm.LITERAL else [replace(r, replicas=r.minimum) for r in roles]

    def blocked(count: int) -> bool:
        return capacity(_times(least, count), GangForm.LITERAL, pools).status != "Full"

    started = bisect.bisect_left(range(1, groups + 1), x=True, key=blocked)
    if started == 0:
        return replace(whole, running={r.name: 0 for r in roles}, status="Blocked", groups=0)
    minimum = capacity(_times(least, started), GangForm.LITERAL, pools)
    if form is GangForm.LITERAL:
        running, exact = {r.name: r.replicas * started for r in roles}, minimum.exact
    else:
        running, exact = _with_extras(roles, pools, started, certain=minimum.exact)
    return Capacity(
        gpus=whole.gpus,
        running=running,
        status="Full" if whole.status == "Full" and not exact else "Partial",
        exact=exact,
        groups=started,
    )


def _times(roles: Sequence[RoleDemand], groups: int) -> list[RoleDemand]:
    return [
        replace(role, replicas=role.replicas * groups, minimum=role.minimum * groups)
        for role in roles
    ]


def _with_extras(
    roles: Sequence[RoleDemand], pools: Sequence[NodePool], started: int, *, certain: bool
) -> tuple[dict[str, int], bool]:
    """Return the replicas of each role with this many groups started, and if it is exact."""
    if started == 1 and certain:
        one = capacity(roles, GangForm.SUBGROUP, pools)
        return dict(one.running), one.exact
    most = {role.name: 0 for role in roles}
    sure = certain
    # With fewer groups more of one role may fit. With pods of one size, every group that fits
    # starts.
    for count in [started] if certain else range(1, started + 1):
        for role in roles:
            alone = [r if r is role else replace(r, replicas=r.minimum) for r in roles]
            result = capacity(_times(alone, count), GangForm.SUBGROUP, pools)
            most[role.name] = max(most[role.name], result.running[role.name])
            sure = sure and result.exact
    if certain and not sure:
        return _with_extras(roles, pools, started, certain=False)
    growing = [r for r in roles if most[r.name] > r.minimum * started and any(r.pod_sizes)]
    return most, sure and len(growing) <= 1
