"""Computes how many replicas of each role run on a number of available accelerators.

It models what Volcano v1.14.1 has bound after several scheduling cycles, for one service alone in
its queue. Only accelerators count; CPU, memory, affinity and taints are ignored. The scheduler's
rules, with lines under ``pkg/scheduler`` of that version:

* A replica is a subgroup. It is placed as a whole or not at all: if one pod finds no node, the
  statement is discarded (``actions/allocate/allocate.go:628-632,658-670``,
  ``api/job_info.go:926-930``). With ``GangScope.ALL_PODS`` all pods are one subgroup (``:923``).
* The subgroups of the minimum come first: the first ``minSubGroups`` of each role
  (``allocate.go:226-244``). Nothing is bound before all of these subgroups have a place
  (``allocate.go:309,396``, ``plugins/gang/gang.go:177-183``); then they are committed together
  (``allocate.go:384-386``).
* After the minimum each commit adds one more subgroup, ordered by pod priority (equal in one
  service), then the replica index, then the subgroup's UID, whose text ends in
  ``{role}-{index}`` (``framework/session_plugins.go:635-658``, ``api/sub_job_info.go:202-214``).
  So replica 1 of every role precedes replica 2 of any role; replicas with the same index are
  ordered by role name.
* A subgroup that does not fit is skipped in this cycle, and the next subgroup is tried, even a
  smaller one of another role (``allocate.go:370-388``). Later cycles try it again, without success
  unless accelerators are released (``buildAllocateContext``, ``allocate.go:149-192``).
* Pods without a subgroup (``job_info.go:1239-1253``) are not modeled, because the library generates
  a policy for every role.

If Kueue admits replicas (source and tests: v0.15.2), each replica is a workload. It is admitted as
a whole if the quota of its queue covers it, and skipped otherwise (``BestEffortFIFO``). Workloads
created in the same second have no order. Kueue considers quota, not nodes. So the model uses the
pools' accelerators as the quota. It is exact only if the bounds fit together, and either all
replicas run or each node's accelerators are a multiple of every pod's size.

The model assumes that all pods exist before the first one is bound. If roles compete for the last
accelerators while their pods are still being created, the oldest pods get them.
"""

from __future__ import annotations

import bisect
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class GangScope(enum.Enum):
    """Pods of a service that are scheduled together or not at all."""

    NONE = "none"
    """No PodGroup: every pod is scheduled by itself."""
    REPLICA = "replica"
    """No PodGroup: Kueue admits every replica by itself, as a whole."""
    ALL_PODS = "all-pods"
    """``minMember`` is the number of all pods: all run or none."""
    SUBGROUP = "subgroup"
    """A ``subGroupPolicy`` for each role, with its name; every replica is a subgroup."""


@dataclass(frozen=True)
class RoleDemand:
    """The replicas of one role and their accelerators."""

    name: str  #: the role, which is also the name of its subgroup policy
    replicas: int  #: desired replicas; 0 for a role scaled to zero
    pod_sizes: tuple[int, ...]  #: accelerators of each pod of a replica, the leader first
    #: Replicas that the gang needs, at most `replicas`; used only by ``GangScope.SUBGROUP``.
    minimum: int


class NodePool(NamedTuple):
    """Nodes of one size, with all accelerators available."""

    nodes: int
    accelerators: int


@dataclass(frozen=True)
class Capacity:
    """The replicas that run on some node pools.

    Attributes:
        gpus: All accelerators of the pools.
        running: Replicas of each role whose pods are all bound.
        status: ``Full``, ``Partial`` or ``Blocked`` (nothing runs).
        exact: Whether exactly these replicas run. If False, ``running`` has an upper bound for each
            role: its replicas if the other roles ran only the gang's minimum. Together the roles
            may run fewer replicas, so ``Full`` may be too optimistic.
        groups: Serving groups that run at least their minimum; None if the service has no serving
            groups or they are not gangs.
    """

    gpus: int
    running: Mapping[str, int]
    status: str
    exact: bool
    groups: int | None = None


