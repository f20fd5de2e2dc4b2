"""A simulation of an update: which replicas restart and serve, and the accelerators in use.

`simulate_update` runs the real state machine in a cluster where nothing fails and every
LeaderWorkerSet becomes available just before its timeout. The times are therefore upper bounds,
apart from Pulumi's own work and the time between polls. A faster update has the same batches in
each role, but roles that do not wait for each other overlap differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.state_machine import (
    Fail,
    LwsPhase,
    LwsSnapshot,
    LwsState,
    ObjectVersion,
    Observation,
    PollCompleted,
    Register,
    RegistrationsCompleted,
    UpdatePhase,
    UpdateStarted,
    UpdateState,
    advance,
)
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update


@dataclass(frozen=True)
class LwsSize:
    """Replicas of a LeaderWorkerSet, and accelerators per replica."""

    replicas: int = 0
    accelerators: int = 0

    @property
    def total(self) -> int:
        """Accelerators of all replicas."""
        return self.replicas * self.accelerators


@dataclass(frozen=True)
class LwsChange:
    """The change of a LeaderWorkerSet in an update.

    Attributes:
        before: Size before the update, or None if it is new.
        after: Size after the update.
        restarts: Whether its pods are replaced.
        is_recreated: Whether it is deleted and created again.
        changes_pair_revision: Whether its pods get a new pair revision.
    """

    before: LwsSize | None
    after: LwsSize
    restarts: bool = False
    is_recreated: bool = False
    changes_pair_revision: bool = False

    @property
    def starts_pods(self) -> bool:
        """Whether replicas restart, or the number of replicas grows."""
        return self.restarts or self.before is None or self.after.replicas > self.before.replicas


@dataclass(frozen=True)
class TimelineRow:
    """A service before the update, during one of its batches, or after it.

    Attributes:
        seconds: Latest time at which the row begins, in seconds since the start of the update.
        restarting: LeaderWorkerSets whose replicas restart.
        starting: LeaderWorkerSets with new replicas that are not available yet.
        serving: Replicas of each role that serve.
        accelerators: Accelerators in use.
    """

    seconds: float
    restarting: tuple[str, ...]
    starting: tuple[str, ...]
    serving: Mapping[str, int]
    accelerators: int


@dataclass(frozen=True)
class Timeline:
    """The slowest successful update of a service.

    Attributes:
        after: The service after the update; its `seconds` are the duration of the update.
        not_awaited: LeaderWorkerSets with new or restarted replicas for which the update does not
            wait. These replicas do not count as serving.
    """

    before: TimelineRow
    batches: tuple[TimelineRow, ...]
    after: TimelineRow
    not_awaited: tuple[str, ...]

    @property
    def rows(self) -> tuple[TimelineRow, ...]:
        """All rows in order."""
        return (self.before, *self.batches, self.after)

    @property
    def peak(self) -> int:
        """Maximum number of accelerators in use at a time."""
        return max(row.accelerators for row in self.rows)


def simulate_update(
    plan: ServicePlan, changes: Mapping[str, LwsChange], removed: Sequence[tuple[str, LwsSize]] = ()
) -> Timeline:
    """Simulate the slowest successful update of a service.

    Args:
        plan: The service after the update.
        changes: The changes of its LeaderWorkerSets, by name.
        removed: Role and size of each LeaderWorkerSet that Pulumi deletes after the update.
    """
    return _SimulatedCluster(plan, changes, removed).run()


@dataclass
class _SimulatedCluster:
    """A cluster in which each LeaderWorkerSet becomes available just before its timeout.

    Attributes:
        registered: Names of the LeaderWorkerSets that Pulumi has applied.
        available: Names of the available LeaderWorkerSets.
        has_started_pods: Whether any pods were started since `now` last changed.
    """

    plan: ServicePlan
    changes: Mapping[str, LwsChange]
    removed: Sequence[tuple[str, LwsSize]]
    registered: set[str] = field(default_factory=set)
    available: set[str] = field(default_factory=set)
    has_started_pods: bool = False
    now: float = 0.0

    def __post_init__(self) -> None:
        pair_changes = {
            name: change.changes_pair_revision
            for name, change in self.changes.items()
            if change.before is not None
        }
        self.steps = order_update(self.plan, pair_changes)
        self.available = set(pair_changes)  # all existing ones

    def run(self) -> Timeline:
        """Run the update to its end."""
        before, batches = self._build_row(), list[TimelineRow]()
        state = UpdateState(
            lws={lws_step.name: self._build_lws_state(lws_step) for lws_step in self.steps},
            wait_timeout=self.plan.wait.timeout,
            awaits_replicas=self.plan.wait.level.awaits_replicas,
            phase=UpdatePhase.RUNNING,
        )
        observation: Observation = UpdateStarted(self.now)
        while True:
            state, actions = advance(state, observation)
            assert not any(isinstance(action, Fail) for action in actions), "nothing fails"
            if state.is_over:
                break
            names = [n for action in actions if isinstance(action, Register) for n in action.names]
            if names:
                self.registered.update(names)
                starting = {name for name in names if self.changes[name].starts_pods}
                self.available -= starting
                self.has_started_pods = self.has_started_pods or bool(starting)
                versions = {name: self._get_version(name) for name in names}
                observation = RegistrationsCompleted(self.now, versions)
                continue
            awaited = state.find_in_phases(LwsPhase.CHANGING, LwsPhase.STARTING)
            # If one is available already, or a first poll is due, the poll takes no time.
            if not state.is_polling and not self.available.intersection(awaited):
                batches.append(self._build_row())
                self._pass_time(state, awaited)
            observation = PollCompleted(self.now, self._list_snapshots())
        if self.has_started_pods:
            batches.append(self._build_row())
        not_awaited = tuple(
            lws_step.name
            for lws_step in self.steps
            if self._is_changing(lws_step.name)
            or (lws_step.has_optional_replicas and self.changes[lws_step.name].starts_pods)
        )
        return Timeline(before, tuple(batches), self._build_row(is_over=True), not_awaited)

    def _pass_time(self, state: UpdateState, awaited: Sequence[str]) -> None:
        """Move to the next deadline, and make its LeaderWorkerSets available."""
        self.has_started_pods = False
        self.now = min(state.lws[name].deadline for name in awaited)
        self.available |= {name for name in awaited if state.lws[name].deadline <= self.now}

    def _build_lws_state(self, lws_step: LwsStep) -> LwsState:
        change = self.changes[lws_step.name]
        exists = change.before is not None
        return LwsState(
            lws_step,
            revision="after" if change.restarts or not exists else "before",
            version_before=self._get_version(lws_step.name) if exists else None,
            revision_before="before" if exists else "",
            can_skip_wait=not change.starts_pods,
            last_available_revision="before" if exists else None,
            existed_before=exists,
        )

    def _get_version(self, name: str) -> ObjectVersion:
        """Return a made-up UID and generation of a LeaderWorkerSet."""
        change = self.changes[name]
        if name not in self.registered:
            return "before", 1
        if change.before is None or change.is_recreated:
            return "after", 1
        generation = 2 if change.restarts or change.before != change.after else 1
        return "before", generation

    def _list_snapshots(self) -> dict[str, LwsSnapshot]:
        return {
            name: LwsSnapshot(self._get_version(name), name in self.available, "")
            for name, change in self.changes.items()
            if change.before is not None or name in self.registered
        }

    def _build_row(self, *, is_over: bool = False) -> TimelineRow:
        serving = Counter({role.name: 0 for role in self.plan.roles})
        accelerators = 0
        for lws_step in self.steps:
            serving[lws_step.role] += self._count_serving(lws_step)
            accelerators += self._count_accelerators(lws_step)
        for role, size in () if is_over else self.removed:
            serving[role] += size.replicas
            accelerators += size.total
        pending = [] if is_over else [s.name for s in self.steps if self._is_changing(s.name)]
        return TimelineRow(
            seconds=self.now,
            restarting=tuple(name for name in pending if self.changes[name].restarts),
            starting=tuple(name for name in pending if not self.changes[name].restarts),
            serving=dict(serving),
            accelerators=accelerators,
        )

    def _is_changing(self, name: str) -> bool:
        return name in self.registered and name not in self.available

    def _count_serving(self, lws_step: LwsStep) -> int:
        name, change = lws_step.name, self.changes[lws_step.name]
        before = change.before.replicas if change.before is not None else 0
        if name not in self.registered:
            return before
        if name in self.available and not (lws_step.has_optional_replicas and change.starts_pods):
            return change.after.replicas
        serving = min(before, change.after.replicas)
        if change.restarts:
            serving = _count_serving_during_restart(lws_step, change, serving)
        # If some replicas are optional, the update waits for one ready replica.
        return max(serving, 1) if name in self.available else serving

    def _count_accelerators(self, lws_step: LwsStep) -> int:
        name, change = lws_step.name, self.changes[lws_step.name]
        before, after = change.before or LwsSize(), change.after
        if name not in self.registered:
            return before.total
        has_surge = lws_step.is_per_role and change.restarts and not change.is_recreated
        surge = lws_step.rollout.max_surge * after.accelerators if has_surge else 0
        if name in self.available:
            # LeaderWorkerSet keeps the surge replicas while a partition keeps pods of the old spec.
            return after.total + (surge if lws_step.rollout.partition else 0)
        replicas = max(before.replicas, after.replicas)
        return replicas * max(before.accelerators, after.accelerators) + surge


def _count_serving_during_restart(lws_step: LwsStep, change: LwsChange, replicas: int) -> int:
    """Return how many replicas of a LeaderWorkerSet serve while others of it restart."""
    if change.is_recreated or not lws_step.is_per_role:
        return 0
    limit = lws_step.rollout.parallel_limit
    restarting = replicas if limit is None else limit
    # Replicas below the partition do not restart.
    return max(min(lws_step.rollout.partition, replicas), replicas - restarting)
