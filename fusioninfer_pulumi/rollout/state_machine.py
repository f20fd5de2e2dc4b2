"""State machine of an update: which LeaderWorkerSets to register, and when to list or fail.

`advance` takes a state and an observation, and returns the next state and the actions to carry out.
It is pure: `component/update_run.py` carries out the actions and makes the observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from fusioninfer_pulumi.findings import list_names
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.rollout.update_order import LwsStep, choose_next_lws

#: Minimum pause between two lists: while replicas wait for each other, and otherwise.
ROLLING_PAUSE_SECONDS, PAUSE_SECONDS = 0.25, 1.0
#: Between these limits, the pause is `PAUSE_FRACTION` of the time since the last change.
MAX_PAUSE_SECONDS, PAUSE_FRACTION = 5.0, 0.1
#: After this many failed attempts at the first list, the cluster counts as unreadable.
MAX_ATTEMPTS = 3
#: A replica that has served counts as broken once it is unavailable for this time, or for half of
#: `rollout.timeout` if that is shorter. Before, it may only have missed probes on a busy node.
BROKEN_SECONDS = 60.0

#: Uid and generation of a live object. The uid is empty if `pulumi up --target` skipped it.
ObjectVersion: TypeAlias = tuple[str, int]


class Phase(Enum):
    """Progress of the update of one LeaderWorkerSet."""

    WAITING = "existed before, must not change yet"
    OPTIONAL = "new and optional, created after all others"
    REGISTERED = "registered, Pulumi has not answered yet"
    CHANGING = "changed, others wait until it is available"
    STARTING = "must become available, but no other waits for it"
    DONE = "finished"


class Stage(Enum):
    """Progress of the whole update."""

    DISCOVERING = "lists existing LeaderWorkerSets, because the stack's state is not enough"
    LISTING = "lists once before the first replica changes"
    RUNNING = "changes replicas and waits for them"


@dataclass(frozen=True)
class Snapshot:
    """A LeaderWorkerSet in a list of live objects.

    Attributes:
        is_available: Whether the generation in `version` is available.
    """

    version: ObjectVersion
    is_available: bool
    revision: str


@dataclass(frozen=True)
class LwsState:
    """A LeaderWorkerSet in an update.

    Attributes:
        revision: Revision after the update.
        version_before: ObjectVersion in the stack's state, or None if it is not in the state.
        revision_before: Revision in the stack's state.
        is_settled: Whether the update need not wait for it if nothing changes: its target revision
            was available, it is frozen, or nothing is known about it.
        served_revision: Last revision that was available, or None if none ever was.
        existed_before: Whether it existed before the update, so that a change stops a replica;
            False once Pulumi has recreated it.
        version: ObjectVersion that Pulumi returned, or None until Pulumi answers.
        snapshot: Its entry in the last list, or None if it was missing.
        unavailable_since: Time of the first list in a row that showed it unavailable; None if
            available or missing.
        may_recover: Whether it is unavailable, but has served and may only have missed probes.
        deadline: When it must be available, in the phases CHANGING and STARTING.
        uses_rollout_timeout: Whether `rollout.timeout` sets the deadline; else `wait.timeout`.
        timeout_text: The deadline's timeout for messages, such as `after 45m (rollout.timeout)`.
    """

    step: LwsStep
    revision: str
    version_before: ObjectVersion | None
    revision_before: str
    is_settled: bool
    served_revision: str | None
    existed_before: bool
    phase: Phase = Phase.WAITING
    version: ObjectVersion | None = None
    snapshot: Snapshot | None = None
    unavailable_since: float | None = None
    may_recover: bool = False
    deadline: float = math.inf
    uses_rollout_timeout: bool = False
    timeout_text: str = ""

    @property
    def is_up(self) -> bool:
        """Whether the last list shows it available, at the registered version or a later one."""
        if self.snapshot is None or not self.snapshot.is_available:
            return False
        uid, generation = self.snapshot.version
        return self.version is None or (uid == self.version[0] and generation >= self.version[1])

    @property
    def is_being_created(self) -> bool:
        """Whether it is required and being created; no replica restarts before it exists."""
        return self.phase is Phase.REGISTERED and self.step.is_required and not self.existed_before

    @property
    def is_changing(self) -> bool:
        """Whether others wait for it, because this update may have made it unavailable."""
        if self.phase is Phase.REGISTERED:
            return self.existed_before and self.step.blocks_others
        return self.phase is Phase.CHANGING


@dataclass(frozen=True)
class UpdateState:
    """An update between two observations.

    Attributes:
        lws: The LeaderWorkerSets by name, in the order of the update.
        wait_timeout: `wait.timeout`, the timeout of new replicas.
        awaits_replicas: Whether the update waits for new replicas.
        needs_list: Whether the update fails if the first list fails.
        is_listing: Whether a list is requested and has not returned.
        has_list: Whether a list has succeeded. If a later one fails, the last success counts.
        failures: Failed attempts at the first list.
        blocked_since: When `is_blocked` became true, None while it is false.
        changed_at: When the update started, or something was last registered or became available.
        next_list: When the next list is due.
    """

    lws: Mapping[str, LwsState]
    wait_timeout: str
    awaits_replicas: bool
    stage: Stage
    needs_list: bool = False
    is_listing: bool = False
    has_list: bool = False
    failures: int = 0
    blocked_since: float | None = None
    changed_at: float = 0.0
    next_list: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to register or await."""
        return self.stage is Stage.RUNNING and self._phases <= {Phase.DONE}

    @property
    def wake_at(self) -> float | None:
        """When the next list is due; None if the update waits for Pulumi or for a list."""
        return self.next_list if self._needs_polling and not self.is_listing else None

    @property
    def unavailable(self) -> set[str]:
        """Unavailable LeaderWorkerSets that existed before; none before the first list."""
        if not self.has_list:
            return set()
        return {name for name, lws in self.lws.items() if lws.existed_before and not lws.is_up}

    @property
    def served_revisions(self) -> dict[str, str]:
        """The last revisions that were available, by name."""
        return {
            name: lws.served_revision
            for name, lws in self.lws.items()
            if lws.served_revision is not None
        }

    def find_wait_deadline(self, available_at: float) -> float:
        """Return the deadline of gateways and the endpoint.

        Gateways, the endpoint and new replicas share one `wait.timeout`. If the update waited for
        existing replicas, whose timeout is `rollout.timeout`, `wait.timeout` starts at
        `available_at`, when all replicas are available.
        """
        awaited = [lws for lws in self.lws.values() if lws.deadline < math.inf]
        if not awaited or any(lws.uses_rollout_timeout for lws in awaited):
            return available_at + _parse_seconds(self.wait_timeout)
        return max(lws.deadline for lws in awaited)

    def find_in_phases(self, *phases: Phase) -> list[str]:
        """Return the names of the LeaderWorkerSets in any of these phases, in order."""
        return [name for name, lws in self.lws.items() if lws.phase in phases]

    def with_lws(self, lws: Mapping[str, LwsState]) -> UpdateState:
        """Return the state with these LeaderWorkerSets replaced."""
        return replace(self, lws={**self.lws, **lws}) if lws else self

    def with_changes(self, names: Iterable[str], **changes: Any) -> UpdateState:
        """Return the state with the same fields changed in several LeaderWorkerSets."""
        return self.with_lws({name: replace(self.lws[name], **changes) for name in names})

    @property
    def is_creating(self) -> bool:
        """Whether Pulumi is still creating a required LeaderWorkerSet."""
        return any(lws.is_being_created for lws in self.lws.values())

    @property
    def is_blocked(self) -> bool:
        """Whether replicas wait and nothing in progress will let them change."""
        pending = self._phases - {Phase.DONE, Phase.OPTIONAL}
        return pending == {Phase.WAITING}

    @property
    def _needs_polling(self) -> bool:
        if self.stage is not Stage.RUNNING:
            return True
        # Until all new required LeaderWorkerSets exist, a list would only delay Pulumi's answers.
        if self.is_creating:
            return False
        return self.is_blocked or Phase.CHANGING in self._phases or Phase.STARTING in self._phases

    @property
    def _phases(self) -> set[Phase]:
        return {lws.phase for lws in self.lws.values()}