def compute_gang_capacity(
    roles: Sequence[RoleDemand], scope: GangScope, pools: Sequence[NodePool]
) -> Capacity:
    """Compute how many replicas of each role run on the pools, in one gang or without a gang.

    The result is exact if all pods with accelerators form a gang and are interchangeable (they have
    one size, or each node holds as many pods of the largest size as of the smallest), or if it does
    not matter which nodes pods get. Otherwise it is an upper bound for each role.
    """
    demands = _apply_gang_scope(roles, scope)
    # Sizes are accelerators in `demands` and `pools`, and larger units in `normalized` and `nodes`.
    normalized, nodes = _normalize_sizes(demands, pools)
    has_unit_pods = all(size == 1 for role in normalized for size in role.pod_sizes)
    if scope is GangScope.REPLICA:
        running = _compute_upper_bounds(normalized, nodes)
        has_remainder = any(
            pool.accelerators % size for pool in pools for size in _get_pod_sizes(demands)
        )
        is_complete = all(running[role.name] == role.replicas for role in normalized)
        # The bounds must fit together in whatever order Kueue admits replicas. If pods differ in
        # size, admitted replicas may leave too little for waiting ones, as without a gang.
        comparable_scope = scope if has_unit_pods else GangScope.NONE
        exact = (is_complete or not has_remainder) and _is_outcome_certain(
            normalized, running, nodes, comparable_scope
        )
    elif has_unit_pods and scope is not GangScope.NONE:
        available = sum(count * free for count, free in nodes)
        running, exact = _fill_in_order(normalized, available), True
    else:
        running = _compute_upper_bounds(normalized, nodes)
        exact = _is_outcome_certain(normalized, running, nodes, scope)
    return Capacity(
        gpus=sum(pool.nodes * pool.accelerators for pool in pools),
        running=running,
        status=_get_status(normalized, running, nodes),
        exact=exact,
    )


def build_pools(gpus: int, largest_pod: int) -> tuple[NodePool, ...]:
    """Return node pools with `gpus` accelerators in total, in nodes as large as the largest pod.

    The remaining accelerators form a smaller node. `largest_pod` is 0 if no pod requests any.
    """
    full_nodes, remainder = divmod(gpus, largest_pod) if largest_pod > 0 else (0, gpus)
    pools = (NodePool(full_nodes, largest_pod), NodePool(1, remainder))
    return tuple(pool for pool in pools if pool.nodes > 0 and pool.accelerators > 0)


def _apply_gang_scope(roles: Sequence[RoleDemand], scope: GangScope) -> list[RoleDemand]:
    """Return the roles with the minimum of the scope, without pods that need no accelerators."""
    demands = []
    for role in roles:
        sizes = tuple(size for size in role.pod_sizes if size > 0) if role.replicas else ()
        minimum = role.minimum
        if scope in (GangScope.NONE, GangScope.REPLICA):
            minimum = 0
        elif scope is GangScope.ALL_PODS:
            minimum = role.replicas
        demands.append(replace(role, pod_sizes=sizes, minimum=minimum))
    return demands


def _get_pod_sizes(roles: Sequence[RoleDemand]) -> set[int]:
    return {size for role in roles for size in role.pod_sizes}


