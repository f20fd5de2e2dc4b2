"""Rejects updates that never end because running replicas join a gang or get more nodes in it.

The scheduler places a pod of a gang only if all pods that the PodGroup asks for exist. A running
replica counts as it is: with its gang annotation and its number of pods. So the first replica that
changes may wait for later ones, while those wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.findings import Finding, Rule, error, listed
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import LwsStep, next_lws, update_order
from fusioninfer_pulumi.topology.gang import GangPlan, gang_minima
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

GANG_UPDATE_HELD_BACK = Rule("gang-update-held-back")
GANG_UPDATE_NEVER_ENDS = Rule("gang-update-never-ends")


@dataclass(frozen=True)
class RunningLws:
    """A LeaderWorkerSet before the update.

    Attributes:
        gang: PodGroup that its pods name, empty for none.
        nodes: Pods in one replica.
        replicas: Its replicas.
        changes: Whether the update changes its pods in place.
    """

    gang: str
    nodes: int
    replicas: int
    changes: bool


#: The existing LeaderWorkerSets of a service by name. None if its state is unknown, or if it is
#: replaced: it then counts as planned.
Running = Mapping[str, RunningLws | None]


@dataclass(frozen=True)
class _Member:
    """A LeaderWorkerSet of a gang: the planned and the running one."""

    step: LwsStep
    role: RolePlan
    planned: LwsPlan
    gang: GangPlan
    running: RunningLws | None

    @cached_property
    def needed(self) -> int:
        """Replicas of the role that the gang needs."""
        minima = gang_minima(self.gang)
        return self.role.group_replicas if minima is None else minima.get(self.role.name, 0)

    @cached_property
    def counts_for_minimum(self) -> bool:
        """Whether its replicas count for the minimum of its role."""
        if self.planned.ordinal is None:
            return True
        lowest = self.gang.sub_groups is None or any(
            group.lowest for group in self.gang.sub_groups if group.role == self.role.name
        )
        return not lowest or self.planned.ordinal < self.needed

    @cached_property
    def joins(self) -> bool:
        """Whether the running replicas have another gang or fewer nodes than planned."""
        if self.running is None:
            return False
        ours = self.running.gang == self.gang.reference and self.running.nodes >= self.role.nodes
        return not ours

    @cached_property
    def excluded(self) -> int:
        """Replicas that a partition excludes from the gang."""
        count, rollout = len(self.planned.replicas), self.step.rollout
        if not self.joins or (self.step.whole and rollout.strategy is RolloutStrategy.RECREATE):
            return 0
        return count if self.step.frozen else min(rollout.partition, count) * self.step.whole

    def waits(self, at_once: Collection[str]) -> bool:
        """Whether its change waits until the gang is complete."""
        if self.running is None or not self.running.changes or self.step.role in at_once:
            return False
        strategy = self.step.rollout.strategy
        in_parts = self.step.whole and strategy is not RolloutStrategy.RECREATE
        return self.step.blocks_others or (self.step.required and in_parts)

    def first(self, at_once: Collection[str]) -> int:
        """Replicas that change before it waits."""
        count = len(self.planned.replicas)
        if not self.joins or not self.step.whole or not self.waits(at_once):
            return count
        assert self.running is not None
        # LeaderWorkerSet creates new replicas first and waits for them; otherwise it restarts one.
        # A surge by all replicas leaves one out.
        surge = min(self.step.rollout.max_surge, count - 1)
        return min(max(1, surge + max(0, count - self.running.replicas)), count - self.excluded)


def check_gang_joins(plan: ServicePlan, running: Running) -> list[Finding]:
    """Return an error for each role that would prevent a gang from becoming complete.

    Either its partition keeps replicas that the gang needs, or its replicas cannot change one
    after the other.
    """
    gangs = {gang.group: gang for gang in plan.gangs}
    planned = {lws.name: (role, lws) for role in plan.roles for lws in role.lws}
    members = [
        _Member(step, role, lws, gangs[lws.group], running.get(step.name))
        for step in update_order(plan)
        for role, lws in [planned[step.name]]
        if gangs
    ]
    if not any(member.joins for member in members):
        return []
    findings = list(_check_partitions(members))
    if not findings:
        # LeaderWorkerSets that keep their template do not take part.
        members = [member for member in members if not (member.joins and member.step.frozen)]
    return [*findings, *_check_order(members)]


def _check_partitions(members: Sequence[_Member]) -> Iterator[Finding]:
    all_joined = {
        member.step.name: len(member.planned.replicas) - member.excluded for member in members
    }
    roles: dict[str, list[_Member]] = {}
    for member in _missing(members, all_joined):
        if member.excluded:
            roles.setdefault(member.role.name, []).append(member)
    for joining in roles.values():
        yield error(
            GANG_UPDATE_HELD_BACK,
            joining[0].role.locate_rollout_field("partition"),
            f"excludes replicas that the gang needs: {_named(joining)}; remove the partition for "
            "this update (docs/rollout.md)",
        )


def _check_order(members: Sequence[_Member]) -> Iterator[Finding]:
    """Yield an error for each role whose first replicas wait for those that change after them.

    Each round assumes that the roles of earlier findings change all at once.
    """
    at_once: set[str] = set()
    while True:
        stuck, joining = _simulate(members, at_once)
        if not stuck:
            return
        for role in dict.fromkeys(member.role.name for member in stuck):
            yield _deadlock(next(member for member in stuck if member.role.name == role), joining)
            at_once.add(role)


def _simulate(
    members: Sequence[_Member], at_once: Collection[str]
) -> tuple[list[_Member], list[_Member]]:
    """Return members that wait for their gang forever, and members that would join it later."""
    steps = [member.step for member in members]
    by_name = {member.step.name: member for member in members}
    waiting = {name for name, member in by_name.items() if member.running is not None}
    joined = {m.step.name: 0 if m.joins else len(m.planned.replicas) for m in members}
    changing: set[str] = set()
    while begun := next_lws(steps, waiting, changing, ()):
        waiting.difference_update(begun)
        joined.update({name: by_name[name].first(at_once) for name in begun})
        changing.update(name for name in begun if by_name[name].waits(at_once))
        short = {member.gang.pod_group for member in _missing(members, joined)}
        changing = {name for name in changing if by_name[name].gang.pod_group in short}
    stuck = [by_name[step.name] for step in steps if step.name in changing]
    joining = [member for member in _missing(members, joined) if member.joins]
    roles, last = (
        {member.role.name for member in joining},
        max((e.step.stage for e in joining), default=0),
    )
    # The other members only wait for these.
    blocking = [member for member in stuck if member.role.name in roles or member.step.stage < last]
    return blocking or stuck, joining


def _missing(members: Sequence[_Member], joined: Mapping[str, int]) -> list[_Member]:
    """Return members that have not joined a gang with too few replicas of their role."""
    have: dict[tuple[str, str], int] = {}
    for member in members:
        if member.counts_for_minimum:
            share = member.gang.pod_group, member.role.name
            have[share] = have.get(share, 0) + joined[member.step.name]
    return [
        member
        for member in members
        if member.counts_for_minimum
        and have[member.gang.pod_group, member.role.name] < member.needed
        and joined[member.step.name] < len(member.planned.replicas)
    ]


def _deadlock(member: _Member, joining: Sequence[_Member]) -> Finding:
    ways = "Recreate" if member.step.whole else "AllAtOnce or Recreate"
    return error(
        GANG_UPDATE_NEVER_ENDS,
        member.role.locate_rollout_field("strategy"),
        f"{member.step.rollout.strategy.value} would never end: {member.role.name} restarts only "
        f"when gang {member.gang.pod_group} is complete, and {_named(joining)} would join it "
        f"later. Use {ways} for this update, or rename the role (docs/rollout.md)",
    )


def _named(members: Sequence[_Member]) -> str:
    return listed([member.step.name for member in members])
