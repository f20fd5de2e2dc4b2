"""Simulates an update in which running replicas join a gang, or get more nodes in one.

The scheduler places a pod of a gang only if all pods that the PodGroup asks for exist. A running
replica counts as it is: with its gang annotation and its number of pods. So the first replica that
changes may wait for later ones, while those wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.rollout.order import rollout_plan
from fusioninfer_pulumi.rollout.steps import LwsStep
from fusioninfer_pulumi.topology.gang import GangPlan, minima_of
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.topology import Topology


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


#: The existing LeaderWorkerSets of a service by name. None if its state is unknown or if it is
#: replaced: then it counts as what the gang asks for.
Running = Mapping[str, RunningLws | None]


@dataclass(frozen=True)
class GangMember:
    """A LeaderWorkerSet of the plan, with its role and its gang."""

    role: RolePlan
    planned: LwsPlan
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
        """Replicas of the role that the gang needs."""
        minima = minima_of(self.gang)
        return self.role.group_replicas if minima is None else minima.get(self.role.name, 0)

    @property
    def counts_for_minimum(self) -> bool:
        """Whether its replicas count for the minimum of its role."""
        if self.planned.ordinal is None:
            return True
        lowest = self.gang.sub_groups is None or any(
            each.lowest for each in self.gang.sub_groups if each.role == self.role.name
        )
        return not lowest or self.planned.ordinal < self.needed

    def counts(self, running: RunningLws | None) -> bool:
        """Returns whether running replicas have the gang and the size that the plan asks for."""
        if running is None:
            return True
        return running.gang == self.gang.pod_group and running.nodes >= self.role.nodes


@dataclass
class Progress:
    """How far an update gets.

    Attributes:
        started: LeaderWorkerSets whose change has started, or that are created.
        done: Those that nothing waits for any more.
        counted: Replicas of each LeaderWorkerSet that its gang counts.
        have: Replicas of each gang and role that count for its minimum.
    """

    started: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    counted: dict[str, int] = field(default_factory=dict)
    have: dict[tuple[str, str], int] = field(default_factory=dict)


class GangUpdate:
    """The update of a service with a gang, simulated along its dependency graph."""

    def __init__(self, plan: Topology, running: Running, workers: int | None) -> None:
        """Prepares the simulation.

        Args:
            plan: The new plan of the service.
            running: Its existing LeaderWorkerSets.
            workers: Operations that Pulumi runs in parallel, None if unknown.
        """
        gangs = {gang.group: gang for gang in plan.gangs}
        self._plan, self._running, self._workers = plan, running, workers
        self.members = {
            each.name: GangMember(role, each, gangs[each.group])
            for role in plan.roles
            for each in role.lws
            if gangs
        }
        self._needed = {member.share: member.needed for member in self.members.values()}
        self.roles = {role.name: role for role in plan.roles}

    @cached_property
    def steps(self) -> tuple[LwsStep, ...]:
        """The LeaderWorkerSets, each after all that it depends on."""
        return rollout_plan(self._plan, self._workers, self._running).steps

    def joins(self) -> bool:
        """Returns whether a running LeaderWorkerSet differs from what its gang asks for."""
        known = self.members.keys() & self._running.keys()
        return any(not self.members[name].counts(self._running[name]) for name in known)

    def progress_of(self, at_once: Collection[str], *, hold: bool) -> Progress:
        """Returns how far the update gets.

        Args:
            at_once: Roles that do not wait for their replicas.
            hold: Whether partitions hold replicas back.
        """
        progress = Progress()
        for name, found in self._running.items():
            member = self.members.get(name)
            if member is not None and member.counts(found):
                self._count(
                    progress, name, found.replicas if found else len(member.planned.replicas)
                )
        moved = True
        while moved:
            moved = False
            for step in self.steps:
                if step.name in progress.done:
                    continue
                if step.name not in progress.started:
                    if any(name not in progress.done for name in step.after):
                        continue
                    progress.started.add(step.name)
                    self._count(
                        progress, step.name, self._counted(step, progress, at_once, hold=hold)
                    )
                    moved = True
                gang = self.members[step.name].gang.pod_group
                if self._waits(step, at_once, hold=hold) and not self._complete(gang, progress):
                    continue
                progress.done.add(step.name)
                moved = True
        return progress

    def _count(self, progress: Progress, name: str, replicas: int) -> None:
        member = self.members[name]
        if member.counts_for_minimum:
            before = progress.counted.get(name, 0)
            progress.have[member.share] = progress.have.get(member.share, 0) + replicas - before
        progress.counted[name] = replicas

    def _counted(
        self, step: LwsStep, progress: Progress, at_once: Collection[str], *, hold: bool
    ) -> int:
        """Returns the replicas that the gang counts once the change of a step has started."""
        member, found = self.members[step.name], self._running.get(step.name)
        count = len(member.planned.replicas)
        if found is None or member.counts(found):
            return count
        if step.frozen and hold:
            return progress.counted.get(step.name, 0)
        if not step.whole:
            return count
        kept = min(step.rollout.partition, count) if hold else 0
        if step.role in at_once or step.rollout.strategy is RolloutStrategy.RECREATE:
            return count - kept
        # LeaderWorkerSet creates new replicas first and waits for them; otherwise it restarts one.
        # If it surges by all replicas, it leaves one out.
        beside = min(step.rollout.max_surge, count - 1)
        return min(beside + max(0, count - found.replicas) or 1, count - kept + beside)

    def _waits(self, step: LwsStep, at_once: Collection[str], *, hold: bool) -> bool:
        found = self._running.get(step.name)
        if found is None or not found.changes or (step.frozen and hold) or step.role in at_once:
            return False
        return step.paced and step.rollout.strategy is RolloutStrategy.ROLLING

    def _complete(self, gang: str, progress: Progress) -> bool:
        shares = self._needed.items()
        return all(
            progress.have.get(share, 0) >= need for share, need in shares if share[0] == gang
        )

    def missing(self, progress: Progress, names: Collection[str]) -> dict[str, list[str]]:
        """Returns which of these LeaderWorkerSets a gang lacks, by role."""
        found: dict[str, list[str]] = {}
        for name in names:
            member = self.members[name]
            short = progress.have.get(member.share, 0) < self._needed[member.share]
            if (
                short
                and member.counts_for_minimum
                and (member.whole or not progress.counted.get(name))
            ):
                found.setdefault(member.role.name, []).append(name)
        return found

    def late(self, progress: Progress, at_once: Collection[str]) -> list[str]:
        """Returns LeaderWorkerSets that never start, or that hold replicas back themselves."""
        return [
            step.name
            for step in self.steps
            if step.name not in progress.started or (step.whole and step.role not in at_once)
        ]

    def blocking(
        self, progress: Progress, late: Mapping[str, Sequence[str]], at_once: Collection[str]
    ) -> list[str]:
        """Returns the roles that the late LeaderWorkerSets wait for."""
        waiting = progress.started - progress.done
        found = {
            self.members[name].role.name
            for step in self.steps
            if step.name not in progress.started
            for name in step.after
            if name in waiting
        }
        found |= {step.role for step in self.steps if step.whole and step.role in late}
        return [role for role in self.roles if late and role in found and role not in at_once]
