"""The update of a service's LeaderWorkerSets as pure steps.

`step` takes the state of an update and an observation, and returns the next state and the actions
to carry out. `component/update_run.py` carries them out and observes. `next_lws` decides which
LeaderWorkerSets may change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.rollout.update_order import LwsStep, next_lws

#: Shortest pause between two lists, in seconds: while replicas wait for each other, and otherwise.
ROLLING_PAUSE_SECONDS, PAUSE_SECONDS = 0.25, 1.0
#: Longest pause; up to it, a pause is this fraction of the time since the last change.
LONG_PAUSE_SECONDS, PAUSE_FRACTION = 5.0, 0.1
#: Deadlines within this time of the first one fail together.
MARGIN_SECONDS = 5.0
#: Attempts at the first list, after which the cluster counts as unreadable.
TRIES = 3

#: Uid and generation of a live object. The uid is empty if `pulumi up --target` skipped it.
Version: TypeAlias = tuple[str, int]


class Phase(Enum):
    """How far the update of a LeaderWorkerSet is."""

    WAITING = "exists and must not change yet"
    OPTIONAL = "is new and optional: created after all others"
    REGISTERED = "is registered, and Pulumi has not answered"
    CHANGING = "has changed, and others wait until it is available"
    STARTING = "must become available, and no other waits for it"
    DONE = "needs nothing more"


class Stage(Enum):
    """What the update as a whole does."""

    ASKING = "lists what exists, because the stack's state does not tell"
    LISTING = "lists before the first replica changes"
    RUNNING = "changes and awaits replicas"


@dataclass(frozen=True)
class Snapshot:
    """A LeaderWorkerSet as it was listed.

    Attributes:
        available: Whether it is available in the generation of `version`.
    """

    version: Version
    available: bool
    revision: str


@dataclass(frozen=True)
class LwsState:
    """A LeaderWorkerSet in an update.

    Attributes:
        revision: The revision that the update registers.
        before: Its version in the stack's state, None if the state does not hold it.
        revision_before: Its revision in the stack's state.
        settled: Whether an earlier update saw this revision available: it is not awaited again.
        served: The last revision in which it was available, None if it never was.
        exists: Whether it ran before the update, so that its change takes a replica down.
        version: The version that Pulumi returned, None before the answer.
        snapshot: None if the last list did not hold it.
        deadline: When it must be available, in the phases CHANGING and STARTING.
        uses_rollout_timeout: Whether `rollout.timeout` sets the deadline, not `wait.timeout`.
        timeout_text: The setting behind the deadline, such as `after 45m (rollout.timeout)`.
    """

    step: LwsStep
    revision: str
    before: Version | None
    revision_before: str
    settled: bool
    served: str | None
    exists: bool
    phase: Phase = Phase.WAITING
    version: Version | None = None
    snapshot: Snapshot | None = None
    deadline: float = math.inf
    uses_rollout_timeout: bool = False
    timeout_text: str = ""

    @property
    def is_up(self) -> bool:
        """Whether it was available when it was listed, in the version that is registered."""
        if self.snapshot is None or not self.snapshot.available:
            return False
        uid, generation = self.snapshot.version
        return self.version is None or (uid == self.version[0] and generation >= self.version[1])

    @property
    def is_being_created(self) -> bool:
        """Whether it is new, required, and not created yet: no replica restarts before."""
        return self.phase is Phase.REGISTERED and self.step.required and not self.exists

    @property
    def is_changing(self) -> bool:
        """Whether this update may have taken it down, so that others wait."""
        if self.phase is Phase.REGISTERED:
            return self.exists and self.step.blocks_others
        return self.phase is Phase.CHANGING


@dataclass(frozen=True)
class UpdateState:
    """An update between two observations.

    Attributes:
        lws: The LeaderWorkerSets by name, in the order of the update.
        wait_timeout: How long new replicas may take.
        awaits_replicas: Whether the update waits for new replicas.
        needs_list: Whether the first list must succeed.
        listing: Whether a list is under way.
        has_list: Whether a list has ever succeeded. A later one may fail: the last one counts.
        failures: Failed tries of the first list.
        blocked_since: Since when no replica may change, None while one may or does.
        changed_at: When something last changed.
        next_list: When the next list is due.
    """

    lws: Mapping[str, LwsState]
    wait_timeout: str
    awaits_replicas: bool
    stage: Stage
    needs_list: bool = False
    listing: bool = False
    has_list: bool = False
    failures: int = 0
    blocked_since: float | None = None
    changed_at: float = 0.0
    next_list: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to register or await."""
        return self.stage is Stage.RUNNING and not {*self._phases} - {Phase.DONE}

    @property
    def wake_at(self) -> float | None:
        """When the next timer is due; None if only an answer of Pulumi can change anything."""
        return self.next_list if self._needs_polling and not self.listing else None

    @property
    def unavailable(self) -> set[str]:
        """Existing LeaderWorkerSets that are unavailable; none before the first list."""
        if not self.has_list:
            return set()
        return {name for name, lws in self.lws.items() if lws.exists and not lws.is_up}

    @property
    def served(self) -> dict[str, str]:
        """The last revisions that were available, by name."""
        return {name: lws.served for name, lws in self.lws.items() if lws.served is not None}

    def wait_deadline(self, at: float) -> float:
        """Return the deadline of gateways and the endpoint.

        New replicas, gateways and the endpoint share one `wait.timeout`. It begins after rolling
        replicas, which have one `rollout.timeout` each. `at` is when the replicas became available.
        """
        awaited = [lws for lws in self.lws.values() if lws.deadline < math.inf]
        if not awaited or any(lws.uses_rollout_timeout for lws in awaited):
            return at + _seconds(self.wait_timeout)
        return max(lws.deadline for lws in awaited)

    def in_phases(self, *phases: Phase) -> list[str]:
        """Names of the LeaderWorkerSets in one of these phases, in order."""
        return [name for name, lws in self.lws.items() if lws.phase in phases]

    def with_lws(self, changed: Mapping[str, LwsState]) -> UpdateState:
        """Return the state with some LeaderWorkerSets replaced."""
        return replace(self, lws={**self.lws, **changed}) if changed else self

    def with_each(self, names: Iterable[str], **changes: Any) -> UpdateState:
        """Return the state with the same fields changed in several LeaderWorkerSets."""
        return self.with_lws({name: replace(self.lws[name], **changes) for name in names})

    @property
    def is_creating(self) -> bool:
        """Whether a new, required LeaderWorkerSet may not exist yet."""
        return any(lws.is_being_created for lws in self.lws.values())

    @property
    def is_blocked(self) -> bool:
        """Whether replicas wait, and nothing is under way that could let them change."""
        return {Phase.WAITING} == {*self._phases} - {Phase.DONE, Phase.OPTIONAL}

    @property
    def _needs_polling(self) -> bool:
        if self.stage is not Stage.RUNNING:
            return True
        # Listing before all new required LeaderWorkerSets exist is useless and delays them.
        awaits = bool({Phase.CHANGING, Phase.STARTING} & {*self._phases})
        return (awaits or self.is_blocked) and not self.is_creating

    @property
    def _phases(self) -> Iterable[Phase]:
        return (lws.phase for lws in self.lws.values())