@dataclass(frozen=True)
class UpdateStarted:
    """All resources of the service are declared; LeaderWorkerSets wait for `Register`."""

    time: float


@dataclass(frozen=True)
class PulumiAnswered:
    """Pulumi has created or updated these LeaderWorkerSets; none if the next list is due."""

    time: float
    versions: Mapping[str, ObjectVersion]


@dataclass(frozen=True)
class ListReturned:
    """A list of the LeaderWorkerSets succeeded or failed.

    Attributes:
        snapshots: None if the list failed.
        problem: Why the list failed.
    """

    time: float
    snapshots: Mapping[str, Snapshot] | None
    problem: str = ""


Observation: TypeAlias = UpdateStarted | PulumiAnswered | ListReturned


@dataclass(frozen=True)
class Register:
    """Register these LeaderWorkerSets with Pulumi."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Warn:
    """Print a line, at most once in an update."""

    line: str


@dataclass(frozen=True)
class ReportProgress:
    """Print the progress, and what this LeaderWorkerSet waits for."""

    name: str


@dataclass(frozen=True)
class Fail:
    """End the update with an error.

    Attributes:
        names: LeaderWorkerSets whose state explains the failure; None if the cluster is unreadable.
    """

    message: str
    names: tuple[str, ...] | None


Action: TypeAlias = Register | Warn | ReportProgress | Fail
_Result: TypeAlias = tuple[UpdateState, tuple[Action, ...]]


def advance(state: UpdateState, observation: Observation) -> _Result:
    """Return the state after an observation, and the actions to carry out.

    If the new state `is_listing`, the next observation is a list. An update ends when the state
    `is_over`, or with the action `Fail`.
    """
    now = observation.time
    actions: tuple[Action, ...] = ()
    if isinstance(observation, UpdateStarted):
        state = replace(state, changed_at=now, next_list=now)
        if state.stage is not Stage.DISCOVERING:
            state, actions = _begin(state, now)
    elif isinstance(observation, PulumiAnswered):
        state = _apply_answer(state, observation)
    elif isinstance(observation, ListReturned):
        state, actions = _apply_list(replace(state, is_listing=False), observation)
    if not any(isinstance(action, Fail) for action in actions):
        state, registrations = _register_next(state, now)
        actions += registrations
        if not state.is_blocked:
            state = replace(state, blocked_since=None)
        elif state.blocked_since is None:
            state = replace(state, blocked_since=now)
        if isinstance(observation, ListReturned):
            actions += _fail_blocked(state, now)
    wake = state.wake_at
    if wake is not None and now >= wake:
        state = replace(state, is_listing=True)
    return state, actions


def _begin(state: UpdateState, now: float) -> _Result:
    """Register LeaderWorkerSets that are new and required; existing ones wait."""
    new = [name for name, lws in state.lws.items() if not lws.existed_before]
    required = [name for name in new if state.lws[name].step.is_required]
    state = state.with_changes(state.lws, phase=Phase.WAITING)
    optional = [name for name in new if name not in required]
    state = state.with_changes(optional, phase=Phase.OPTIONAL)
    changing = {
        name
        for name, lws in state.lws.items()
        if lws.existed_before
        and lws.version_before is not None
        and not lws.step.is_frozen
        and lws.revision != lws.revision_before
    }
    stage, needs_list = Stage.RUNNING, False
    if changing and not state.has_list:
        steps = _list_steps(state)
        first_batch = choose_next_lws(steps, waiting=changing, changing=(), unavailable=())
        # The second batch starts when a list shows the first one available.
        stage, needs_list = Stage.LISTING, bool(changing.difference(first_batch))
    return _register(replace(state, stage=stage, needs_list=needs_list), required, now)


def _register(state: UpdateState, names: Iterable[str], now: float) -> _Result:
    registered = tuple(names)
    if not registered:
        return state, ()
    state = state.with_changes(registered, phase=Phase.REGISTERED)
    return replace(state, changed_at=now), (Register(registered),)


def _register_next(state: UpdateState, now: float) -> _Result:
    """Register the LeaderWorkerSets that may change now.

    New required ones come first, because restarting pods may need them to complete their gang. New
    optional ones come last, because they might take accelerators of a restarting pod, or count as a
    required one in the gang.
    """
    if state.stage is not Stage.RUNNING or state.is_creating:
        return state, ()
    waiting = state.find_in_phases(Phase.WAITING)
    changing = [name for name, lws in state.lws.items() if lws.is_changing]
    if not waiting and not changing:
        return _register(state, state.find_in_phases(Phase.OPTIONAL), now)
    if not waiting:
        return state, ()
    unavailable = state.unavailable
    recently_unavailable = {name for name in unavailable if state.lws[name].may_recover}
    names = choose_next_lws(
        _list_steps(state), waiting, changing, unavailable, recently_unavailable
    )
    return _register(state, names, now)


def _apply_answer(state: UpdateState, observation: PulumiAnswered) -> UpdateState:
    was_creating = state.is_creating
    state = state.with_lws(
        {
            name: _apply_version(state, state.lws[name], version, observation.time)
            for name, version in observation.versions.items()
            if state.lws[name].phase is Phase.REGISTERED
        }
    )
    if not was_creating or state.is_creating:
        return state
    # No replica of a gang becomes available before all of them exist, so they share a deadline.
    deadline = observation.time + _parse_seconds(state.wait_timeout)
    return state.with_changes(state.find_in_phases(Phase.STARTING), deadline=deadline)


def _apply_version(
    state: UpdateState, lws: LwsState, version: ObjectVersion, now: float
) -> LwsState:
    """Record the version that Pulumi returned, and whether the update waits for it."""
    uid, _ = version
    if not uid:
        return replace(lws, phase=Phase.DONE)
    old_uid, _ = lws.version_before or ("", 0)
    changed = lws.version_before != version
    # The gang of a recreated LeaderWorkerSet may need others, so the others must not wait for it.
    recreated = old_uid not in ("", uid)
    existed_before = lws.existed_before and not recreated
    lws = replace(lws, version=version, existed_before=existed_before, phase=Phase.DONE)
    is_awaited = lws.step.is_required and state.awaits_replicas
    # An interrupted update may have changed it and left it unavailable. Then others wait for it.
    resumed = lws.step.is_required and not lws.is_settled and not changed
    has_changes = any(other.revision != other.revision_before for other in state.lws.values())
    may_be_down = changed or (resumed and has_changes and not (state.has_list and lws.is_up))
    blocks_others = existed_before and lws.step.blocks_others and may_be_down
    if not blocks_others and not (is_awaited and (changed or resumed)):
        return lws
    is_new = lws.version_before is None or (not changed and lws.served_revision is None)
    timeout = state.wait_timeout if is_new else lws.step.timeout
    text = f"{timeout} (wait.timeout)" if is_new else lws.step.describe_timeout()
    return replace(
        lws,
        phase=Phase.CHANGING if blocks_others else Phase.STARTING,
        deadline=now + _parse_seconds(timeout),
        uses_rollout_timeout=not is_new,
        timeout_text=f"after {text}",
    )


def _apply_list(state: UpdateState, observation: ListReturned) -> _Result:
    if observation.snapshots is None and not state.has_list:
        return _apply_failed_list(state, observation)
    now, discovering = observation.time, state.stage is Stage.DISCOVERING
    if observation.snapshots is not None:
        lws_states = {
            name: _apply_snapshot(
                lws, observation.snapshots.get(name), now, discovering=discovering
            )
            for name, lws in state.lws.items()
        }
        state = replace(state.with_lws(lws_states), has_list=True)
    if discovering:
        return _begin(state, now)
    if state.stage is Stage.LISTING:
        return replace(state, stage=Stage.RUNNING), ()
    awaited = state.find_in_phases(Phase.CHANGING, Phase.STARTING)
    up = [name for name in awaited if state.lws[name].is_up]
    if up:
        state = replace(state.with_changes(up, phase=Phase.DONE), changed_at=now)
    state = _schedule_list(state, now)
    failure = _fail_overdue(state, now)
    if failure:
        return state, failure
    # If the update awaits nothing, unavailable replicas keep the waiting ones from changing.
    pending = set(awaited).difference(up) or state.unavailable
    first = next((name for name in state.lws if name in pending), None)
    if first is None:
        return state, ()
    return state, (ReportProgress(first),)


def _apply_snapshot(
    lws: LwsState, snapshot: Snapshot | None, now: float, *, discovering: bool
) -> LwsState:
    if snapshot is None:
        return replace(lws, snapshot=None, unavailable_since=None, may_recover=False)
    lws = replace(lws, snapshot=snapshot, existed_before=lws.existed_before or discovering)
    if lws.is_up:
        served = snapshot.revision
        return replace(lws, served_revision=served, unavailable_since=None, may_recover=False)
    since = now if lws.unavailable_since is None else lws.unavailable_since
    has_served = snapshot.revision == lws.served_revision
    is_recent = now - since < min(BROKEN_SECONDS, _parse_seconds(lws.step.timeout) / 2)
    return replace(lws, unavailable_since=since, may_recover=has_served and is_recent)


def _apply_failed_list(state: UpdateState, observation: ListReturned) -> _Result:
    """Retry; after `MAX_ATTEMPTS` fail if the update needs a list, otherwise continue."""
    failures = state.failures + 1
    if failures < MAX_ATTEMPTS:
        return replace(state, failures=failures, next_list=observation.time + PAUSE_SECONDS), ()
    state = _schedule_list(replace(state, failures=0), observation.time)
    must_wait = state.find_in_phases(Phase.WAITING) and state.find_in_phases(Phase.CHANGING)
    if state.needs_list or must_wait:
        message = (
            "cannot limit how many replicas restart at a time, because LeaderWorkerSets cannot be "
            f"listed: {observation.problem}. Allow the program to list them (docs/rollout.md)"
        )
        return state, (Fail(message, None),)
    if state.stage is not Stage.RUNNING:
        return replace(state, stage=Stage.RUNNING), ()
    awaited = state.find_in_phases(Phase.CHANGING, Phase.STARTING)
    state = state.with_changes(awaited, phase=Phase.DONE)
    return state, (Warn(f"availability of replicas was not checked: {observation.problem}"),)


def compute_pause(quiet_seconds: float, *, rolling: bool = False) -> float:
    """Return the seconds until the next list; they grow while nothing changes."""
    minimum = ROLLING_PAUSE_SECONDS if rolling else PAUSE_SECONDS
    return min(MAX_PAUSE_SECONDS, max(minimum, quiet_seconds * PAUSE_FRACTION))


def _schedule_list(state: UpdateState, now: float) -> UpdateState:
    rolling = bool(state.find_in_phases(Phase.WAITING))
    return replace(state, next_list=now + compute_pause(now - state.changed_at, rolling=rolling))


def _fail_overdue(state: UpdateState, now: float) -> tuple[Fail, ...]:
    awaited = [state.lws[name] for name in state.find_in_phases(Phase.CHANGING, Phase.STARTING)]
    overdue = [lws for lws in awaited if now > lws.deadline]
    if not overdue:
        return ()
    names = tuple(lws.step.name for lws in overdue)
    verb = "is" if len(names) == 1 else "are"
    return (Fail(f"{list_names(names)} {verb} not available {overdue[0].timeout_text}", names),)


def _fail_blocked(state: UpdateState, now: float) -> tuple[Fail, ...]:
    if state.blocked_since is None:
        return ()
    first_waiting, *_ = state.find_in_phases(Phase.WAITING)
    first = state.lws[first_waiting].step
    if now - state.blocked_since <= _parse_seconds(first.timeout):
        return ()
    names = tuple(name for name in state.lws if name in state.unavailable)
    verb = "is" if len(names) == 1 else "are"
    limit = f"rollout.maxUnavailable allows {first.limit}"
    if first.is_per_role and first.limited_role:
        limit = "layout PerRole updates one LeaderWorkerSet of a role at a time"
    message = (
        f"for {first.describe_timeout()} no replica of role {first.role} was allowed to change, "
        f"because {list_names(names)} {verb} not available and {limit}"
    )
    return (Fail(message, names),)


def _list_steps(state: UpdateState) -> list[LwsStep]:
    return [lws.step for lws in state.lws.values()]


def _parse_seconds(timeout: str) -> float:
    return float(durations.seconds(timeout) or 0)
