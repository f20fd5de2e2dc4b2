"""State machine of an update: which LeaderWorkerSets to register, and when to poll or fail.

`advance` takes a state and an observation, and returns the next state and the actions to carry out.
It is pure: `component/update_run.py` carries out the actions and makes the observations.

Terms of this package:

* Register: pass a LeaderWorkerSet to Pulumi. The registration is complete once Pulumi has created,
  updated or skipped the object.
* Poll: one request that lists the service's LeaderWorkerSets in the cluster.
* Available: a poll showed the registered generation available. The last available revision of a
  LeaderWorkerSet is recorded in the stack's state for later updates.
* Required: the gang needs the LeaderWorkerSet; optional ones run if accelerators are left. An
  update waits only for required ones.
* Partition, wave and limit: see `update_order.LwsStep`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from fusioninfer_pulumi.findings import DOCS_URL, summarize_names
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.rollout.update_order import LwsStep, choose_next_lws

#: Minimum time between two polls: while any LeaderWorkerSet waits for others, and otherwise.
MIN_ROLLING_POLL_SECONDS, MIN_POLL_SECONDS = 0.25, 1.0
#: While nothing changes, the time between polls grows: it is `POLL_FRACTION` of the time since the
#: last change, but at most `MAX_POLL_SECONDS`.
MAX_POLL_SECONDS, POLL_FRACTION = 5.0, 0.1
#: After this many failed attempts at the first poll, the cluster counts as unreadable.
MAX_ATTEMPTS = 3
#: A replica whose revision was available before counts as broken once it has been unavailable for
#: this time, or for half of `rollout.timeout` if that is shorter. Until then it may only have
#: missed probes on a busy node.
BROKEN_SECONDS = 60.0

#: UID and generation of a live object. The UID is empty if `pulumi up --target` skipped it.
ObjectVersion: TypeAlias = tuple[str, int]


class LwsPhase(Enum):
    """Progress of the update of one LeaderWorkerSet."""

    WAITING = "existed before the update, not registered yet"
    DEFERRED = "new and optional, registered after all others"
    REGISTERED = "registered, the registration is not complete"
    CHANGING = "registered, others wait until it is available"
    STARTING = "registered, the update waits until it is available, but no other waits for it"
    DONE = "registered, the update does not wait for it, or no longer"


class UpdatePhase(Enum):
    """Progress of the whole update."""

    DISCOVERING = "polls to find LeaderWorkerSets that the stack's state may lack"
    FIRST_POLL = "polls once before the first replica changes"
    RUNNING = "changes replicas and waits for them"


@dataclass(frozen=True)
class LwsSnapshot:
    """A LeaderWorkerSet as a poll showed it.

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
        version_before: UID and generation in the stack's state; None if it is not in the state.
        revision_before: Revision in the stack's state; empty if it is not in the state.
        can_skip_wait: Whether the update need not wait for the LeaderWorkerSet if its registration
            changes nothing: `revision` was available before, the partition keeps its template, or
            the state records no availability.
        last_available_revision: The last revision that was available, or None if none ever was.
        existed_before: Whether the LeaderWorkerSet existed before the update, so that a change
            stops a replica. False once Pulumi has recreated it.
        registered_version: UID and generation that Pulumi returned; None until the registration is
            complete.
        snapshot: The LeaderWorkerSet in the last poll; None if the poll did not find it.
        unavailable_since: Time of the first of consecutive polls that showed it unavailable; None
            if the last poll showed it available or did not find it.
        is_recently_unavailable: Whether its live revision was available before and it may only have
            missed probes since `unavailable_since` (see `BROKEN_SECONDS`).
        deadline: When it must be available; used in the phases CHANGING and STARTING.
        uses_rollout_timeout: Whether the deadline comes from `rollout.timeout`, not `wait.timeout`.
        timeout_text: The deadline's timeout for messages, such as `after 45m (rollout.timeout)`.
    """

    step: LwsStep
    revision: str
    version_before: ObjectVersion | None
    revision_before: str
    can_skip_wait: bool
    last_available_revision: str | None
    existed_before: bool
    phase: LwsPhase = LwsPhase.WAITING
    registered_version: ObjectVersion | None = None
    snapshot: LwsSnapshot | None = None
    unavailable_since: float | None = None
    is_recently_unavailable: bool = False
    deadline: float = math.inf
    uses_rollout_timeout: bool = False
    timeout_text: str = ""

    @property
    def is_available(self) -> bool:
        """Whether the last poll showed the registered generation or a later one available."""
        if self.snapshot is None or not self.snapshot.is_available:
            return False
        uid, generation = self.snapshot.version
        registered = self.registered_version
        return registered is None or (uid == registered[0] and generation >= registered[1])

    @property
    def is_being_created(self) -> bool:
        """Whether Pulumi is creating it, and no replica may restart before it exists."""
        return (
            self.phase is LwsPhase.REGISTERED and self.step.is_required and not self.existed_before
        )

    @property
    def is_changing(self) -> bool:
        """Whether others wait for it, because the update may have made it unavailable."""
        if self.phase is LwsPhase.REGISTERED:
            return self.existed_before and self.step.blocks_others
        return self.phase is LwsPhase.CHANGING


@dataclass(frozen=True)
class UpdateState:
    """An update between two observations.

    Attributes:
        lws: The LeaderWorkerSets by name, in the order of the update.
        wait_timeout: `wait.timeout`, the timeout of new replicas.
        awaits_replicas: Whether the update waits for new replicas (`wait.level`).
        needs_first_poll: Whether the update fails if the first poll fails.
        is_polling: Whether a poll has started and not completed.
        has_polled: Whether a poll has succeeded. If a later one fails, the last success counts.
        failures: Failed attempts at the first poll.
        blocked_since: When `is_blocked` became true; None while it is false.
        changed_at: When the update started, or any LeaderWorkerSet was last registered or became
            available.
        next_poll: Earliest time of the next poll.
    """

    lws: Mapping[str, LwsState]
    wait_timeout: str
    awaits_replicas: bool
    phase: UpdatePhase
    needs_first_poll: bool = False
    is_polling: bool = False
    has_polled: bool = False
    failures: int = 0
    blocked_since: float | None = None
    changed_at: float = 0.0
    next_poll: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all LeaderWorkerSets are registered and the update waits for none of them."""
        return self.phase is UpdatePhase.RUNNING and self._phases <= {LwsPhase.DONE}

    @property
    def poll_due_at(self) -> float | None:
        """When the next poll starts; None if the update needs none, or one has started."""
        return self.next_poll if self._needs_polling and not self.is_polling else None

    @property
    def unavailable_lws(self) -> set[str]:
        """LeaderWorkerSets that existed before and are unavailable; none before the first poll."""
        if not self.has_polled:
            return set()
        return {
            name for name, lws in self.lws.items() if lws.existed_before and not lws.is_available
        }

    @property
    def last_available_revisions(self) -> dict[str, str]:
        """The last revision of each LeaderWorkerSet that was available, by name."""
        return {
            name: lws.last_available_revision
            for name, lws in self.lws.items()
            if lws.last_available_revision is not None
        }

    def compute_wait_deadline(self, available_at: float) -> float:
        """Return the deadline of gateways and the endpoint.

        Gateways, the endpoint and new replicas share one `wait.timeout`. If the update waited for
        existing replicas, whose timeout is `rollout.timeout`, or for no replica, `wait.timeout`
        starts at `available_at`, when all replicas are available.
        """
        lws_with_deadline = [lws for lws in self.lws.values() if lws.deadline < math.inf]
        if not lws_with_deadline or any(lws.uses_rollout_timeout for lws in lws_with_deadline):
            return available_at + _parse_seconds(self.wait_timeout)
        return max(lws.deadline for lws in lws_with_deadline)

    def find_in_phases(self, *phases: LwsPhase) -> list[str]:
        """Return the names of the LeaderWorkerSets in any of these phases, in order."""
        return [name for name, lws in self.lws.items() if lws.phase in phases]

    def with_lws(self, lws: Mapping[str, LwsState]) -> UpdateState:
        """Return the state with these LeaderWorkerSets replaced."""
        return replace(self, lws={**self.lws, **lws}) if lws else self

    def with_changes(self, names: Iterable[str], **changes: Any) -> UpdateState:
        """Return the state with the same fields changed in each of these LeaderWorkerSets."""
        return self.with_lws({name: replace(self.lws[name], **changes) for name in names})

    @property
    def is_creating_lws(self) -> bool:
        """Whether Pulumi is still creating a required LeaderWorkerSet."""
        return any(lws.is_being_created for lws in self.lws.values())

    @property
    def is_blocked(self) -> bool:
        """Whether some wait and none is in progress, so that only a recovery can unblock them."""
        return self._phases - {LwsPhase.DONE, LwsPhase.DEFERRED} == {LwsPhase.WAITING}

    @property
    def _needs_polling(self) -> bool:
        if self.phase is not UpdatePhase.RUNNING:
            return True
        # Until all new required LeaderWorkerSets exist, a poll would only delay registrations.
        if self.is_creating_lws:
            return False
        return self.is_blocked or bool(self.find_in_phases(LwsPhase.CHANGING, LwsPhase.STARTING))

    @property
    def _phases(self) -> set[LwsPhase]:
        return {lws.phase for lws in self.lws.values()}


