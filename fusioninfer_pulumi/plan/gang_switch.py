"""Whether an update can bring running replicas into a gang, or give those of one more nodes.

The scheduler places a pod of a gang only when all pods that the PodGroup asks for exist. A replica
that runs counts as it is now: with the gang's annotation, and with as many pods as it has. Where
replicas change one after the other, the first one may so wait for those that come after it, and
they wait for it. Below a partition a replica never becomes what the PodGroup asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.plan.records import GangPlan, RolePlan, ServicePlan, SetPlan
from fusioninfer_pulumi.plan.rollout import rollout_plan
from fusioninfer_pulumi.plan.rollout_steps import SetStep, field_path
from fusioninfer_pulumi.spec.rollout import RolloutStrategy

#: Sets that a message names; the others are counted.
_NAMED = 3


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
class _Member:
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
        if self.gang.sub_groups is None:
            return self.role.group_replicas
        return next((e.minimum for e in self.gang.sub_groups if e.role == self.role.name), 0)

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
class _End:
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


def gang_findings(plan: ServicePlan, running: Running, workers: int | None = None) -> list[Finding]:
    """Finds what would wait for ever for a gang to become complete.

    Args:
        plan: The service as it is to be.
        running: Its sets that there are.
        workers: Operations that the engine runs at a time, None where nobody knows.

    Returns:
        One finding for each role whose partition keeps replicas back that the gang needs, and one
        for each role whose replicas cannot change one after the other.
    """
    update = _Update(plan, running, workers)
    if not update.joins():
        return []
    held = list(update.held_back())
    return [*held, *update.one_after_the_other(hold=not held)]


class _Update:
    def __init__(self, plan: ServicePlan, running: Running, workers: int | None) -> None:
        gangs = {gang.group: gang for gang in plan.gangs}
        self._running = running
        self._steps = rollout_plan(plan, workers, running).steps if gangs else ()
        self._members = {
            each.name: _Member(role, each, gangs[each.group])
            for role in plan.roles
            for each in role.sets
            if gangs
        }
        self._needed = {member.share: member.needed for member in self._members.values()}
        self._roles = {role.name: role for role in plan.roles}

    def joins(self) -> bool:
        """Whether a set that runs is not what its gang asks for."""
        known = self._members.keys() & self._running.keys()
        return any(not self._members[name].counts(self._running[name]) for name in known)

    def held_back(self) -> Iterator[Finding]:
        """Replicas below a partition, which never become what their gang asks for."""
        end = self._ends(self._roles, hold=True)
        for role, names in self._missing(end, [step.name for step in self._steps]).items():
            told = _named(names)
            yield error(
                field_path(self._roles[role], "partition"),
                f"holds back replicas that the gang counts on: {told} would not join it, or keep "
                "fewer pods than its PodGroup asks for, so no replica that restarts would be "
                "placed; leave the partition out for this update (docs/rollout.md)",
            )

    def one_after_the_other(self, *, hold: bool) -> Iterator[Finding]:
        """Roles whose first replica waits for those behind it.

        Args:
            hold: Whether partitions hold replicas back; else as if they did not.
        """
        at_once: set[str] = set()
        while True:
            end = self._ends(at_once, hold=hold)
            late = self._missing(end, self._late(end, at_once))
            blocking = self._blocking(end, late, at_once)
            if not blocking:
                return
            names = [name for each in late.values() for name in each]
            for role in blocking:
                yield self._endless(role, names)
            at_once.update(blocking)

    def _endless(self, role: str, names: Sequence[str]) -> Finding:
        (gang, *_) = {self._members[name].gang.pod_group: None for name in names}
        whole = self._roles[role].sets[0].ordinal is None
        strategy = next(e.rollout.strategy.value for e in self._steps if e.role == role)
        ways = "Recreate" if whole else "AllAtOnce or Recreate"
        return error(
            field_path(self._roles[role], "strategy"),
            f"with {strategy} this update would wait for ever: what restarts of {role} is placed "
            f"only when all pods of gang {gang} exist, and {_named(names)} would join it, or get "
            f"more nodes, only after that; take {ways} for this update where a pause is "
            "acceptable, rename the role in the same update to go on serving, or let the gang "
            "need fewer replicas (schedulingStrategy.gangPolicy.minRoleReplicas, docs/rollout.md)",
        )

    def _ends(self, at_once: Collection[str], *, hold: bool) -> _End:
        """Follows the update as far as it comes.

        Args:
            at_once: Roles of which nothing waits.
            hold: Whether partitions hold replicas back.
        """
        end = _End()
        for name, found in self._running.items():
            member = self._members.get(name)
            if member is not None and member.counts(found):
                self._count(end, name, found.replicas if found else len(member.planned.replicas))
        moved = True
        while moved:
            moved = False
            for step in self._steps:
                if step.name in end.done:
                    continue
                if step.name not in end.begun:
                    if any(name not in end.done for name in step.after):
                        continue
                    end.begun.add(step.name)
                    self._count(end, step.name, self._counted(step, end, at_once, hold=hold))
                    moved = True
                gang = self._members[step.name].gang.pod_group
                if self._waits(step, at_once, hold=hold) and not self._complete(gang, end):
                    continue
                end.done.add(step.name)
                moved = True
        return end

    def _count(self, end: _End, name: str, replicas: int) -> None:
        member = self._members[name]
        if member.stands_in:
            before = end.counted.get(name, 0)
            end.have[member.share] = end.have.get(member.share, 0) + replicas - before
        end.counted[name] = replicas

    def _counted(self, step: SetStep, end: _End, at_once: Collection[str], *, hold: bool) -> int:
        """Replicas of a set that its gang counts when its change has begun."""
        member, found = self._members[step.name], self._running.get(step.name)
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
        # LeaderWorkerSet makes new replicas first, and waits for them. Else it restarts one.
        more = step.rollout.max_surge + max(0, count - found.replicas)
        return min(more or 1, count - kept + step.rollout.max_surge)

    def _waits(self, step: SetStep, at_once: Collection[str], *, hold: bool) -> bool:
        found = self._running.get(step.name)
        if found is None or not found.changes or (step.frozen and hold) or step.role in at_once:
            return False
        return step.paced and step.rollout.strategy is RolloutStrategy.ROLLING

    def _complete(self, gang: str, end: _End) -> bool:
        shares = self._needed.items()
        return all(end.have.get(share, 0) >= need for share, need in shares if share[0] == gang)

    def _missing(self, end: _End, names: Collection[str]) -> dict[str, list[str]]:
        """Those of the sets that a gang lacks, by their roles."""
        found: dict[str, list[str]] = {}
        for name in names:
            member = self._members[name]
            short = end.have.get(member.share, 0) < self._needed[member.share]
            if short and member.stands_in and (member.whole or not end.counted.get(name)):
                found.setdefault(member.role.name, []).append(name)
        return found

    def _late(self, end: _End, at_once: Collection[str]) -> list[str]:
        """Sets whose turn never comes, or of which LeaderWorkerSet holds replicas back."""
        return [
            step.name
            for step in self._steps
            if step.name not in end.begun or (step.whole and step.role not in at_once)
        ]

    def _blocking(
        self, end: _End, late: Mapping[str, Sequence[str]], at_once: Collection[str]
    ) -> list[str]:
        """Roles that what never comes waits for."""
        found = {
            self._members[name].role.name
            for step in self._steps
            if step.name not in end.begun
            for name in step.after
            if name in end.begun - end.done
        }
        found |= {step.role for step in self._steps if step.whole and step.role in late}
        return [role for role in self._roles if late and role in found and role not in at_once]


def _named(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{listed} and {more} more" if more > 0 else listed
