"""An update over time: which replicas are down, which serve, and the accelerators in use.

`timeline` plays an update with `step`, the function of the update itself, in a world where nothing
fails and every LeaderWorkerSet becomes available when its timeout ends. Its end is therefore an
upper bound, apart from Pulumi's own work and the pauses between two lists. A faster update changes
the same batches in each role; roles that do not wait for each other then overlap differently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.state_machine import (
    Answered,
    Fail,
    Listed,
    LwsState,
    Observation,
    Phase,
    Register,
    Registered,
    Snapshot,
    Stage,
    UpdateState,
    Version,
    step,
)
from fusioninfer_pulumi.rollout.update_order import LwsStep, update_order

_HOUR = 3600


@dataclass(frozen=True)
class LwsSize:
    """Replicas of a LeaderWorkerSet, and the accelerators of each."""

    replicas: int = 0
    accelerators: int = 0

    @property
    def total(self) -> int:
        """Accelerators of all replicas."""
        return self.replicas * self.accelerators


@dataclass(frozen=True)
class LwsChange:
    """What an update does to a LeaderWorkerSet.

    Attributes:
        before: Its size before the update, None where it is new.
        restarts: Whether the pods of its replicas are replaced.
        recreated: Whether it is deleted and created again.
        new_pair: Whether its pods get another pair revision.
    """

    before: LwsSize | None
    after: LwsSize
    restarts: bool = False
    recreated: bool = False
    new_pair: bool = False

    @property
    def disrupts(self) -> bool:
        """Whether its replicas restart, or it gets replicas that did not exist."""
        return self.restarts or self.before is None or self.after.replicas > self.before.replicas


@dataclass(frozen=True)
class TimelineRow:
    """A service from one moment of the update to the next.

    Attributes:
        seconds: When it begins at the latest, from the begin of the update.
        restarting: LeaderWorkerSets whose replicas restart.
        starting: LeaderWorkerSets with new replicas that are not available yet.
        serving: Replicas of each role that serve in the slowest update.
        accelerators: Accelerators in use.
    """

    seconds: float
    restarting: tuple[str, ...]
    starting: tuple[str, ...]
    serving: Mapping[str, int]
    accelerators: int


@dataclass(frozen=True)
class Timeline:
    """An update of a service at its slowest.

    Attributes:
        before: The service before the update.
        batches: The service during each batch.
        after: The service after the update; its `seconds` are the longest that the update takes.
        not_awaited: LeaderWorkerSets with replicas that the update does not wait for. They do not
            count as serving.
    """

    before: TimelineRow
    batches: tuple[TimelineRow, ...]
    after: TimelineRow
    not_awaited: tuple[str, ...]

    @property
    def rows(self) -> tuple[TimelineRow, ...]:
        """All rows in their order."""
        return (self.before, *self.batches, self.after)

    @property
    def peak(self) -> int:
        """Most accelerators in use at any time."""
        return max(row.accelerators for row in self.rows)


def timeline(
    plan: ServicePlan,
    changes: Mapping[str, LwsChange],
    removed: Sequence[tuple[str, LwsSize]] = (),
) -> Timeline:
    """Play an update of a service at its slowest.

    Args:
        plan: The service after the update.
        changes: What happens to each of its LeaderWorkerSets, by name.
        removed: Role and size of the LeaderWorkerSets that are deleted when the update is over.
    """
    return _World(plan, changes, removed).play()


@dataclass
class _World:
    """A cluster in which each LeaderWorkerSet becomes available when its timeout ends.

    Attributes:
        registered: LeaderWorkerSets that Pulumi has applied.
        up: LeaderWorkerSets that are available.
        begun: Those that began a change after the last row.
    """

    plan: ServicePlan
    changes: Mapping[str, LwsChange]
    removed: Sequence[tuple[str, LwsSize]]
    registered: set[str] = field(default_factory=set)
    up: set[str] = field(default_factory=set)
    begun: bool = False
    now: float = 0.0

    def __post_init__(self) -> None:
        changes = self.changes.items()
        pair_changes = {name: change.new_pair for name, change in changes if change.before}
        self.steps = update_order(self.plan, pair_changes)
        self.up = {name for name, change in self.changes.items() if change.before is not None}

    def play(self) -> Timeline:
        """Run the update to its end."""
        before, batches = self._row(), list[TimelineRow]()
        state = UpdateState(
            {lws_step.name: self._lws(lws_step) for lws_step in self.steps},
            self.plan.wait.timeout,
            self.plan.wait.level.awaits_replicas,
            Stage.RUNNING,
        )
        observation: Observation = Registered(self.now)
        while True:
            state, actions = step(state, observation)
            names = [name for act in actions if isinstance(act, Register) for name in act.names]
            assert not any(isinstance(action, Fail) for action in actions), "nothing fails"
            if state.is_over:
                break
            if names:
                self.registered.update(names)
                changed = {name for name in names if self.changes[name].disrupts}
                self.up -= changed
                self.begun = self.begun or bool(changed)
                observation = Answered(self.now, {name: self._version(name) for name in names})
                continue
            awaited = state.in_phases(Phase.CHANGING, Phase.STARTING)
            if not state.listing and not self.up.intersection(awaited):
                batches.append(self._row())
                self._wait(state, awaited)
            observation = Listed(self.now, self._snapshots())
        if self.begun:
            batches.append(self._row())
        # Replicas that may still start when the update is over.
        pending = tuple(
            lws.name
            for lws in self.steps
            if self._is_under_way(lws.name) or (lws.partial and self.changes[lws.name].disrupts)
        )
        return Timeline(before, tuple(batches), self._row(is_over=True), pending)

    def _lws(self, lws_step: LwsStep) -> LwsState:
        change = self.changes[lws_step.name]
        exists = change.before is not None
        revisions = "before", "after" if change.restarts or not exists else "before"
        return LwsState(
            lws_step,
            revisions[1],
            before=self._version(lws_step.name) if exists else None,
            revision_before=revisions[0] if exists else "",
            settled=not change.disrupts,
            served=revisions[0] if exists else None,
            exists=exists,
        )

    def _version(self, name: str) -> Version:
        change = self.changes[name]
        if name not in self.registered:
            return "before", 1
        if change.before is None or change.recreated:
            return "after", 1
        return "before", 2 if change.restarts or change.before != change.after else 1

    def _wait(self, state: UpdateState, awaited: Sequence[str]) -> None:
        """Let time pass until the next LeaderWorkerSet has to be available."""
        self.begun = False
        self.now = min(state.lws[name].deadline for name in awaited)
        self.up.update(name for name in awaited if state.lws[name].deadline <= self.now)

    def _snapshots(self) -> dict[str, Snapshot]:
        return {
            name: Snapshot(self._version(name), name in self.up, "")
            for name, change in self.changes.items()
            if change.before is not None or name in self.registered
        }

    def _row(self, *, is_over: bool = False) -> TimelineRow:
        serving = Counter({role.name: 0 for role in self.plan.roles})
        accelerators = 0
        for lws_step in self.steps:
            serving[lws_step.role] += self._serving(lws_step)
            accelerators += self._accelerators(lws_step)
        for role, size in () if is_over else self.removed:
            serving[role] += size.replicas
            accelerators += size.total
        down = [] if is_over else [lws.name for lws in self.steps if self._is_under_way(lws.name)]
        return TimelineRow(
            self.now,
            tuple(name for name in down if self.changes[name].restarts),
            tuple(name for name in down if not self.changes[name].restarts),
            dict(serving),
            accelerators,
        )

    def _is_under_way(self, name: str) -> bool:
        return name in self.registered and name not in self.up

    def _serving(self, lws_step: LwsStep) -> int:
        name, change = lws_step.name, self.changes[lws_step.name]
        before = change.before.replicas if change.before is not None else 0
        if name not in self.registered:
            return before
        if name in self.up and not (lws_step.partial and change.disrupts):
            return change.after.replicas
        meanwhile = min(before, change.after.replicas)
        if change.restarts:
            meanwhile = _serving_meanwhile(lws_step, change, meanwhile)
        # Of a role of which only a part is required, one ready replica is awaited.
        return max(meanwhile, 1) if name in self.up else meanwhile

    def _accelerators(self, lws_step: LwsStep) -> int:
        name, change = lws_step.name, self.changes[lws_step.name]
        before, after = change.before or LwsSize(), change.after
        if name not in self.registered:
            return before.total
        surges = lws_step.whole and change.restarts and not change.recreated
        surge = lws_step.rollout.max_surge * after.accelerators if surges else 0
        if name in self.up:
            # The extra replicas stay while a partition holds others back.
            kept = surge if lws_step.rollout.partition else 0
            return after.total + kept
        replicas = max(before.replicas, after.replicas)
        return replicas * max(before.accelerators, after.accelerators) + surge


def _serving_meanwhile(lws_step: LwsStep, change: LwsChange, replicas: int) -> int:
    """Return how many replicas of a LeaderWorkerSet that changes serve at least."""
    if change.recreated or not lws_step.whole:
        return 0
    rolling = lws_step.rollout.strategy is RolloutStrategy.ROLLING
    down = lws_step.rollout.max_unavailable if rolling else replicas
    return max(min(lws_step.rollout.partition, replicas), replicas - down)


def format_duration(seconds: float) -> str:
    """Return a duration for people, such as `2h15m`, rounded up to whole seconds."""
    whole = math.ceil(seconds)
    parts = zip((whole // _HOUR, whole % _HOUR // 60, whole % 60), "hms", strict=True)
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