@dataclass(frozen=True)
class UpdateStarted:
    """The program has declared all objects; LeaderWorkerSets wait for the action `Register`."""

    time: float


@dataclass(frozen=True)
class RegistrationsCompleted:
    """Registrations are complete; `versions` is empty if the next poll is due before any is.

    Attributes:
        versions: UIDs and generations that Pulumi returned, by LeaderWorkerSet name.
    """

    time: float
    versions: Mapping[str, ObjectVersion]


@dataclass(frozen=True)
class PollCompleted:
    """A poll succeeded or failed.

    Attributes:
        snapshots: The LeaderWorkerSets that exist, by name; None if the poll failed.
        error: Why the poll failed.
    """

    time: float
    snapshots: Mapping[str, LwsSnapshot] | None
    error: str = ""


Observation: TypeAlias = UpdateStarted | RegistrationsCompleted | PollCompleted


@dataclass(frozen=True)
class Register:
    """Register these LeaderWorkerSets with Pulumi."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Warn:
    """Log a line, once per update."""

    line: str


@dataclass(frozen=True)
class ReportProgress:
    """Show how many replicas are available, and why this LeaderWorkerSet is not."""

    name: str


@dataclass(frozen=True)
class Fail:
    """End the update with an error.

    Attributes:
        names: LeaderWorkerSets whose pods and events explain the failure; None if the cluster
            cannot be read.
    """

    message: str
    names: tuple[str, ...] | None


Action: TypeAlias = Register | Warn | ReportProgress | Fail
_Result: TypeAlias = tuple[UpdateState, tuple[Action, ...]]


def advance(state: UpdateState, observation: Observation) -> _Result:
    """Return the state after an observation, and the actions to carry out.

    If the new state `is_polling`, the caller polls, and the next observation is `PollCompleted`. An
    update ends when the state `is_over`, or with the action `Fail`.
    """
    now = observation.time
    actions: tuple[Action, ...] = ()
    if isinstance(observation, UpdateStarted):
        state = replace(state, changed_at=now, next_poll=now)
        if state.phase is not UpdatePhase.DISCOVERING:
            state, actions = _register_first(state, now)
    elif isinstance(observation, RegistrationsCompleted):
        state = _apply_registrations(state, observation)
    elif isinstance(observation, PollCompleted):
        state, actions = _apply_poll(replace(state, is_polling=False), observation)
    if not any(isinstance(action, Fail) for action in actions):
        state, registrations = _register_next(state, now)
        actions += registrations
        if not state.is_blocked:
            state = replace(state, blocked_since=None)
        elif state.blocked_since is None:
            state = replace(state, blocked_since=now)
        if isinstance(observation, PollCompleted):
            actions += _fail_blocked(state, now)
    poll_due_at = state.poll_due_at
    if poll_due_at is not None and now >= poll_due_at:
        state = replace(state, is_polling=True)
    return state, actions


def _register_first(state: UpdateState, now: float) -> _Result:
    """Register the new required LeaderWorkerSets; others wait.

    If existing ones change and no poll has succeeded yet, the update polls before they may change.
    """
    new = [name for name, lws in state.lws.items() if not lws.existed_before]
    required = [name for name in new if state.lws[name].step.is_required]
    optional = [name for name in new if name not in required]
    state = state.with_changes(state.lws, phase=LwsPhase.WAITING)
    state = state.with_changes(optional, phase=LwsPhase.DEFERRED)
    changing = {
        name
        for name, lws in state.lws.items()
        if lws.existed_before
        and lws.version_before is not None
        and not lws.step.is_frozen
        and lws.revision != lws.revision_before
    }
    phase, needs_first_poll = UpdatePhase.RUNNING, False
    if changing and not state.has_polled:
        steps = _list_steps(state)
        first_batch = choose_next_lws(steps, waiting=changing, changing=(), unavailable=())
        # Only a poll can show that the first batch is available, so that the second may change.
        phase, needs_first_poll = UpdatePhase.FIRST_POLL, bool(changing.difference(first_batch))
    return _register(replace(state, phase=phase, needs_first_poll=needs_first_poll), required, now)


def _register(state: UpdateState, names: Iterable[str], now: float) -> _Result:
    registered = tuple(names)
    if not registered:
        return state, ()
    state = state.with_changes(registered, phase=LwsPhase.REGISTERED)
    return replace(state, changed_at=now), (Register(registered),)


def _register_next(state: UpdateState, now: float) -> _Result:
    """Register the LeaderWorkerSets that may change now.

    None may change while new required ones are being created, because restarting pods may need them
    to complete their gang. New optional ones are registered last, because they might take a
    restarting pod's accelerators, or its place in the gang.
    """
    if state.phase is not UpdatePhase.RUNNING or state.is_creating_lws:
        return state, ()
    waiting = state.find_in_phases(LwsPhase.WAITING)
    changing = [name for name, lws in state.lws.items() if lws.is_changing]
    if not waiting and not changing:
        return _register(state, state.find_in_phases(LwsPhase.DEFERRED), now)
    if not waiting:
        return state, ()
    unavailable = state.unavailable_lws
    recently_unavailable = {name for name in unavailable if state.lws[name].is_recently_unavailable}
    names = choose_next_lws(
        _list_steps(state), waiting, changing, unavailable, recently_unavailable
    )
    return _register(state, names, now)


def _apply_registrations(state: UpdateState, observation: RegistrationsCompleted) -> UpdateState:
    was_creating = state.is_creating_lws
    state = state.with_lws(
        {
            name: _apply_version(state, state.lws[name], version, observation.time)
            for name, version in observation.versions.items()
            if state.lws[name].phase is LwsPhase.REGISTERED
        }
    )
    if not was_creating or state.is_creating_lws:
        return state
    # The replicas of a gang start only when all of them exist, so the deadline starts now.
    deadline = observation.time + _parse_seconds(state.wait_timeout)
    return state.with_changes(state.find_in_phases(LwsPhase.STARTING), deadline=deadline)


def _apply_version(
    state: UpdateState, lws: LwsState, version: ObjectVersion, now: float
) -> LwsState:
    """Record the version that Pulumi returned, and whether the update or others wait for it."""
    uid, _ = version
    if not uid:
        return replace(lws, phase=LwsPhase.DONE)
    old_uid, _ = lws.version_before or ("", 0)
    # Others must not wait for a recreated one, whose gang may start only after they have changed.
    existed_before = lws.existed_before and old_uid in ("", uid)
    lws = replace(
        lws, registered_version=version, existed_before=existed_before, phase=LwsPhase.DONE
    )
    changed = lws.version_before != version
    # If this update changed nothing, an interrupted one may have left it unavailable.
    may_be_unavailable = changed or not lws.can_skip_wait
    is_awaited = state.awaits_replicas and lws.step.is_required and may_be_unavailable
    blocks_others = existed_before and lws.step.blocks_others and may_be_unavailable
    if not changed:
        has_changes = any(other.revision != other.revision_before for other in state.lws.values())
        is_known_available = state.has_polled and lws.is_available
        blocks_others = blocks_others and has_changes and not is_known_available
    if not blocks_others and not is_awaited:
        return lws
    # The first start of a LeaderWorkerSet, which an interrupted update may have begun.
    is_new = lws.version_before is None or (not changed and lws.last_available_revision is None)
    timeout = state.wait_timeout if is_new else lws.step.timeout
    text = f"{timeout} (wait.timeout)" if is_new else lws.step.describe_timeout()
    return replace(
        lws,
        phase=LwsPhase.CHANGING if blocks_others else LwsPhase.STARTING,
        deadline=now + _parse_seconds(timeout),
        uses_rollout_timeout=not is_new,
        timeout_text=f"after {text}",
    )


def _apply_poll(state: UpdateState, observation: PollCompleted) -> _Result:
    if observation.snapshots is None and not state.has_polled:
        return _apply_failed_poll(state, observation)
    now, discovering = observation.time, state.phase is UpdatePhase.DISCOVERING
    if observation.snapshots is not None:
        lws_states = {
            name: _apply_snapshot(
                lws, observation.snapshots.get(name), now, discovering=discovering
            )
            for name, lws in state.lws.items()
        }
        state = replace(state.with_lws(lws_states), has_polled=True)
    if discovering:
        return _register_first(state, now)
    if state.phase is UpdatePhase.FIRST_POLL:
        return replace(state, phase=UpdatePhase.RUNNING), ()
    awaited = state.find_in_phases(LwsPhase.CHANGING, LwsPhase.STARTING)
    available = [name for name in awaited if state.lws[name].is_available]
    if available:
        state = replace(state.with_changes(available, phase=LwsPhase.DONE), changed_at=now)
    state = _schedule_poll(state, now)
    failure = _fail_overdue(state, now)
    if failure:
        return state, failure
    # If the update awaits nothing, unavailable replicas may keep the waiting ones from changing.
    pending = set(awaited).difference(available) or state.unavailable_lws
    first_pending = next((name for name in state.lws if name in pending), None)
    if first_pending is None:
        return state, ()
    return state, (ReportProgress(first_pending),)


def _apply_snapshot(
    lws: LwsState, snapshot: LwsSnapshot | None, now: float, *, discovering: bool
) -> LwsState:
    if snapshot is None:
        return replace(lws, snapshot=None, unavailable_since=None, is_recently_unavailable=False)
    lws = replace(lws, snapshot=snapshot, existed_before=lws.existed_before or discovering)
    if lws.is_available:
        return replace(
            lws,
            last_available_revision=snapshot.revision,
            unavailable_since=None,
            is_recently_unavailable=False,
        )
    since = now if lws.unavailable_since is None else lws.unavailable_since
    was_available = snapshot.revision == lws.last_available_revision
    is_recent = now - since < min(BROKEN_SECONDS, _parse_seconds(lws.step.timeout) / 2)
    return replace(
        lws, unavailable_since=since, is_recently_unavailable=was_available and is_recent
    )


def _apply_failed_poll(state: UpdateState, observation: PollCompleted) -> _Result:
    """Retry; after `MAX_ATTEMPTS` fail if the update needs a poll, otherwise stop waiting."""
    failures = state.failures + 1
    if failures < MAX_ATTEMPTS:
        return replace(state, failures=failures, next_poll=observation.time + MIN_POLL_SECONDS), ()
    state = _schedule_poll(replace(state, failures=0), observation.time)
    some_must_wait = state.find_in_phases(LwsPhase.WAITING) and state.find_in_phases(
        LwsPhase.CHANGING
    )
    if state.needs_first_poll or some_must_wait:
        message = (
            "cannot limit how many replicas restart at a time, because LeaderWorkerSets cannot be "
            f"listed: {observation.error}; allow the program to list them "
            f"({DOCS_URL}/rollout.md)"
        )
        return state, (Fail(message, None),)
    if state.phase is not UpdatePhase.RUNNING:
        return replace(state, phase=UpdatePhase.RUNNING), ()
    awaited = state.find_in_phases(LwsPhase.CHANGING, LwsPhase.STARTING)
    state = state.with_changes(awaited, phase=LwsPhase.DONE)
    return state, (Warn(f"availability of replicas was not checked: {observation.error}"),)


def compute_poll_interval(seconds_since_change: float, *, rolling: bool = False) -> float:
    """Return the seconds until the next poll; they grow while nothing changes."""
    minimum = MIN_ROLLING_POLL_SECONDS if rolling else MIN_POLL_SECONDS
    return min(MAX_POLL_SECONDS, max(minimum, seconds_since_change * POLL_FRACTION))


def _schedule_poll(state: UpdateState, now: float) -> UpdateState:
    rolling = bool(state.find_in_phases(LwsPhase.WAITING))
    interval = compute_poll_interval(now - state.changed_at, rolling=rolling)
    return replace(state, next_poll=now + interval)


def _fail_overdue(state: UpdateState, now: float) -> tuple[Fail, ...]:
    awaited = state.find_in_phases(LwsPhase.CHANGING, LwsPhase.STARTING)
    overdue = [state.lws[name] for name in awaited if now > state.lws[name].deadline]
    if not overdue:
        return ()
    names = tuple(lws.step.name for lws in overdue)
    verb = "is" if len(names) == 1 else "are"
    return (
        Fail(f"{summarize_names(names)} {verb} not available {overdue[0].timeout_text}", names),
    )


def _fail_blocked(state: UpdateState, now: float) -> tuple[Fail, ...]:
    if state.blocked_since is None:
        return ()
    first = next(lws.step for lws in state.lws.values() if lws.phase is LwsPhase.WAITING)
    if now - state.blocked_since <= _parse_seconds(first.timeout):
        return ()
    names = tuple(name for name in state.lws if name in state.unavailable_lws)
    verb = "is" if len(names) == 1 else "are"
    limit = f"rollout.maxUnavailable allows {first.limit}"
    if first.is_per_role and first.limit_scope:
        limit = "layout PerRole updates one LeaderWorkerSet of a role at a time"
    message = (
        f"for {first.describe_timeout()} no replica of role {first.role} was allowed to change, "
        f"because {summarize_names(names)} {verb} not available and {limit}"
    )
    return (Fail(message, names),)


def _list_steps(state: UpdateState) -> list[LwsStep]:
    return [lws.step for lws in state.lws.values()]


def _parse_seconds(timeout: str) -> float:
    return float(durations.parse_duration(timeout) or 0)