@dataclass(frozen=True)
class Registered:
    """The program has registered everything: the update begins."""

    at: float


@dataclass(frozen=True)
class Answered:
    """Pulumi has answered the registration of some LeaderWorkerSets."""

    at: float
    versions: Mapping[str, Version]


@dataclass(frozen=True)
class Listed:
    """The LeaderWorkerSets were listed.

    Attributes:
        snapshots: None if the list failed.
        problem: Why it failed.
    """

    at: float
    snapshots: Mapping[str, Snapshot] | None
    problem: str = ""


@dataclass(frozen=True)
class Timer:
    """Time has passed."""

    at: float


Observation: TypeAlias = Registered | Answered | Listed | Timer


@dataclass(frozen=True)
class Register:
    """Register these LeaderWorkerSets with Pulumi."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class List:
    """List the service's LeaderWorkerSets."""


@dataclass(frozen=True)
class Say:
    """Tell the user something, at most once per update."""

    line: str


@dataclass(frozen=True)
class Show:
    """Show how far the update is, and what this LeaderWorkerSet waits for."""

    waiting: str


@dataclass(frozen=True)
class Fail:
    """End the update with an error.

    Attributes:
        names: LeaderWorkerSets whose state explains the failure; None if the cluster cannot be
            read.
    """

    message: str
    names: tuple[str, ...] | None


Action: TypeAlias = Register | List | Say | Show | Fail
_Result: TypeAlias = tuple[UpdateState, tuple[Action, ...]]