def _normalize_sizes(
    roles: list[RoleDemand], nodes: Sequence[NodePool]
) -> tuple[list[RoleDemand], Sequence[NodePool]]:
    """Return pod and node sizes in the largest unit that does not change the result.

    The unit is the greatest common divisor of the pod sizes: pods of 4 and 6 have sizes 2 and 3.
    But if every node holds as many of the largest pods as of the smallest, it holds that many of
    any mixture, so every pod has size 1.
    """
    sizes = _get_pod_sizes(roles)
    if not sizes:
        return roles, nodes
    if all(free // min(sizes) == free // max(sizes) for _, free in nodes):
        unit, scaled = max(sizes), dict.fromkeys(sizes, 1)
    else:
        unit = math.gcd(*sizes)
        scaled = {size: size // unit for size in sizes}
    normalized = [
        replace(role, pod_sizes=tuple(scaled[size] for size in role.pod_sizes)) for role in roles
    ]
    return normalized, [NodePool(count, free // unit) for count, free in nodes]


def _fill_in_order(roles: list[RoleDemand], free: int) -> dict[str, int]:
    """Return how many replicas of each role run if all pods have size 1.

    The minimum starts first, then the other replicas in the order of index and `{role}-{index}`.
    """
    free -= sum(role.minimum * len(role.pod_sizes) for role in roles)
    if free < 0:
        return {role.name: 0 for role in roles}
    # First assume that all replicas run, then reduce roles whose next replica does not fit.
    running = {role.name: role.replicas for role in roles}

    def count_optional_pods(index: int) -> int:
        """Return the pods of replicas beyond the minimum whose index is below this one."""
        pods = 0
        for role in roles:
            optional_replicas = max(0, min(index, running[role.name]) - role.minimum)
            pods += optional_replicas * len(role.pod_sizes)
        return pods

    last = max(running.values(), default=0)
    while count_optional_pods(last) > free:
        # The replicas below this index fit; those with this index do not all fit.
        index = bisect.bisect_right(range(last), free, key=count_optional_pods) - 1
        left = free - count_optional_pods(index)
        for role in sorted(roles, key=lambda role: f"{role.name}-{index}"):
            if role.minimum <= index < running[role.name]:
                if len(role.pod_sizes) <= left:
                    left -= len(role.pod_sizes)
                else:
                    # Free accelerators only decrease, so no later replica of the role fits either.
                    running[role.name] = index
    return running


def _compute_upper_bounds(roles: list[RoleDemand], nodes: Sequence[NodePool]) -> dict[str, int]:
    """Return the maximum replicas of each role if the other roles run only their minimum.

    For each size, consider the pods of at least this size. Nodes limit their number (by the places
    of this size) and their accelerators (by the accelerators of nodes with at least one place).
    """
    bounds = {role.name: role.replicas for role in roles}
    for size in sorted(_get_pod_sizes(roles)):
        large_pods = {role.name: [pod for pod in role.pod_sizes if pod >= size] for role in roles}
        places = sum(count * (free // size) for count, free in nodes)
        usable = sum(count * free for count, free in nodes if free >= size)
        # A replica uses one place for each of these pods, and the sum of their accelerators.
        for available, measure_load in ((places, len), (usable, sum)):
            loads = {name: measure_load(pods) for name, pods in large_pods.items()}
            spare = available - sum(role.minimum * loads[role.name] for role in roles)
            if spare < 0:
                return dict.fromkeys(bounds, 0)
            for role in roles:
                load = loads[role.name]
                if load:
                    bounds[role.name] = min(bounds[role.name], role.minimum + spare // load)
    return bounds


def _is_outcome_certain(
    roles: list[RoleDemand], running: Mapping[str, int], nodes: Sequence[NodePool], scope: GangScope
) -> bool:
    """Return whether all roles reach their bounds, wherever the scheduler puts pods.

    A pod finds no node only if every node that could hold it has too few free accelerators. That
    cannot happen if the other pods are too few to fill these nodes.
    """
    if scope is GangScope.NONE:
        has_incomplete = any(
            len(role.pod_sizes) > 1 and running[role.name] < role.replicas for role in roles
        )
        # Without a gang, pods of incomplete replicas occupy accelerators that others need.
        if has_incomplete and any(running[role.name] for role in roles if role.pod_sizes):
            return False
    total = sum(running[role.name] * sum(role.pod_sizes) for role in roles)
    for role in roles:
        if role.pod_sizes and running[role.name]:
            # A node that is too small for the largest pod of a replica may be excluded for its
            # smaller pods too, because the scheduler caches unsuitable nodes by task name
            # (util/predicate_helper.go).
            largest = max(role.pod_sizes)
            blocking_load = sum(count * max(0, free - largest + 1) for count, free in nodes)
            if total - min(role.pod_sizes) >= blocking_load:
                return False
    return True


def _get_status(
    roles: list[RoleDemand], running: Mapping[str, int], nodes: Sequence[NodePool]
) -> str:
    if not all(running[role.name] == role.replicas for role in roles):
        return "Partial" if any(running.values()) else "Blocked"
    # The bound of each role assumes the minimum of the other roles; all replicas may not fit.
    whole_service = [replace(role, minimum=role.replicas) for role in roles]
    return "Full" if _compute_upper_bounds(whole_service, nodes) == running else "Partial"


def compute_group_capacity(
    roles: Sequence[RoleDemand], scope: GangScope, pools: Sequence[NodePool], groups: int | None
) -> Capacity:
    """Return how many replicas of each role run in all serving groups.

    `roles` are the roles of one group. If `groups` is None, the service has no serving groups.

    With groups, the result is exact if everything certainly fits, or if all pods with accelerators
    have one size and at most one role runs more than its minimum. Otherwise it is an upper bound
    for each role.
    """
    if groups is None or scope in (GangScope.REPLICA, GangScope.NONE):
        return compute_gang_capacity(_multiply_replicas(roles, groups or 1), scope, pools)
    all_groups = compute_gang_capacity(_multiply_replicas(roles, groups), GangScope.ALL_PODS, pools)
    if all_groups.status == "Full" and all_groups.exact:
        return replace(all_groups, groups=groups)
    minima = (
        roles if scope is GangScope.ALL_PODS else [replace(r, replicas=r.minimum) for r in roles]
    )

    def fit_minima(count: int) -> Capacity:
        return compute_gang_capacity(_multiply_replicas(minima, count), GangScope.ALL_PODS, pools)

    # The largest number of groups whose minima all fit.
    started = bisect.bisect_left(
        range(1, groups + 1), x=True, key=lambda count: fit_minima(count).status != "Full"
    )
    if started == 0:
        return replace(all_groups, running={r.name: 0 for r in roles}, status="Blocked", groups=0)
    minimum = fit_minima(started)
    if scope is GangScope.ALL_PODS:
        running, exact = {r.name: r.replicas * started for r in roles}, minimum.exact
    else:
        running, exact = _add_optional_replicas(roles, pools, started, is_certain=minimum.exact)
    # If the result is exact, some replicas do not run: exact full results are returned above.
    may_be_full = all_groups.status == "Full" and not exact
    return Capacity(
        gpus=all_groups.gpus,
        running=running,
        status="Full" if may_be_full else "Partial",
        exact=exact,
        groups=started,
    )


def _multiply_replicas(roles: Sequence[RoleDemand], groups: int) -> list[RoleDemand]:
    return [
        replace(role, replicas=role.replicas * groups, minimum=role.minimum * groups)
        for role in roles
    ]


def _add_optional_replicas(
    roles: Sequence[RoleDemand], pools: Sequence[NodePool], started: int, *, is_certain: bool
) -> tuple[dict[str, int], bool]:
    """Return the replicas of each role in the started groups, and whether the numbers are exact.

    `is_certain` is whether exactly `started` groups start, not fewer.
    """
    if started == 1 and is_certain:
        only_group = compute_gang_capacity(roles, GangScope.SUBGROUP, pools)
        return dict(only_group.running), only_group.exact
    bounds = {role.name: 0 for role in roles}
    is_exact = is_certain
    # If fewer groups start, more replicas of one role may fit.
    for count in [started] if is_certain else range(1, started + 1):
        for role in roles:
            demands = [r if r is role else replace(r, replicas=r.minimum) for r in roles]
            result = compute_gang_capacity(
                _multiply_replicas(demands, count), GangScope.SUBGROUP, pools
            )
            bounds[role.name] = max(bounds[role.name], result.running[role.name])
            is_exact = is_exact and result.exact
    if is_certain and not is_exact:
        return _add_optional_replicas(roles, pools, started, is_certain=False)
    above_minimum = [r for r in roles if bounds[r.name] > r.minimum * started and any(r.pod_sizes)]
    return bounds, is_exact and len(above_minimum) <= 1
