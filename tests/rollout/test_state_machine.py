"""Invariants of every update, in random clusters that become ready, fail and crash."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, strategies as st
from profiles import examples
from rollouts import grouped_plans, plans
from rows import each_row
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.state_machine import (
    Action,
    Fail,
    LwsPhase,
    LwsSnapshot,
    LwsState,
    ObjectVersion,
    Observation,
    PollCompleted,
    Register,
    RegistrationsCompleted,
    ReportProgress,
    UpdatePhase,
    UpdateStarted,
    UpdateState,
    Warn,
    advance,
)
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update

#: Steps in which replicas fail at random; afterwards all become ready.
FAULTY_STEPS = 60
#: The test fails if an update takes more steps.
MAX_STEPS = 4000


@dataclass
class Lws:
    """A LeaderWorkerSet in the cluster."""

    uid: str
    generation: int
    spec: int
    up: bool

    @property
    def version(self) -> ObjectVersion:
        return self.uid, self.generation


@dataclass
class SimulatedCluster:
    """A cluster and the stack's state.

    Attributes:
        stack: Versions and revisions that Pulumi has recorded.
        served: Revisions that the last finished update recorded as available.
        disrupted: Replicas that an update took down and that have not been available since.
    """

    plan: ServicePlan
    random: Random
    live: dict[str, Lws] = field(default_factory=dict)
    stack: dict[str, tuple[ObjectVersion, str]] = field(default_factory=dict)
    served: dict[str, str] = field(default_factory=dict)
    disrupted: set[str] = field(default_factory=set)
    now: float = 0.0
    uids: Iterable[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.steps = {item.name: item for item in order_update(self.plan)}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choose_names(self, probability: float) -> set[str]:
        return {name for name in self.steps if self.chance(probability)}

    def apply(self, name: str, spec: int) -> None:
        """Create or change an object, as server-side apply does."""
        lws = self.live.get(name)
        if lws is None:
            self.live[name] = Lws(f"uid-{next(iter(self.uids))}", 1, spec, up=False)
        elif lws.spec != spec:
            lws.spec, lws.generation, lws.up = spec, lws.generation + 1, False

    def remove(self, names: Iterable[str]) -> None:
        """Delete replicas as an update would; the next update creates them again."""
        for name in names:
            self.live.pop(name, None)
            self.stack.pop(name, None)
            self.served.pop(name, None)
            self.disrupted.discard(name)

    def make_available(self, names: Iterable[str]) -> None:
        for name in names:
            self.live[name].up = True
            self.disrupted.discard(name)


class SimulatedUpdate:
    """Run one update of a cluster and check its actions."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        spec: int,
        *,
        list_success: float,
        is_state_unknown: bool = False,
    ) -> None:
        """`list_success` is the probability that a list request succeeds."""
        self.cluster, self.spec, self.list_success = cluster, spec, list_success
        random = cluster.random
        self.broken, self.never_answered = (
            cluster.choose_names(random.choice((0, 0.2))),
            cluster.choose_names(0.02),
        )
        self.skipped = cluster.choose_names(random.choice((0, 0, 0.2)))
        self.registered: list[str] = []
        self.pending: set[str] = set()
        self.ever_available: set[str] = set()
        self.has_warned = False
        served = cluster.served
        lws = {}
        for name, lws_step in cluster.steps.items():
            version, revision = cluster.stack.get(name, (None, ""))
            lws[name] = LwsState(
                lws_step,
                str(spec),
                version,
                revision,
                can_skip_wait=lws_step.is_frozen or served.get(name) == str(spec),
                last_available_revision=served.get(name),
                existed_before=version is not None,
            )
        self.state = UpdateState(
            lws,
            cluster.plan.wait.timeout,
            cluster.plan.wait.level.awaits_replicas,
            UpdatePhase.DISCOVERING if is_state_unknown else UpdatePhase.RUNNING,
            needs_first_poll=is_state_unknown,
        )
        self.exists = {
            n for n in cluster.steps if n in (cluster.live if is_state_unknown else cluster.stack)
        }

    def run(self, *, crash_after: float = math.inf) -> str:
        """Run the update and return how it ends."""
        cluster = self.cluster
        observation: Observation = UpdateStarted(cluster.now)
        for count in range(MAX_STEPS):
            self.state, actions = advance(self.state, observation)
            if self.execute(actions):
                return "failed"
            if self.state.is_over:
                return "over"
            if count >= crash_after:
                return "crashed"
            faulty = count < FAULTY_STEPS
            if faulty:
                self.change_availability()
            result = self.next_observation(faulty=faulty)
            if result is None:
                return "waits for Pulumi"
            observation = result
        raise AssertionError(f"update does not end: {self.state}")

    def execute(self, actions: tuple[Action, ...]) -> bool:
        for action in actions:
            if isinstance(action, Register):
                self.check_order(action.names)
                for name in action.names:
                    self.register(name)
            elif isinstance(action, Warn):
                assert self.list_success < 1, "no list failed"
                self.has_warned = True
            elif isinstance(action, ReportProgress):
                assert action.name in self.cluster.steps
            elif isinstance(action, Fail):
                self.check_failure(action)
                return True
        return False

    def register(self, name: str) -> None:
        cluster = self.cluster
        assert name not in self.registered, "registered twice"
        self.registered.append(name)
        self.pending.add(name)
        lws = cluster.live.get(name)
        keeps = cluster.steps[name].is_frozen and lws is not None
        if name not in self.skipped and not keeps:
            was_up = lws is not None and lws.up and lws.spec != self.spec
            cluster.apply(name, self.spec)
            if was_up and name in self.exists and not self.is_unit_down(name):
                cluster.disrupted.add(name)
        if name in cluster.live and cluster.live[name].up:
            self.ever_available.add(name)

    def is_unit_down(self, name: str) -> bool:
        """Whether the replica's unit was down before, so that its change does not count."""
        unit = limited_unit(self.cluster.steps[name])
        down = self.state.unavailable_lws - self.cluster.disrupted
        return any(limited_unit(self.cluster.steps[other]) == unit for other in down)

    def check_order(self, names: tuple[str, ...]) -> None:
        steps = self.cluster.steps
        new = {n for n, s in steps.items() if s.is_required and n not in self.exists}
        existing = self.exists.intersection(names)
        unanswered = new.difference(self.registered) | (new & self.pending)
        if existing:
            assert not unanswered, "new required replicas are created before existing ones change"
        if not existing and not new.issuperset(names):
            assert self.exists <= {*self.registered}, "new optional replicas are created last"
            blocks_others = {
                name for name in self.known_disrupted() & self.exists if steps[name].blocks_others
            }
            assert not blocks_others, "new optional replicas are created last"
        for name in existing:
            earlier = [
                other.name
                for other in steps.values()
                if other.blocks_others and other.wave < steps[name].wave
                and other.wave_scope == steps[name].wave_scope and other.name in self.exists
            ]  # fmt: skip
            # An unchanged LeaderWorkerSet may be registered at any time: nothing restarts.
            if name not in self.state.unavailable_lws and self.cluster.live[name].spec != self.spec:
                assert {*earlier} <= {*self.registered}, "roles change one at a time"
                assert not self.known_disrupted().intersection(earlier), (
                    "roles change one at a time"
                )

    def known_disrupted(self) -> set[str]:
        """Return disrupted replicas that this update must treat as down."""
        if self.has_warned:
            return self.cluster.disrupted & self.pending
        if self.state.has_polled and self.state.awaits_replicas:
            return self.cluster.disrupted
        return self.cluster.disrupted & {*self.registered}

    def check_limits(self) -> None:
        """Check that all updates together take down no more units than the limit allows."""
        units: dict[str, set[str]] = {}
        limits: dict[str, int] = {}
        for name in self.cluster.disrupted:
            lws_step = self.cluster.steps[name]
            if lws_step.blocks_others and lws_step.limit is not None:
                units.setdefault(lws_step.limit_scope, set()).add(lws_step.limit_unit)
                limits[lws_step.limit_scope] = lws_step.limit
        assert all(len(down) <= limits[role] for role, down in units.items()), (units, limits)

    def check_failure(self, action: Fail) -> None:
        if action.names is None:
            assert self.list_success < 1, "no list failed"
            return
        assert action.names
        for name in action.names:
            assert not self.state.lws[name].is_available

    def change_availability(self) -> None:
        """Make some replicas available and others unavailable."""
        cluster = self.cluster
        ready = [name for name in cluster.live if name not in self.broken and cluster.chance(0.3)]
        cluster.make_available(ready)
        self.ever_available.update(ready)
        for name, lws in cluster.live.items():
            if cluster.chance(0.03) and name not in cluster.disrupted:
                lws.up = False

    def next_observation(self, *, faulty: bool) -> Observation | None:
        self.check_limits()
        cluster, wake = self.cluster, self.state.poll_due_at
        if not faulty:
            ready = [name for name in cluster.live if name not in self.broken]
            cluster.make_available(ready)
            self.ever_available.update(ready)
        answering = sorted(self.pending - self.never_answered)
        choices: list[Callable[[], Observation]] = []
        if answering:
            choices.append(lambda: self.answer(answering, faulty=faulty))
        if self.state.is_polling:
            choices.append(self.return_list)
        if wake is not None:
            choices.append(lambda: self.wake_up(wake, faulty=faulty))
        if faulty and self.registered and cluster.chance(0.1):
            again = cluster.random.choice(self.registered)
            if again not in self.pending:
                return RegistrationsCompleted(cluster.now, {again: ("another", 1)})
        return cluster.random.choice(choices)() if choices else None

    def answer(self, answering: list[str], *, faulty: bool) -> RegistrationsCompleted:
        cluster = self.cluster
        count = cluster.random.randint(1, len(answering)) if faulty else len(answering)
        versions = {}
        for name in cluster.random.sample(answering, count):
            self.pending.discard(name)
            if name in self.skipped:
                versions[name] = cluster.stack[name][0] if name in cluster.stack else ("", 0)
                continue
            versions[name] = cluster.live[name].version
            revision = str(self.spec)
            if cluster.steps[name].is_frozen and name in cluster.stack:
                revision = cluster.stack[name][1]
            cluster.stack[name] = versions[name], revision
        return RegistrationsCompleted(cluster.now, versions)

    def return_list(self) -> PollCompleted:
        cluster = self.cluster
        cluster.now += cluster.random.choice((0.0, 0.1, 15.0))
        if not cluster.chance(self.list_success):
            return PollCompleted(cluster.now, None, "no answer")
        return PollCompleted(
            cluster.now,
            {n: LwsSnapshot(lws.version, lws.up, str(lws.spec)) for n, lws in cluster.live.items()},
        )

    def wake_up(self, wake: float, *, faulty: bool) -> RegistrationsCompleted:
        cluster = self.cluster
        if faulty and cluster.chance(0.3):
            cluster.now += max(0.0, wake - cluster.now) / 2
        else:
            # The machine may have been suspended.
            cluster.now = max(wake, cluster.now) + (0.0 if faulty else 300.0)
        return RegistrationsCompleted(cluster.now, {})


