"""What becomes of a running gang when nodes come and go and its size is edited.

`docs/live-behaviour.md` tells the same in words; keep the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService, task_of

BOTH = ("PerReplica", "PerRole")
MINIMUM = {"prefill": 1, "decode": 1}
ALL = {"prefill": 1, "decode": 2}
NO_DECODE_1, NO_DECODE_2 = {"decode-1": 0}, {"decode-2": 0}
Step = tuple[str, Any, Mapping[str, int]]
"""What happens, to what, and the bound pods of the replicas that are not whole afterwards.

`lose` takes the node of a pod of a replica, `restart` deletes its leader, `nodes` adds nodes.
`decode` and `minimum` apply the service with other replicas or another minimum, `scale` sets the
replicas of the decode role's LeaderWorkerSet, and `lower` applies the PodGroup of fewer replicas.
"""


@dataclass(frozen=True)
class Case:
    """A service of one prefill replica of two pods and two decode replicas of four, and its life.

    Attributes:
        steps: What happens, one after the other.
        minimum: Replicas that the gang needs; all without it.
        nodes: Nodes at the beginning, each for one pod.
        started: Bound pods of the replicas that are not whole at the beginning.
    """

    steps: tuple[Step, ...]
    minimum: Mapping[str, int] | None = None
    required: str = "Any"
    nodes: int = 10
    layouts: tuple[str, ...] = BOTH[:1]
    started: Mapping[str, int] | None = None


def returns(task: str) -> Case:
    return Case((("lose", task, {task: 0}), ("nodes", 1, {})), MINIMUM, layouts=BOTH)


def takes_capacity(required: str, prefill: int) -> Case:
    lost = {"decode-0": 0}
    steps: tuple[Step, ...] = (
        ("lose", "decode-0", lost),
        # Three nodes were left free, and two more now: not enough for decode-0 and prefill-0.
        ("restart", "prefill-0", {**lost, **({} if prefill else {"prefill-0": 0})}),
        ("nodes", 1, {}),
    )
    return Case(steps, MINIMUM, required)


CLAIMS: dict[str, list[Case]] = {
    "All-or-nothing gang: a lost replica waits until the whole gang fits": [Case((
        # LeaderWorkerSet makes the whole replica anew; its four pods would not all fit.
        ("lose", "decode-1", NO_DECODE_1),
        # Nor does another replica that restarts meanwhile get its own nodes back.
        ("restart", "prefill-0", {"prefill-0": 0, "decode-1": 0}),
        ("nodes", 1, {})), layouts=BOTH)],
    "Partial gang: a lost replica returns with its node": [
        returns("decode-1"), returns("decode-0"), returns("prefill-0")],
    "Partial gang: an optional replica stands in for a lost one, except with LowestOrdinals": [
        takes_capacity("Any", 2), takes_capacity("LowestOrdinals", 0)],
    "Partial gang: a lost optional replica leaves capacity for a required one": [Case((
        ("lose", "prefill-0", {"prefill-0": 0}), ("decode", 1, {})), MINIMUM)],
    "Partial gang: scaling leaves the PodGroup and other replicas alone": [Case((
        ("decode", 3, NO_DECODE_2), ("nodes", 4, {}), ("decode", 2, {})), MINIMUM)],
    "All-or-nothing gang: scaling up with capacity restarts nothing": [Case((
        ("decode", 3, {}),), nodes=14)],
    "All-or-nothing gang: an unschedulable new replica blocks restarting ones": [Case((
        ("decode", 3, NO_DECODE_2),
        # Every node of the replica is there, and still its pods are not bound again.
        ("restart", "prefill-0", {"prefill-0": 0, "decode-2": 0}),
        ("decode", 2, {})), layouts=BOTH)],
    "All-or-nothing gang: lowering the PodGroup before deleting a replica is harmless": [Case((
        ("lower", 1, {}), ("decode", 1, {})))],
    "Partial gang: an unschedulable minimum stops nothing that runs": [Case((
        ("minimum", MINIMUM, NO_DECODE_1), ("minimum", ALL, NO_DECODE_1), ("nodes", 2, {})),
        ALL, nodes=8, started={"prefill-0": 0, "decode-0": 0, "decode-1": 0})],
    "Raising the minimum beyond capacity blocks restarting replicas": [Case((
        ("minimum", ALL, NO_DECODE_1), ("restart", "prefill-0", {"prefill-0": 0, "decode-1": 0})),
        MINIMUM, nodes=8, started=NO_DECODE_1)],
    "PerRole: restarting replicas wait while the role is scaled below the minimum": [Case((
        ("scale", 1, {}), ("restart", "prefill-0", {"prefill-0": 0}), ("scale", 2, {})),
        layouts=BOTH[1:])],
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        pytest.param(case, layout, marks=pytest.mark.proves(claim))
        for claim, cases in CLAIMS.items()
        for case in cases
        for layout in case.layouts
    ],
)
def test_gang_after_changes(cluster: Cluster, namespace: str, case: Case, layout: str) -> None:
    decode, minimum = 2, case.minimum

    def made() -> Object:
        made = prefill_decode(decode=decode, minimum=minimum, required=case.required)
        return {**made, "spec": {**made["spec"], "layout": layout}}

    def full() -> dict[str, int]:
        return {"prefill-0": 2, **{f"decode-{index}": 4 for index in range(decode)}}

    service = LiveService(cluster, namespace, made())
    cluster.add_nodes(case.nodes)
    service.apply()
    bound = {**full(), **(case.started or {})}
    service.becomes(bound)
    group = (service.pod_group() or {})["spec"]
    for action, argument, missing in case.steps:
        before, pods = bound, {task: service.identities(task) for task in bound}
        if action == "lose":
            lost = next(pod for pod in service.pods() if task_of(pod) == argument)
            cluster.remove_nodes([str(lost["spec"]["nodeName"])])
        elif action == "restart":
            # The leader is the first of its own set, or a group of the role's one set.
            leader = f"svc-{argument}{'-0' if layout == 'PerReplica' else ''}"
            cluster.delete("v1/Pod", leader, namespace, now=True)
        elif action == "nodes":
            cluster.add_nodes(argument)
        elif action == "lower":
            # It knows nothing of decode-1, and so deletes nothing.
            LiveService(cluster, namespace, prefill_decode(decode=argument)).apply()
        elif action == "scale":
            decode = argument
            service.manifest = made()
            scale = {"spec": {"replicas": argument}}
            cluster.patch("LeaderWorkerSet", "svc-decode", scale, namespace, subresource="scale")
        else:
            decode = argument if action == "decode" else decode
            minimum = argument if action == "minimum" else minimum
            service.apply(made())
        bound = {**full(), **missing}
        service.becomes(bound)
        for task in before.keys() & bound.keys():
            if before[task] and bound[task] and task != argument:
                assert service.identities(task) == pods[task], (action, task)
    if minimum is not None and minimum == case.minimum:
        assert (service.pod_group() or {})["spec"] == group
