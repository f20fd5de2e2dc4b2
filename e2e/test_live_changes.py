"""What becomes of a running gang when nodes come and go and its size is edited.

`docs/live-behaviour.md` tells the same in words; keep the two together.
"""

from __future__ import annotations

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService, task_of

FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
MINIMUM = {"prefill": 1, "decode": 1}
LITERAL = prefill_decode()
PARTIAL = prefill_decode(minimum=MINIMUM)

LAYOUTS = pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])


def laid_out(manifest: Object, layout: str) -> Object:
    return {**manifest, "spec": {**manifest["spec"], "layout": layout}}


def leader(layout: str, replica: str) -> str:
    """The leader of a replica: the first of its own set, or a group of the role's one set."""
    return f"svc-{replica}-0" if layout == "PerReplica" else f"svc-{replica}"


def node_of(service: LiveService, task: str) -> str:
    return str(next(p for p in service.pods() if task_of(p) == task)["spec"]["nodeName"])


def started(cluster: Cluster, namespace: str, manifest: Object, nodes: int = 10) -> LiveService:
    service = LiveService(cluster, namespace, manifest)
    cluster.add_nodes(nodes)
    service.apply()
    service.becomes(FULL)
    return service


@LAYOUTS
@pytest.mark.proves("All-or-nothing gang: a lost replica waits until the whole gang fits")
def test_lost_replica_of_full_gang_waits_until_all_fit(
    cluster: Cluster, namespace: str, layout: str
) -> None:
    service = started(cluster, namespace, laid_out(LITERAL, layout))
    others = service.identities("prefill-0", "decode-0")
    lost = service.identities("decode-1")

    cluster.remove_nodes([node_of(service, "decode-1")])

    # LeaderWorkerSet makes the whole replica anew; its four pods would not all fit.
    service.becomes({**FULL, "decode-1": 0})
    assert service.identities("prefill-0", "decode-0") == others
    assert not set(service.identities("decode-1").values()) & set(lost.values())

    # Nor does another replica that restarts meanwhile get its own nodes back.
    cluster.delete("v1/Pod", leader(layout, "prefill-0"), namespace, now=True)
    service.becomes({"prefill-0": 0, "decode-0": 4, "decode-1": 0})

    cluster.add_nodes(1)
    service.becomes(FULL)
    assert service.identities("decode-0").items() <= others.items()


@pytest.mark.proves("Partial gang: a lost replica returns with its node")
@pytest.mark.parametrize("task", ["decode-1", "decode-0", "prefill-0"])
@LAYOUTS
def test_lost_replica_of_partial_gang_returns_with_its_node(
    cluster: Cluster, namespace: str, layout: str, task: str
) -> None:
    service = started(cluster, namespace, laid_out(PARTIAL, layout))
    others = service.identities(*FULL.keys() - {task})

    cluster.remove_nodes([node_of(service, task)])
    service.becomes({**FULL, task: 0})

    cluster.add_nodes(1)
    service.becomes(FULL)
    assert service.identities(*FULL.keys() - {task}) == others


@pytest.mark.parametrize("required", ["Any", "LowestOrdinals"])
@pytest.mark.proves(
    "Partial gang: an optional replica stands in for a lost one, except with LowestOrdinals"
)
def test_optional_replica_takes_capacity_of_lost_one(
    cluster: Cluster, namespace: str, required: str
) -> None:
    service = started(cluster, namespace, prefill_decode(minimum=MINIMUM, required=required))
    others = service.identities("decode-1")
    cluster.remove_nodes([node_of(service, "decode-0")])
    service.becomes({**FULL, "decode-0": 0})

    cluster.delete("v1/Pod", "svc-prefill-0-0", namespace, now=True)

    # Three nodes were left free, and two more now: not enough for decode-0 and prefill-0 together.
    service.becomes({**FULL, "decode-0": 0, "prefill-0": 2 if required == "Any" else 0})
    cluster.add_nodes(1)
    service.becomes(FULL)
    assert service.identities("decode-1") == others


@pytest.mark.proves("Partial gang: a lost optional replica leaves capacity for a required one")
def test_deleted_optional_replica_leaves_capacity_for_required_one(
    cluster: Cluster, namespace: str
) -> None:
    service = started(cluster, namespace, PARTIAL)
    cluster.remove_nodes([node_of(service, "prefill-0")])
    service.becomes({**FULL, "prefill-0": 0})

    service.apply(prefill_decode(decode=1, minimum=MINIMUM))

    service.becomes({"prefill-0": 2, "decode-0": 4})


