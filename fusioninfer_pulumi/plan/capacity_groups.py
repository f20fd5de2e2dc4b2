"""How much of several serving groups runs with so many accelerators free.

Every group is a gang of its own, and all of them have one shape. Volcano takes gangs that are not
ready before those that are (``plugins/gang/gang.go``, job order), so as many groups as fit get
their minimum before any of them gets a further replica. Which groups these are depends on when
they were created and on their UIDs, how many does not. Which group's further replicas come next
depends on the plugins that the cluster's scheduler has (``drf`` lets gangs take turns, without it
one takes all it can), so where roles compete for what is left, the numbers are bounds.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace

from fusioninfer_pulumi.plan.capacity import Capacity, GangForm, NodePool, RoleDemand, capacity


def group_capacity(
    roles: Sequence[RoleDemand], form: GangForm, pools: Sequence[NodePool], groups: int
) -> Capacity:
    """Says how many replicas of each role run over all groups.

    Args:
        roles: What the roles of one group ask for.
        form: The gang that each group forms.
        pools: The nodes that are free.
        groups: How many groups are wanted.

    Returns:
        Exact where all accelerator-asking pods have one size and roles do not compete for what the
        groups' minima leave; otherwise an upper bound for each role.
    """
    if groups == 1 and form is not GangForm.NONE:
        one = capacity(roles, form, pools)
        return replace(one, groups=int(one.status != "Blocked"))
    whole = capacity(_times(roles, groups), GangForm.LITERAL, pools)
    if form is GangForm.NONE:
        return capacity(_times(roles, groups), form, pools)
    if whole.status == "Full" and whole.exact:
        return replace(whole, groups=groups)
    least = roles if form is GangForm.LITERAL else [replace(r, replicas=r.minimum) for r in roles]
    started = _fitting(least, pools, groups)
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


def _fitting(roles: Sequence[RoleDemand], pools: Sequence[NodePool], groups: int) -> int:
    """The most groups that no bound rules out."""

    def blocked(count: int) -> bool:
        found = capacity(_times(roles, count), GangForm.LITERAL, pools)
        return found.status != "Full"

    return bisect.bisect_left(range(1, groups + 1), x=True, key=blocked)


def _with_extras(
    roles: Sequence[RoleDemand], pools: Sequence[NodePool], started: int, *, certain: bool
) -> tuple[dict[str, int], bool]:
    """Replicas of each role where so many groups have their minimum, and whether that is sure."""
    if started == 1 and certain:
        one = capacity(roles, GangForm.SUBGROUP, pools)
        return dict(one.running), one.exact
    most = {role.name: 0 for role in roles}
    sure = certain
    # With fewer groups more of one role may fit; with pods of one size none stays out that fits.
    for count in [started] if certain else range(1, started + 1):
        for role in roles:
            alone = [
                each if each is role else replace(each, replicas=each.minimum) for each in roles
            ]
            found = capacity(_times(alone, count), GangForm.SUBGROUP, pools)
            most[role.name] = max(most[role.name], found.running[role.name])
            sure = sure and found.exact
    if certain and not sure:
        return _with_extras(roles, pools, started, certain=False)
    growing = [r for r in roles if most[r.name] > r.minimum * started and any(r.pod_sizes)]
    return most, sure and len(growing) <= 1
