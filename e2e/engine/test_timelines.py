"""The timeline of `plan --update`, compared with real updates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from e2e import inputs
from e2e.engine.services import TWO_NODES, Stack, get_tag, poll, role, service
from e2e.harness.pods import is_ready, leaders
from fusioninfer_pulumi.cli.diff.timelines import simulate_updates
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.timeline import Timeline

Manifest = dict[str, Any]
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
GPU = "nvidia.com/gpu"
NEW = "2"
#: Seconds of each batch that the timeline omits: Pulumi's work and polling intervals.
BATCH_SECONDS = 10


@dataclass(frozen=True)
class Sample:
    """The service at one point in time.

    Attributes:
        serving: Ready replicas of each role.
        changed: LeaderWorkerSets that have a pod of the new release or are new.
        down: LeaderWorkerSets with unavailable replicas.
        accelerators: Accelerators of all pods.
    """

    serving: Mapping[str, int]
    changed: frozenset[str]
    down: frozenset[str]
    accelerators: int


def observe(stack: Stack, wanted: Mapping[str, int]) -> Sample:
    """Read the service; `wanted` are the replicas of each LeaderWorkerSet."""
    pods = stack.cluster.pods(stack.namespace)
    serving: dict[str, int] = {}
    ready: dict[str, int] = {}
    for pod in leaders(stack.cluster, stack.namespace):
        role_name = pod["metadata"]["labels"]["fusioninfer.io/role-name"]
        serving[role_name] = serving.get(role_name, 0) + is_ready(pod)
        name = pod["metadata"]["labels"][LWS_NAME]
        ready[name] = ready.get(name, 0) + is_ready(pod)
    return Sample(
        serving,
        frozenset(pod["metadata"]["labels"][LWS_NAME] for pod in pods if get_tag(pod) == NEW),
        frozenset(name for name, count in ready.items() if count < wanted.get(name, 0)),
        sum(int(pod["spec"]["containers"][0]["resources"]["limits"].get(GPU, 0)) for pod in pods),
    )


def simulate(old: Manifest, new: Manifest) -> Timeline:
    plans = inputs.build_plan(old), inputs.build_plan(new)
    objects = [inputs.render_objects(plan) for plan in plans]
    (update,) = simulate_updates(objects[0], objects[1], ([plans[0]], [plans[1]]))
    assert update.timeline is not None, update.obstacle
    return update.timeline


def list_by_appearance(sets: Sequence[frozenset[str]]) -> Iterator[str]:
    """Return the names in the order of first appearance; names of one set are sorted."""
    seen: set[str] = set()
    for names in sets:
        yield from sorted(names - seen)
        seen |= names


def select_role(plan: ServicePlan, role_name: str, names: Sequence[str]) -> list[str]:
    role_lws = {lws.name for item in plan.roles if item.name == role_name for lws in item.lws}
    return [name for name in names if name in role_lws]


def make_roles(tag: str, *names: str, **more: Any) -> list[Manifest]:
    """Return roles whose pods start slowly enough for polling to notice that they are down."""
    kinds = {"prefill": "prefiller", "decode": "decoder"}
    slow: Manifest = {"behavior": "slow", "delay": "3s"}
    return [
        role(name, kinds.get(name, "worker"), tag=tag, gpus=2, **slow, **more) for name in names
    ]


def make_pair(
    namespace: str, rollout: Manifest, names: Sequence[str] = ("serve",), **more: Any
) -> Any:
    spec_rollout = {"timeout": "150s", **rollout}
    spec = {key: more.pop(key) for key in ("layout",) if key in more}
    return tuple(
        service(namespace, *make_roles(tag, *names, **more), rollout=spec_rollout, **spec)
        for tag in ("1", NEW)
    )


SHAPES: dict[str, Callable[[str], tuple[Manifest, Manifest]]] = {
    "one at a time": lambda ns: make_pair(ns, {}),
    "two of five at a time": lambda ns: make_pair(ns, {"maxUnavailable": 2}, replicas=5),
    "replicas of two nodes": lambda ns: make_pair(ns, {}, replicas=2, **TWO_NODES),
    "a partition": lambda ns: make_pair(ns, {"partition": 2}, replicas=4),
    "all at once": lambda ns: make_pair(ns, {"strategy": "Recreate"}),
    "roles together": lambda ns: make_pair(ns, {}, ("prefill", "decode"), replicas=2),
    "one role after the other": lambda ns: make_pair(
        ns, {"roleOrder": "Sequential"}, ("prefill", "decode"), replicas=2
    ),
    "a surge": lambda ns: make_pair(ns, {"maxUnavailable": 0, "maxSurge": 1}, layout="PerRole"),
    "a replica more": lambda ns: (
        make_pair(ns, {}, replicas=2)[0],
        make_pair(ns, {}, replicas=3)[1],
    ),
    "a renamed role": lambda ns: (
        make_pair(ns, {}, ("old",), replicas=2)[0],
        make_pair(ns, {}, ("new",), replicas=2)[1],
    ),
}


@pytest.mark.verifies("Updates of ten shapes follow the timeline of `plan --update`")
@pytest.mark.parametrize("shape", SHAPES)
def test_update_follows_its_timeline(stack: Stack, shape: str) -> None:
    stack.cluster.add_nodes(4)
    old, new = SHAPES[shape](stack.namespace)
    timeline, plan = simulate(old, new), inputs.build_plan(new)
    wanted = {lws.name: len(lws.replicas) for item in plan.roles for lws in item.lws}
    stack.deploy_services(old)
    assert observe(stack, wanted).accelerators == timeline.before.accelerators

    stack.write(new)
    started = time.monotonic()
    with poll(lambda: observe(stack, wanted), every=0.1) as samples:
        stack.up().assert_succeeded()
    seconds = time.monotonic() - started
    assert seconds < timeline.after.seconds + BATCH_SECONDS * (1 + len(timeline.batches))

    # Compared for each role, because roles that do not wait for each other overlap differently.
    # LeaderWorkerSets of one batch may change in any order.
    batches = [frozenset((*row.restarting, *row.starting)) for row in timeline.batches]
    actual = list(list_by_appearance([item.changed for item in samples]))
    for item in plan.roles:
        expected = [select_role(plan, item.name, sorted(batch)) for batch in batches]
        order = select_role(plan, item.name, actual)
        assert set(order) == set().union(*expected), (order, batches)
        numbers = [min(i for i, batch in enumerate(expected) if n in batch) for n in order]
        assert numbers == sorted(numbers), (order, batches)

    # At most as many replicas of each role are down together as in the timeline.
    for item in plan.roles:
        least = min(row.serving[item.name] for row in timeline.rows)
        assert min(seen.serving.get(item.name, 0) for seen in samples) == least, item.name
    down = {
        frozenset(select_role(plan, item.name, sorted(seen.down)))
        for seen in samples
        for item in plan.roles
    }
    largest = max(len(select_role(plan, i.name, [*batch])) for batch in batches for i in plan.roles)
    assert max(map(len, down)) <= largest, (down, batches)
    if shape == "one role after the other":
        prefill = {name for name in wanted if "prefill" in name}
        assert not any(seen.down & prefill and seen.down - prefill for seen in samples)

    assert max(seen.accelerators for seen in samples) == timeline.peak
    stack.cluster.wait(
        lambda: observe(stack, wanted).accelerators == timeline.after.accelerators,
        60,
        lambda: str(observe(stack, wanted)),
    )
