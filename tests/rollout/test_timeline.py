"""Timelines show the state machine's steps, and updates take at most the shown time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, strategies as st
from profiles import examples
from rollouts import grouped_plans, plans
from rows import each_row
from samples import minima, nodes, plan_of, prefill_decode, role, service

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.kube.durations import format_duration
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.state_machine import MAX_POLL_SECONDS, UpdateState
from fusioninfer_pulumi.rollout.timeline import (
    LwsChange,
    LwsSize,
    Timeline,
    _SimulatedCluster,
    simulate_update,
)
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update

MINUTE = 60


def count_replicas(plan: ServicePlan) -> dict[str, int]:
    return {lws.name: len(lws.replicas) for item in plan.roles for lws in item.lws}


def restarted(plan: ServicePlan) -> dict[str, LwsChange]:
    """Restart each LeaderWorkerSet that may restart; a replica has 8 accelerators."""
    counts = count_replicas(plan)
    return {
        lws.name: LwsChange(
            LwsSize(counts[lws.name], 8),
            LwsSize(counts[lws.name], 8),
            restarts=not lws.is_frozen,
            is_recreated=not lws.is_frozen and lws.rollout.strategy is RolloutStrategy.RECREATE,
        )
        for lws in order_update(plan)
    }


def rows(played: Timeline) -> list[tuple[int, str, str, int]]:
    """Return minutes, restarts, serving replicas and accelerators of all rows but the first."""
    return [
        (
            int(row.seconds // MINUTE),
            " ".join(name.removeprefix("svc-") for name in row.restarting),
            " ".join(f"{name}={count}" for name, count in row.serving.items()),
            row.accelerators,
        )
        for row in played.rows[1:]
    ]


def three(**rollout: Any) -> ServicePlan:
    return plan_of(service(role("a", replicas=3), rollout={"timeout": "10m", **rollout}))


def per_role(**rollout: Any) -> ServicePlan:
    spec = {"rollout": {"timeout": "10m", **rollout}, "layout": "PerRole"}
    return plan_of(service(role("a", replicas=3), **spec))


@each_row(
    ("plan", "expected"),
    [
        (
            three(),
            [(0, "a-2", "a=2", 24), (10, "a-1", "a=2", 24), (20, "a-0", "a=2", 24),
             (30, "", "a=3", 24)],
        ),
        (
            three(maxUnavailable=2),
            [(0, "a-2 a-1", "a=1", 24), (10, "a-0", "a=2", 24), (20, "", "a=3", 24)],
        ),
        (three(strategy="AllAtOnce"), [(0, "a-2 a-1 a-0", "a=0", 24), (10, "", "a=3", 24)]),
        (three(strategy="Recreate"), [(0, "a-2 a-1 a-0", "a=0", 24), (10, "", "a=3", 24)]),
        (three(partition=2), [(0, "a-2", "a=2", 24), (10, "", "a=3", 24)]),
        # LeaderWorkerSet restarts replicas one at a time; each may take the timeout.
        (per_role(), [(0, "a", "a=2", 24), (30, "", "a=3", 24)]),
        (per_role(maxSurge=1, maxUnavailable=0), [(0, "a", "a=3", 32), (40, "", "a=3", 24)]),
        # The surge replica stays while a partition keeps old replicas.
        (per_role(maxSurge=1, partition=2), [(0, "a", "a=2", 32), (40, "", "a=3", 32)]),
        (per_role(strategy="AllAtOnce", partition=2), [(0, "a", "a=2", 24), (30, "", "a=3", 24)]),
        (per_role(strategy="AllAtOnce"), [(0, "a", "a=0", 24), (30, "", "a=3", 24)]),
        (per_role(strategy="Recreate"), [(0, "a", "a=0", 24), (10, "", "a=3", 24)]),
    ],
)  # fmt: skip
def test_timeline_of_one_role(plan: ServicePlan, expected: list[tuple[int, str, str, int]]) -> None:
    assert rows(simulate_update(plan, restarted(plan))) == expected


def pair(**spec: Any) -> ServicePlan:
    rollout = {"timeout": "10m", **spec.pop("rollout", {})}
    return plan_of(prefill_decode({"replicas": 2}, {"replicas": 2}, rollout=rollout, **spec))


def test_timeline_of_prefill_and_decode_by_role_order() -> None:
    together = pair()
    assert rows(simulate_update(together, restarted(together))) == [
        (0, "prefill-1 decode-1", "prefill=1 decode=1", 32),
        (10, "prefill-0 decode-0", "prefill=1 decode=1", 32),
        (20, "", "prefill=2 decode=2", 32),
    ]
    in_order = pair(rollout={"roleOrder": "Sequential"})
    assert rows(simulate_update(in_order, restarted(in_order))) == [
        (0, "prefill-1", "prefill=1 decode=2", 32),
        (10, "prefill-0", "prefill=1 decode=2", 32),
        (20, "decode-1", "prefill=2 decode=1", 32),
        (30, "decode-0", "prefill=2 decode=1", 32),
        (40, "", "prefill=2 decode=2", 32),
    ]


def test_serving_groups_change_as_a_whole() -> None:
    roles = role("p", replicas=1, multinode=nodes(2, launcher="none")), role("d", replicas=2)
    rollout = {"level": "Group", "timeout": "10m"}
    plan = plan_of(service(*roles, groups=2, rollout=rollout))
    assert rows(simulate_update(plan, restarted(plan))) == [
        (0, "1-p-0 1-d-1 1-d-0", "p=1 d=2", 48),
        (10, "0-p-0 0-d-1 0-d-0", "p=1 d=2", 48),
        (20, "", "p=2 d=4", 48),
    ]


def test_new_replicas_start_first_and_removed_ones_go_last() -> None:
    plan = plan_of(service(role("a", replicas=2), rollout={"timeout": "10m"}))
    changes = restarted(plan) | {"svc-a-1": LwsChange(None, LwsSize(1, 8))}
    played = simulate_update(plan, changes, [("old", LwsSize(2, 4))])
    assert [(row.seconds / MINUTE, row.starting, row.accelerators) for row in played.rows] == [
        (0, (), 16),
        (0, ("svc-a-1",), 24),
        (10, ("svc-a-1",), 24),
        (45, (), 16),
    ]
    assert [row.serving["old"] for row in played.rows[:-1]] == [2, 2, 2]
    assert played.after.serving == {"a": 2}
    assert played.peak == 24


def test_replicas_not_awaited_do_not_count_as_serving() -> None:
    manifest = prefill_decode(decode={"replicas": 2}, **minima(prefill=1, decode=1))
    plan = plan_of(manifest)
    played = simulate_update(plan, restarted(plan))
    assert played.not_awaited == ("svc-decode-1",)
    assert played.batches[-1].restarting == ("svc-decode-1",)
    assert played.after.serving == {"prefill": 1, "decode": 1}


def test_change_without_restart_has_no_steps() -> None:
    plan = three()
    same = LwsSize(1, 8)
    played = simulate_update(plan, {name: LwsChange(same, same) for name in count_replicas(plan)})
    assert (played.batches, played.after.seconds) == ((), 0)


def random_changes(plan: ServicePlan, random: Random) -> dict[str, LwsChange]:
    """Return changes in which LeaderWorkerSets are created, restart or stay unchanged."""
    changes = {}
    for name, change in restarted(plan).items():
        kind = random.choice(("new", "restarts", "restarts", "stays"))
        before = None if kind == "new" else change.before
        restarts = kind == "restarts" and change.restarts
        changes[name] = LwsChange(
            before, change.after, restarts=restarts, is_recreated=restarts and change.is_recreated
        )
    return changes


def units(names: Sequence[str], steps: dict[str, LwsStep]) -> dict[tuple[str, int], set[str]]:
    """Return the units that count for each limit, of LeaderWorkerSets that block others."""
    down: dict[tuple[str, int], set[str]] = {}
    for name in names:
        lws = steps[name]
        if lws.blocks_others and lws.limit is not None:
            down.setdefault((lws.limit_scope, lws.limit), set()).add(lws.limit_unit)
    return down


@examples(3)
@given(plans() | grouped_plans(), st.integers(0, 2**32).map(Random))
def test_timeline_follows_update_order(plan: ServicePlan, random: Random) -> None:
    changes = random_changes(plan, random)
    played = simulate_update(plan, changes)
    steps = {lws.name: lws for lws in order_update(plan)}
    shown = [name for row in played.batches for name in (*row.restarting, *row.starting)]
    assert set(shown) == {name for name, change in changes.items() if change.starts_pods}
    for row in played.batches:
        for (_, limit), names in units(row.restarting, steps).items():
            assert len(names) <= limit
    # LeaderWorkerSets that block others start in update order. Serving groups with `roleOrder:
    # Sequential` may not: a group whose first role is unchanged overtakes others.
    started = list(dict.fromkeys(shown))
    for item in plan.roles if plan.shape.groups is None else ():
        blocking = [
            name for name in started if steps[name].role == item.name and steps[name].blocks_others
        ]
        restarts = [name for name in blocking if changes[name].restarts]
        assert restarts == [name for name in steps if name in restarts]
    seconds = [row.seconds for row in played.rows]
    assert seconds == sorted(seconds)
    for name, count in played.after.serving.items():
        lasting = [lws for lws in steps.values() if lws.role == name]
        wanted = sum(changes[lws.name].after.replicas for lws in lasting)
        pending = [lws.name for lws in lasting if lws.name in played.not_awaited]
        assert count == wanted if not pending else count < wanted + 1


class _FasterCluster(_SimulatedCluster):
    """A cluster whose replicas become available before their timeout."""

    random: Random
    due: dict[str, float]

    def _pass_time(self, state: UpdateState, awaited: Sequence[str]) -> None:
        self.has_started_pods = False
        for name in awaited:
            left = state.lws[name].deadline - self.now
            self.due.setdefault(name, self.now + self.random.random() * left)
        self.now = min(self.due[name] for name in awaited)
        self.available.update(name for name in awaited if self.due[name] <= self.now)


@given(plans() | grouped_plans(), st.integers(0, 2**32).map(Random))
def test_faster_update_ends_earlier(plan: ServicePlan, random: Random) -> None:
    changes = random_changes(plan, random)
    faster = _FasterCluster(plan, changes, ())
    faster.random, faster.due = random, {}
    slowest, played = simulate_update(plan, changes), faster.run()
    slack = MAX_POLL_SECONDS * len(slowest.batches)
    assert played.after.seconds <= slowest.after.seconds + slack
    assert played.peak <= slowest.peak


@each_row(("seconds", "text"), [(0, "0s"), (59.2, "1m"), (2700, "45m"), (8130, "2h15m30s")])
def test_duration_is_formatted(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


class _Pairs(_FasterCluster):
    """A faster cluster that records the pair revisions of ready prefill and decode replicas."""

    states: list[tuple[set[bool], set[bool]]]
    order: list[str]

    def ready(self, role: str) -> set[bool]:
        """Return the pair revisions of a role's ready replicas: the new one is True."""
        names = {lws.name for lws in self.steps if lws.role == role} & self.available
        return {
            name in self.registered or not self.changes[name].changes_pair_revision
            for name in names
        }

    def _note(self) -> None:
        self.states.append((self.ready("prefill"), self.ready("decode")))
        self.order += [name for name in self.registered if name not in self.order]

    def _pass_time(self, state: UpdateState, awaited: Sequence[str]) -> None:
        self._note()
        super()._pass_time(state, awaited)
        self._note()

    def walk(self, random: Random) -> None:
        self.random, self.due, self.states, self.order = random, {}, [], []
        self.run()
        self._note()