def step(state: UpdateState, observation: Observation) -> _Result:
    """Return the state after an observation, and the actions that follow from it.

    An update ends with the state `is_over`, or with the action `Fail`.
    """
    at = observation.at
    actions: tuple[Action, ...] = ()
    if isinstance(observation, Registered):
        state = replace(state, changed_at=at, next_list=at)
        if state.stage is not Stage.ASKING:
            state, actions = _begin(state, at)
    elif isinstance(observation, Answered):
        state = _answered(state, observation)
    elif isinstance(observation, Listed):
        state, actions = _listed(replace(state, listing=False), observation)
    if not _has_failure(actions):
        state, registrations = _register_next(state, at)
        actions += registrations
        blocked_since = at if state.blocked_since is None else state.blocked_since
        state = replace(state, blocked_since=blocked_since if state.is_blocked else None)
        if isinstance(observation, Listed):
            actions += _blocked_too_long(state, at)
    wake = state.wake_at
    if wake is not None and at >= wake and not _has_failure(actions):
        return replace(state, listing=True), (*actions, List())
    return state, actions


def _begin(state: UpdateState, at: float) -> _Result:
    """Register LeaderWorkerSets that are new and required; existing ones wait."""
    new = [name for name, lws in state.lws.items() if not lws.exists]
    required = [name for name in new if state.lws[name].step.required]
    state = state.with_each(state.lws, phase=Phase.WAITING)
    state = state.with_each({*new} - {*required}, phase=Phase.OPTIONAL)
    changing = {
        name
        for name, lws in state.lws.items()
        if lws.exists
        and lws.before is not None
        and not lws.step.frozen
        and lws.revision != lws.revision_before
    }
    stage, needs_list = Stage.RUNNING, False
    if changing and not state.has_list:
        at_once = next_lws(_order(state), changing, (), ())
        stage, needs_list = Stage.LISTING, bool(changing.difference(at_once))
    return _register(replace(state, stage=stage, needs_list=needs_list), required, at)


def _register(state: UpdateState, names: Iterable[str], at: float) -> _Result:
    registered = tuple(names)
    if not registered:
        return state, ()
    state = state.with_each(registered, phase=Phase.REGISTERED)
    return replace(state, changed_at=at), (Register(registered),)


def _register_next(state: UpdateState, at: float) -> _Result:
    """Register what may change now.

    New required LeaderWorkerSets come first, because restarting pods may need them to complete
    their gang. New optional ones come last: a gang that counts any replica might start with them.
    """
    if state.stage is not Stage.RUNNING or state.is_creating:
        return state, ()
    waiting = state.in_phases(Phase.WAITING)
    changing = [name for name, lws in state.lws.items() if lws.is_changing]
    if not waiting and not changing:
        return _register(state, state.in_phases(Phase.OPTIONAL), at)
    if not waiting:
        return state, ()
    return _register(state, next_lws(_order(state), waiting, changing, state.unavailable), at)


def _answered(state: UpdateState, observation: Answered) -> UpdateState:
    """Note which LeaderWorkerSets have changed, and which of them are awaited."""
    creating = state.is_creating
    state = state.with_lws(
        {
            name: _after_answer(state, state.lws[name], version, observation.at)
            for name, version in observation.versions.items()
            if state.lws[name].phase is Phase.REGISTERED
        }
    )
    if not creating or state.is_creating:
        return state
    # No replica of a gang is available before all of them exist: their deadlines begin together.
    deadline = observation.at + _seconds(state.wait_timeout)
    return state.with_each(state.in_phases(Phase.STARTING), deadline=deadline)


def _after_answer(state: UpdateState, lws: LwsState, version: Version, at: float) -> LwsState:
    if not version[0]:
        return replace(lws, phase=Phase.DONE)
    changed = lws.before != version
    # A LeaderWorkerSet that is created again, as after a rename, may need others of its gang.
    again = lws.before is not None and lws.before[0] not in ("", version[0])
    exists = lws.exists and not again
    lws = replace(lws, version=version, exists=exists, phase=Phase.DONE)
    is_wanted = lws.step.required and state.awaits_replicas
    # An interrupted update may have taken it down, and this update continues from there.
    resumed = lws.step.required and not lws.settled and not changed
    is_down = not (state.has_list and lws.is_up)
    blocks_others = exists and lws.step.blocks_others and (changed or (resumed and is_down))
    if not blocks_others and not (is_wanted and (changed or resumed)):
        return lws
    is_new = lws.before is None or (not changed and lws.served is None)
    timeout = state.wait_timeout if is_new else lws.step.timeout
    return replace(
        lws,
        phase=Phase.CHANGING if blocks_others else Phase.STARTING,
        deadline=at + _seconds(timeout),
        uses_rollout_timeout=not is_new,
        timeout_text=f"after {timeout} ({'wait' if is_new else 'rollout'}.timeout)",
    )


