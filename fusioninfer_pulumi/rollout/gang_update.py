"""How far an update comes while running replicas become part of a gang, or get more nodes in one.

The scheduler places a pod of a gang only when all pods that the PodGroup asks for exist. A replica
that runs counts as it is now: with the gang's annotation, and with as many pods as it has. So the
first replica that changes may wait for those that come after it, while they wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.rollout.order import rollout_plan
from fusioninfer_pulumi.rollout.steps import SetStep
from fusioninfer_pulumi.topology.gang import GangPlan, minima_of
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class RunningSet:
    """What a LeaderWorkerSet runs before an update.

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


#: By name: the sets of a service that there are already. None where nothing is known of one, or
#: where it is made anew; both are taken for what the gang asks for.
Running = Mapping[str, RunningSet | None]


@dataclass(frozen=True)
class Member:
    """A set of the plan, with its role and its gang."""

    role: RolePlan
    planned: SetPlan
    gang: GangPlan

    @property
    def share(self) -> tuple[str, str]:
        """Its gang and its role."""
        return self.gang.pod_group, self.role.name

    @property
    def whole(self) -> bool:
        """Whether it runs all replicas of its role."""
        return self.planned.ordinal is None

    @property
    def needed(self) -> int:
        """Replicas of the role that the gang asks for."""
        minima = minima_of(self.gang)
        return self.role.group_replicas if minima is None else minima.get(self.role.name, 0)

    @property
    def stands_in(self) -> bool:
        """Whether its replicas count for the minimum of its role."""
        if self.planned.ordinal is None:
            return True
        lowest = self.gang.sub_groups is None or any(
            each.lowest for each in self.gang.sub_groups if each.role == self.role.name
        )
        return not lowest or self.planned.ordinal < self.needed

    def counts(self, running: RunningSet | None) -> bool:
        """Whether replicas that run are such as the gang asks for."""
        if running is None:
            return True
        return running.gang == self.gang.pod_group and running.nodes >= self.role.nodes


@dataclass
class End:
    """How far an update comes.

    Attributes:
        begun: Sets whose change has begun, or that are made.
        done: Those that nothing waits for any more.
        counted: Replicas of each set that its gang counts.
        have: The same of each gang and role, as far as they count for its minimum.
    """

    begun: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    counted: dict[str, int] = field(default_factory=dict)
    have: dict[tuple[str, str], int] = field(default_factory=dict)


class GangUpdate:
    """An update of a service that has a gang, followed through its graph."""

    def __init__(self, plan: Topology, running: Running, workers: int | None) -> None:
        """Follows nothing yet.

        Args:
            plan: The service as it is to be.
            running: Its sets that there are.
            workers: Operations that the engine runs at a time, None where nobody knows.
        """
        gangs = {gang.group: gang for gang in plan.gangs}
        self._plan, self._running, self._workers = plan, running, workers
        self.members = {
            each.name: Member(role, each, gangs[each.group])
            for role in plan.roles
            for each in role.sets
            if gangs
        }
        self._needed = {member.share: member.needed for member in self.members.values()}
        self.roles = {role.name: role for role in plan.roles}

    @cached_property
    def steps(self) -> tuple[SetStep, ...]:
        """The sets, each after all that it depends on."""
        return rollout_plan(self._plan, self._workers, self._running).steps

    def joins(self) -> bool:
        """Whether a set that runs is not what its gang asks for."""
        known = self.members.keys() & self._running.keys()
        return any(not self.members[name].counts(self._running[name]) for name in known)

    def ends(self, at_once: Collection[str], *, hold: bool) -> End:
        """Follows the update as far as it comes.

        Args:
            at_once: Roles of which nothing waits.
            hold: Whether partitions hold replicas back; else as if they did not.

        Returns:
            Where it stands when nothing goes on.
        """
        end = End()
        for name, found in self._running.items():
            member = self.members.get(name)
            if member is not None and member.counts(found):
                self._count(end, name, found.replicas if found else len(member.planned.replicas))
        moved = True
        while moved:
            moved = False
            for step in self.steps:
                if step.name in end.done:
                    continue
                if step.name not in end.begun:
                    if any(name not in end.done for name in step.after):
                        continue
                    end.begun.add(step.name)
                    self._count(end, step.name, self._counted(step, end, at_once, hold=hold))
                    moved = True
                gang = self.members[step.name].gang.pod_group
                if self._waits(step, at_once, hold=hold) and not self._complete(gang, end):
                    continue
                end.done.add(step.name)
                moved = True
        return end

    def _count(self, end: End, name: str, replicas: int) -> None:
        member = self.members[name]
        if member.stands_in:
            before = end.counted.get(name, 0)
            end.have[member.share] = end.have.get(member.share, 0) + replicas - before
        end.counted[name] = replicas

    def _counted(self, step: SetStep, end: End, at_once: Collection[str], *, hold: bool) -> int:
        """Replicas of a set that its gang counts when its change has begun."""
        member, found = self.members[step.name], self._running.get(step.name)
        count = len(member.planned.replicas)
        if found is None or member.counts(found):
            return count
        if step.frozen and hold:
            return end.counted.get(step.name, 0)
        if not step.whole:
            return count
        kept = min(step.rollout.partition, count) if hold else 0
        if step.role in at_once or step.rollout.strategy is RolloutStrategy.RECREATE:
            return count - kept
        # LeaderWorkerSet makes new replicas first, and waits for them; else it restarts one. Of as
        # many beside the others as there are, it leaves one out.
        beside = min(step.rollout.max_surge, count - 1)
        return min(beside + max(0, count - found.replicas) or 1, count - kept + beside)

    def _waits(self, step: SetStep, at_once: Collection[str], *, hold: bool) -> bool:
        found = self._running.get(step.name)
        if found is None or not found.changes or (step.frozen and hold) or step.role in at_once:
            return False
        return step.paced and step.rollout.strategy is RolloutStrategy.ROLLING

    def _complete(self, gang: str, end: End) -> bool:
        shares = self._needed.items()
        return all(end.have.get(share, 0) >= need for share, need in shares if share[0] == gang)

    def missing(self, end: End, names: Collection[str]) -> dict[str, list[str]]:
        """Those of the sets that a gang lacks, by their roles."""
        found: dict[str, list[str]] = {}
        for name in names:
            member = self.members[name]
            short = end.have.get(member.share, 0) < self._needed[member.share]
            if short and member.stands_in and (member.whole or not end.counted.get(name)):
                found.setdefault(member.role.name, []).append(name)
        return found

    def late(self, end: End, at_once: Collection[str]) -> list[str]:
        """Sets whose turn never comes, or of which LeaderWorkerSet holds replicas back."""
        return [
            step.name
            for step in self.steps
            if step.name not in end.begun or (step.whole and step.role not in at_once)
        ]

    def blocking(
        self, end: End, late: Mapping[str, Sequence[str]], at_once: Collection[str]
    ) -> list[str]:
        """Roles that what never comes waits for."""
        waiting = end.begun - end.done
        found = {
            self.members[name].role.name
            for step in self.steps
            if step.name not in end.begun
            for name in step.after
            if name in waiting
        }
        found |= {step.role for step in self.steps if step.whole and step.role in late}
        return [role for role in self.roles if late and role in found and role not in at_once]