@st.composite
def pairs_to_update(draw: st.DrawFn) -> ServicePlan:
    """Draw services whose counts allow that each decode replica has a prefill partner."""
    limit = st.integers(1, 3) | st.integers(1, 50).map("{}%".format)
    prefill, decode = (
        {"replicas": draw(st.integers(*counts)), "rollout": {"maxUnavailable": draw(limit)}}
        for counts in ((2, 6), (1, 6))
    )
    order = draw(st.sampled_from(("Together", "Sequential")))
    roles = [
        role("prefill", "prefiller", **prefill),
        role("decode", "decoder", **decode),
        role("other", replicas=draw(st.integers(0, 3))),
    ]
    return plan_of(service(*draw(st.permutations(roles)), rollout={"roleOrder": order}))


@examples(2)
@given(pairs_to_update(), st.integers(0, 2**32).map(Random))
def test_ready_decode_replica_has_prefill_replica_of_its_pair_revision(
    plan: ServicePlan, random: Random
) -> None:
    changes = {
        name: replace(item, changes_pair_revision=True) for name, item in restarted(plan).items()
    }
    for _ in range(5):
        whole_update = _Pairs(plan, changes, ())
        whole_update.walk(random)
        # The same update, continued after an interruption.
        done = whole_update.order[: random.randint(0, len(changes))]
        continued = _Pairs(plan, changes | {n: LwsChange(*[LwsSize(1, 8)] * 2) for n in done}, ())
        continued.walk(random)
        for world in (whole_update, continued):
            assert world.states[-1] == ({True}, {True})
            for prefill, decode in world.states:
                assert decode <= prefill, "a decode replica has only strangers"