def _listed(state: UpdateState, observation: Listed) -> _Result:
    if observation.snapshots is None and not state.has_list:
        return _unreadable(state, observation)
    at = observation.at
    if observation.snapshots is not None:
        asking = state.stage is Stage.ASKING
        listed = {
            name: _with_snapshot(lws, observation.snapshots.get(name), asking=asking)
            for name, lws in state.lws.items()
        }
        state = replace(state.with_lws(listed), has_list=True)
    if state.stage is Stage.ASKING:
        return _begin(state, at)
    if state.stage is Stage.LISTING:
        return replace(state, stage=Stage.RUNNING), ()
    awaited = state.in_phases(Phase.CHANGING, Phase.STARTING)
    up = [name for name in awaited if state.lws[name].is_up]
    if up:
        state = replace(state.with_each(up, phase=Phase.DONE), changed_at=at)
    state = _after_list(state, at)
    failure = _too_late(state, at)
    if failure:
        return state, failure
    waiting = {*awaited} - {*up} or state.unavailable
    first = next((name for name in state.lws if name in waiting), None)
    return state, () if first is None else (Show(first),)


def _with_snapshot(lws: LwsState, snapshot: Snapshot | None, *, asking: bool) -> LwsState:
    if snapshot is None:
        return replace(lws, snapshot=None)
    seen = replace(lws, snapshot=snapshot, exists=lws.exists or asking)
    return replace(seen, served=snapshot.revision) if seen.is_up else seen


def _unreadable(state: UpdateState, observation: Listed) -> _Result:
    """Retry; after the last try fail if the update needs a list, otherwise continue."""
    failures = state.failures + 1
    if failures < TRIES:
        return replace(state, failures=failures, next_list=observation.at + PAUSE_SECONDS), ()
    state = _after_list(replace(state, failures=0), observation.at)
    must_wait = state.in_phases(Phase.WAITING) and state.in_phases(Phase.CHANGING)
    if state.needs_list or must_wait:
        message = (
            "replicas cannot change one after the other, because the cluster cannot be read: "
            f"{observation.problem}. Let the program list LeaderWorkerSets, or use "
            "rollout.strategy AllAtOnce for this update (docs/rollout.md)"
        )
        return state, (Fail(message, None),)
    if state.stage is not Stage.RUNNING:
        return replace(state, stage=Stage.RUNNING), ()
    state = state.with_each(state.in_phases(Phase.CHANGING, Phase.STARTING), phase=Phase.DONE)
    return state, (Say(f"availability of replicas was not checked: {observation.problem}"),)


def pause(quiet: float, *, rolling: bool = False) -> float:
    """Return the seconds until the next list: more, the longer nothing has changed."""
    least = ROLLING_PAUSE_SECONDS if rolling else PAUSE_SECONDS
    return min(LONG_PAUSE_SECONDS, max(least, quiet * PAUSE_FRACTION))


def _after_list(state: UpdateState, at: float) -> UpdateState:
    rolling = bool(state.in_phases(Phase.WAITING))
    return replace(state, next_list=at + pause(at - state.changed_at, rolling=rolling))


def _too_late(state: UpdateState, at: float) -> tuple[Fail, ...]:
    awaited = [state.lws[name] for name in state.in_phases(Phase.CHANGING, Phase.STARTING)]
    if not any(at > lws.deadline for lws in awaited):
        return ()
    late = [lws for lws in awaited if at + MARGIN_SECONDS > lws.deadline]
    names = tuple(lws.step.name for lws in late)
    verb = "is" if len(names) == 1 else "are"
    return (Fail(f"{listed(names)} {verb} not available {late[0].timeout_text}", names),)


def _blocked_too_long(state: UpdateState, at: float) -> tuple[Fail, ...]:
    if state.blocked_since is None:
        return ()
    first = state.lws[state.in_phases(Phase.WAITING)[0]].step
    if at - state.blocked_since <= _seconds(first.timeout):
        return ()
    names = tuple(name for name in state.lws if name in state.unavailable)
    verb = "is" if len(names) == 1 else "are"
    message = (
        f"no replica of role {first.role} could be updated for {first.timeout} (rollout.timeout): "
        f"{listed(names)} {verb} not available, and rollout.maxUnavailable is {first.limit}"
    )
    return (Fail(message, names),)


def _has_failure(actions: Iterable[Action]) -> bool:
    return any(isinstance(action, Fail) for action in actions)


def _order(state: UpdateState) -> list[LwsStep]:
    return [lws.step for lws in state.lws.values()]


def _seconds(timeout: str) -> float:
    return float(durations.seconds(timeout) or 0)