@pytest.mark.proves("Partial gang: scaling leaves the PodGroup and other replicas alone")
def test_partial_gang_scales_without_other_changes(cluster: Cluster, namespace: str) -> None:
    service = started(cluster, namespace, PARTIAL)
    others = service.identities()
    group = service.pod_group()

    service.apply(prefill_decode(decode=3, minimum=MINIMUM))
    service.becomes({**FULL, "decode-2": 0})
    cluster.add_nodes(4)
    service.becomes({**FULL, "decode-2": 4})
    assert service.identities(*FULL) == others

    service.apply(PARTIAL)
    service.becomes(FULL)
    assert service.identities() == others
    assert group is not None
    assert (service.pod_group() or {})["spec"] == group["spec"]


@pytest.mark.proves("All-or-nothing gang: scaling up with capacity restarts nothing")
def test_full_gang_scales_up_without_restarts(cluster: Cluster, namespace: str) -> None:
    service = started(cluster, namespace, LITERAL, nodes=14)
    others = service.identities()
    service.apply(prefill_decode(decode=3))
    service.becomes({**FULL, "decode-2": 4})
    assert service.identities(*FULL) == others


@LAYOUTS
@pytest.mark.proves("All-or-nothing gang: an unschedulable new replica blocks restarting ones")
def test_unschedulable_replica_of_full_gang_blocks_restarts(
    cluster: Cluster, namespace: str, layout: str
) -> None:
    service = started(cluster, namespace, laid_out(LITERAL, layout))
    service.apply(laid_out(prefill_decode(decode=3), layout))
    service.becomes({**FULL, "decode-2": 0})

    # Every node of the replica is there, and still its pods are not bound again.
    cluster.delete("v1/Pod", leader(layout, "prefill-0"), namespace, now=True)
    service.becomes({**FULL, "prefill-0": 0, "decode-2": 0})

    service.apply(laid_out(LITERAL, layout))
    service.becomes(FULL)


@pytest.mark.proves(
    "All-or-nothing gang: lowering the PodGroup before deleting a replica is harmless"
)
def test_lowered_pod_group_before_deletion_is_harmless(cluster: Cluster, namespace: str) -> None:
    service = started(cluster, namespace, LITERAL)
    kept = service.identities("prefill-0", "decode-0")
    lowered = LiveService(cluster, namespace, prefill_decode(decode=1))

    lowered.apply()  # knows nothing of decode-1, and so deletes nothing

    lowered.stays(FULL)
    assert service.identities("prefill-0", "decode-0") == kept
    service.apply(prefill_decode(decode=1))
    service.becomes({"prefill-0": 2, "decode-0": 4})
    assert service.identities() == kept


@pytest.mark.proves("Partial gang: an unschedulable minimum stops nothing that runs")
def test_unschedulable_minimum_stops_nothing(cluster: Cluster, namespace: str) -> None:
    both = {"prefill": 1, "decode": 2}
    service = LiveService(cluster, namespace, prefill_decode(minimum=both))
    cluster.add_nodes(8)
    service.apply()
    service.becomes(dict.fromkeys(FULL, 0))

    service.apply(PARTIAL)
    service.becomes({**FULL, "decode-1": 0})
    running = service.identities("prefill-0", "decode-0")

    service.apply(prefill_decode(minimum=both))
    service.stays({**FULL, "decode-1": 0})
    assert service.identities("prefill-0", "decode-0") == running

    cluster.add_nodes(2)
    service.becomes(FULL)
    assert service.identities("prefill-0", "decode-0") == running


@pytest.mark.proves("Raising the minimum beyond capacity blocks restarting replicas")
def test_raised_minimum_beyond_capacity_blocks_restarts(cluster: Cluster, namespace: str) -> None:
    service = LiveService(cluster, namespace, PARTIAL)
    cluster.add_nodes(8)
    service.apply()
    service.becomes({**FULL, "decode-1": 0})
    service.apply(prefill_decode(minimum={"prefill": 1, "decode": 2}))
    service.stays({**FULL, "decode-1": 0})

    cluster.delete("v1/Pod", "svc-prefill-0-0", namespace, now=True)

    service.becomes({**FULL, "prefill-0": 0, "decode-1": 0})


@pytest.mark.proves("PerRole: restarting replicas wait while the role is scaled below the minimum")
def test_role_scaled_below_minimum_blocks_restarts(cluster: Cluster, namespace: str) -> None:
    service = started(cluster, namespace, laid_out(LITERAL, "PerRole"))

    def scale(replicas: int) -> None:
        change = {"spec": {"replicas": replicas}}
        cluster.patch("LeaderWorkerSet", "svc-decode", change, namespace, subresource="scale")

    scale(1)
    cluster.wait(lambda: service.bound() == {"prefill-0": 2, "decode-0": 4}, 60, service.bound)
    cluster.delete("v1/Pod", leader("PerRole", "prefill-0"), namespace, now=True)
    service.stays({"prefill-0": 0, "decode-0": 4})
    scale(2)
    service.becomes(FULL)