def limited_unit(lws_step: LwsStep) -> tuple[str, str] | None:
    """Return the unit that counts for the limit; optional replicas do not count."""
    return (lws_step.limit_scope, lws_step.limit_unit) if lws_step.is_required else None


def check_end(run: SimulatedUpdate, outcome: str) -> None:
    """Check the state in which an update ended or waits for an answer that never comes."""
    cluster = run.cluster
    if outcome == "waits for Pulumi":
        assert run.pending & run.never_answered
    if outcome != "over":
        return
    assert sorted(run.registered) == sorted(cluster.steps)
    cluster.served |= run.state.last_available_revisions
    if run.list_success == 1 and run.state.awaits_replicas:
        for name in {*run.registered} - run.skipped:
            if cluster.steps[name].is_required and not run.state.lws[name].can_skip_wait:
                assert name in run.ever_available, f"{name} was never available"


SUCCESS_RATES = st.sampled_from((1.0, 1.0, 1.0, 0.7, 0.0))


@examples(6)
@given(plans() | grouped_plans(), st.integers(0, 2**32).map(Random), SUCCESS_RATES, st.booleans())
def test_random_update_keeps_order_and_ends(
    plan: ServicePlan, random: Random, list_success: float, is_state_unknown: bool
) -> None:
    cluster = SimulatedCluster(plan, random)
    first = SimulatedUpdate(cluster, 1, list_success=1)
    check_end(first, first.run())
    cluster.make_available(cluster.live)
    cluster.remove(cluster.choose_names(0.2))
    for spec in (2, 2, 3):
        run = SimulatedUpdate(
            cluster, spec, list_success=list_success, is_state_unknown=is_state_unknown
        )
        crash = random.choice((math.inf, random.randint(0, FAULTY_STEPS)))
        check_end(run, run.run(crash_after=crash))
        if cluster.chance(0.5):
            cluster.make_available([name for name in cluster.live if cluster.chance(0.7)])
        cluster.remove(cluster.choose_names(0.2))


def started(*before: ObjectVersion | None, **fields: object) -> UpdateState:
    """Return an update to revision `b` of a service with one replica for each version."""
    plan = plan_of(service(role(replicas=len(before)), **fields))
    names = [lws_step.name for lws_step in order_update(plan)]
    return started_from(plan, dict(zip(names, before, strict=True)))


def started_from(plan: ServicePlan, before: dict[str, ObjectVersion | None]) -> UpdateState:
    """Return an update to revision `b`; an interrupted update has changed NEW objects."""
    lws = {
        lws_step.name: LwsState(
            lws_step,
            "b",
            before.get(lws_step.name),
            "b" if before.get(lws_step.name) == NEW else "a",
            lws_step.is_frozen,
            last_available_revision="a",
            existed_before=before.get(lws_step.name) is not None,
        )
        for lws_step in order_update(plan)
    }
    awaits = plan.wait.level.awaits_replicas
    return UpdateState(lws, plan.wait.timeout, awaits, UpdatePhase.RUNNING)


def run_steps(state: UpdateState, *observations: Observation) -> tuple[UpdateState, list[Action]]:
    actions: list[Action] = []
    for observation in observations:
        state, new_actions = advance(state, observation)
        actions += new_actions
    return state, actions


OLD, NEW = ("uid", 1), ("uid", 2)
TWO, ONE, ZERO = (f"svc-inference-{index}" for index in (2, 1, 0))


def snapshots(**available: bool) -> dict[str, LwsSnapshot]:
    names = {"two": TWO, "one": ONE, "zero": ZERO}
    return {names[key]: LwsSnapshot(OLD, up, "a") for key, up in available.items()}


def test_resumed_replica_counts_as_down_until_listed() -> None:
    failures = [PollCompleted(at, None, "no answer") for at in (1, 2, 3)]
    state, actions = run_steps(
        started(NEW, OLD), UpdateStarted(0), *failures, RegistrationsCompleted(4, {ONE: NEW})
    )
    assert [action for action in actions if isinstance(action, Register)] == [Register((ONE,))]
    up = {ONE: LwsSnapshot(NEW, True, "b"), ZERO: LwsSnapshot(OLD, True, "a")}
    _, actions = run_steps(state, PollCompleted(5, up))
    assert Register((ZERO,)) in actions


def test_list_of_older_generation_is_ignored() -> None:
    state, actions = run_steps(
        started(OLD, OLD),
        UpdateStarted(0),
        PollCompleted(0, snapshots(one=True, zero=True)),
        RegistrationsCompleted(1, {ONE: NEW}),
        PollCompleted(1, snapshots(one=True, zero=True)),
    )
    assert [action for action in actions if isinstance(action, Register)] == [Register((ONE,))]
    assert state.lws[ONE].phase is LwsPhase.CHANGING


def test_repeated_answer_is_ignored() -> None:
    state, _ = run_steps(
        started(OLD, OLD),
        UpdateStarted(0),
        PollCompleted(0, snapshots(one=True, zero=True)),
        RegistrationsCompleted(1, {ONE: NEW}),
    )
    assert advance(state, RegistrationsCompleted(1.1, {ONE: ("other", 1)}))[0].lws == state.lws


def test_deadline_of_new_replicas_starts_when_all_exist() -> None:
    state, _ = run_steps(
        started(None, None), UpdateStarted(0), RegistrationsCompleted(1, {ONE: OLD})
    )
    assert state.poll_due_at is None, "no poll before"
    state, _ = run_steps(state, RegistrationsCompleted(4000, {ZERO: OLD}))
    assert {lws.deadline for lws in state.lws.values()} == {4000 + 45 * 60}


def test_new_replicas_share_deadline_with_gateways() -> None:
    state, _ = run_steps(started(None), UpdateStarted(0), RegistrationsCompleted(1, {ZERO: OLD}))
    assert state.compute_wait_deadline(100) == 1 + 45 * 60


@pytest.mark.parametrize("after", [OLD, NEW])
def test_deadline_of_gateways_starts_after_rolling_update(after: ObjectVersion) -> None:
    state, _ = run_steps(started(OLD), UpdateStarted(0), RegistrationsCompleted(1, {ZERO: after}))
    assert state.compute_wait_deadline(5000) == 5000 + 45 * 60


@pytest.mark.parametrize(("lists", "ends"), [(2, False), (3, True)])
def test_first_list_is_attempted_three_times(lists: int, ends: bool) -> None:
    _, actions = run_steps(
        started(OLD, OLD),
        UpdateStarted(0),
        *(PollCompleted(at, None, "no answer") for at in range(lists)),
    )
    fails = [action for action in actions if isinstance(action, Fail)]
    assert bool(fails) is ends
    assert not any(isinstance(action, Register) for action in actions)


def test_repaired_replica_unblocks_update() -> None:
    state, actions = run_steps(
        started(OLD, OLD, rollout={"partition": 1, "timeout": "10s"}),
        UpdateStarted(0),
        PollCompleted(0, snapshots(one=True, zero=False)),
        RegistrationsCompleted(1, {ZERO: OLD}),
        PollCompleted(2, snapshots(one=True, zero=False)),
    )
    assert state.blocked_since is not None
    assert not any(isinstance(action, Fail) for action in actions)
    _, actions = run_steps(state, PollCompleted(60, snapshots(one=True, zero=True)))
    assert [action for action in actions if isinstance(action, Register)] == [Register((ONE,))]
    _, actions = run_steps(state, PollCompleted(60, snapshots(one=True, zero=False)))
    assert [action for action in actions if isinstance(action, Fail)]


@each_row(
    ("zero", "seconds", "changes", "rollout"),
    [
        ("a", 2, False, {}),
        ("a", 59, False, {}),
        ("a", 61, True, {}),
        ("a", 4, False, {"timeout": "10s"}),
        ("a", 6, True, {"timeout": "10s"}),
        ("never served", 2, True, {}),
    ],
)
def test_only_broken_replica_changes_while_another_changes(
    zero: str, seconds: float, changes: bool, rollout: dict[str, object]
) -> None:
    state, _ = run_steps(
        started(OLD, OLD, rollout=rollout),
        UpdateStarted(0),
        PollCompleted(0, snapshots(one=True, zero=True)),
        RegistrationsCompleted(1, {ONE: NEW}),
    )
    live = {ONE: LwsSnapshot(NEW, False, "b"), ZERO: LwsSnapshot(OLD, False, zero)}
    _, actions = run_steps(state, PollCompleted(2, live), PollCompleted(2 + seconds, live))
    assert (Register((ZERO,)) in actions) is changes


def test_unchanged_update_does_not_wait_for_replica_that_never_served() -> None:
    answers = [RegistrationsCompleted(1, {ONE: NEW}), RegistrationsCompleted(2, {ZERO: NEW})]
    state, _ = run_steps(started(NEW, NEW, wait={"level": "None"}), UpdateStarted(0), *answers)
    assert state.is_over


def test_unavailable_replica_may_change_if_no_other_changes() -> None:
    _, actions = run_steps(
        started(OLD, OLD), UpdateStarted(0), PollCompleted(0, snapshots(one=True, zero=False))
    )
    assert [action for action in actions if isinstance(action, Register)] == [Register((ZERO,))]


def test_new_optional_replicas_wait_for_required_ones() -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 1}}}
    wide = {"multinode": nodes(2, launcher="none")}
    plan = plan_of(service(role(replicas=2, **wide), schedulingStrategy=minimum))
    state = started_from(plan, {ZERO: OLD})
    live = {ZERO: LwsSnapshot(OLD, True, "a")}
    state, actions = run_steps(
        state, UpdateStarted(0), PollCompleted(0, live), RegistrationsCompleted(1, {ZERO: NEW})
    )
    assert [action for action in actions if isinstance(action, Register)] == [Register((ZERO,))]
    live[ZERO] = LwsSnapshot(NEW, True, "b")
    assert Register((ONE,)) in advance(state, PollCompleted(2, live))[1]


def test_interrupted_sequential_update_is_resumed() -> None:
    roles = [role("first"), role("then")]
    plan = plan_of(service(*roles, rollout={"roleOrder": "Sequential"}))
    first, then = (lws_step.name for lws_step in order_update(plan))
    state = started_from(plan, {first: NEW, then: OLD})
    live = {first: LwsSnapshot(NEW, False, "b"), then: LwsSnapshot(OLD, True, "a")}
    state, actions = run_steps(
        state, UpdateStarted(0), PollCompleted(0, live), RegistrationsCompleted(1, {first: NEW})
    )
    assert [action for action in actions if isinstance(action, Register)] == [Register((first,))]
    live[first] = LwsSnapshot(NEW, True, "b")
    _, actions = run_steps(state, PollCompleted(2, live))
    assert Register((then,)) in actions


def test_blocked_layout_per_role_message_shows_timeout_of_its_lws() -> None:
    limit = {"maxUnavailable": 2, "timeout": "1s"}
    plan = plan_of(service(role(replicas=2), groups=2, layout="PerRole", rollout=limit))
    first, last = (lws.name for lws in plan.roles[0].lws)
    state = started_from(plan, {first: OLD, last: OLD})
    up = {first: LwsSnapshot(OLD, True, "a")}
    state = state.with_changes([last], phase=LwsPhase.DONE)
    state = replace(state, has_polled=True, phase=UpdatePhase.RUNNING)
    _, actions = run_steps(state, PollCompleted(0, up), PollCompleted(100, up))
    (message,) = (action.message for action in actions if isinstance(action, Fail))
    assert message == (
        "for 2s (rollout.timeout 1s per replica) no replica of role inference was allowed to "
        f"change, because {last} is not available and layout PerRole updates one LeaderWorkerSet "
        "of a role at a time"
    )
