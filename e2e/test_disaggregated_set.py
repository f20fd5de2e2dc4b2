"""What a DisaggregatedSet of LeaderWorkerSet 0.9 does, beside what our layouts do."""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from e2e.disaggregated import disaggregated
from e2e.harness import Cluster, Object
from e2e.harness.pods import LEADERS, is_ready
from e2e.harness.stages import BEHAVIOUR, UNPULLABLE
from e2e.routers import objects_of

pytestmark = pytest.mark.upstream

KIND = "disaggregatedset.x-k8s.io/v1/DisaggregatedSet"
LABEL = "disaggregatedset.x-k8s.io"
GPU = "nvidia.com/gpu"
FULL = {"prefill": 2, "decode": 4}
#: A role that needs no room for its update.
IN_PLACE = {"maxUnavailable": 1, "maxSurge": 0}
WAIT = 120.0
#: How long nothing must change, where an update stands still.
STILL = 15.0


def disaggregated_set(
    tag: str, rollout: Mapping[str, int] | None = None, *, behaviour: str = "ready"
) -> Object:
    """Two prefill and four decode pods, each with a whole node."""

    def role(name: str) -> Object:
        limits = {GPU: "8"}
        image = f"registry.example.com/engine:{tag}"
        container = {"name": "engine", "image": image, "resources": {"limits": limits}}
        metadata = {"annotations": {BEHAVIOUR: behaviour}}
        template = {"metadata": metadata, "spec": {"containers": [container]}}
        spec: Object = {
            "replicas": FULL[name],
            "leaderWorkerTemplate": {"size": 1, "workerTemplate": template},
        }
        if rollout is not None:
            spec["rolloutStrategy"] = {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": dict(rollout),
            }
        return {"name": name, "spec": spec}

    return {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": "pair"},
        "spec": {"roles": [role("prefill"), role("decode")]},
    }


def counts(cluster: Cluster, namespace: str, *, ready: bool = True) -> Counter[tuple[str, str]]:
    """Pods by role and tag of their image: those that are ready, or all others."""
    return Counter(
        (pod["metadata"]["labels"][f"{LABEL}/role"], tag_of(pod))
        for pod in cluster.pods(namespace)
        if "deletionTimestamp" not in pod["metadata"] and is_ready(pod) == ready
    )


def tag_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def serves(cluster: Cluster, namespace: str, tag: str) -> bool:
    """Whether all pods are of this image, and ready."""
    wanted = {(role, tag): count for role, count in FULL.items()}
    return counts(cluster, namespace) == wanted and not counts(cluster, namespace, ready=False)


@contextmanager
def lowest(cluster: Cluster, namespace: str) -> Iterator[dict[str, int]]:
    """The fewest ready pods of each role, of whatever image, until the context ends."""
    least = dict(FULL)
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            ready: Counter[str] = Counter()
            for (role, _), count in counts(cluster, namespace).items():
                ready[role] += count
            for role in FULL:
                least[role] = min(least[role], ready[role])
            stop.wait(0.1)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield least
    finally:
        stop.set()
        thread.join()


def put(cluster: Cluster, namespace: str, pair: Object) -> None:
    cluster.apply([pair], namespace=namespace)


def started(
    cluster: Cluster, namespace: str, nodes: int, rollout: Mapping[str, int] | None = None
) -> None:
    """Create the first revision on so many nodes, and wait until it serves."""
    cluster.add_nodes(nodes)
    put(cluster, namespace, disaggregated_set("1", rollout))
    await_image(cluster, namespace, "1")


def await_image(cluster: Cluster, namespace: str, tag: str) -> None:
    cluster.wait(
        lambda: serves(cluster, namespace, tag),
        WAIT,
        lambda: (
            f"{counts(cluster, namespace)}, not ready {counts(cluster, namespace, ready=False)}"
        ),
    )


@pytest.mark.proves("DisaggregatedSet: with a free node per role, updates lose no ready pods")
def test_an_update_with_room(cluster: Cluster, namespace: str) -> None:
    started(cluster, namespace, 8)
    with lowest(cluster, namespace) as least:
        put(cluster, namespace, disaggregated_set("2"))
        await_image(cluster, namespace, "2")
    assert least == FULL


@pytest.mark.proves(
    "DisaggregatedSet: without free nodes, updates stall while the old revision serves"
)
@pytest.mark.parametrize("free", [0, 1])
def test_an_update_without_room(cluster: Cluster, namespace: str, free: int) -> None:
    started(cluster, namespace, 6 + free)
    put(cluster, namespace, disaggregated_set("2"))

    def waits() -> bool:
        waiting = counts(cluster, namespace, ready=False)
        return sum(waiting.values()) == 2 - free and all(tag == "2" for _, tag in waiting)

    cluster.wait(waits, WAIT, lambda: str(counts(cluster, namespace, ready=False)))
    before = sorted(pod["metadata"]["uid"] for pod in cluster.pods(namespace))
    time.sleep(STILL)
    assert sorted(pod["metadata"]["uid"] for pod in cluster.pods(namespace)) == before
    ready = counts(cluster, namespace)
    assert {role: ready[role, "1"] for role in FULL} == FULL
    cluster.add_nodes(2 - free)
    await_image(cluster, namespace, "2")


@pytest.mark.proves(
    "DisaggregatedSet: `maxUnavailable: 1` and `maxSurge: 0` update without a free node"
)
def test_an_update_in_place(cluster: Cluster, namespace: str) -> None:
    started(cluster, namespace, 6, IN_PLACE)
    with lowest(cluster, namespace) as least:
        put(cluster, namespace, disaggregated_set("2", IN_PLACE))
        await_image(cluster, namespace, "2")
    # Which role has how many down differs from run to run.
    assert least != FULL


@pytest.mark.proves(
    "DisaggregatedSet: a failing image keeps the old revision, with an empty status"
)
@pytest.mark.parametrize("rollout", [None, IN_PLACE])
def test_an_image_that_cannot_be_pulled(
    cluster: Cluster, namespace: str, rollout: Mapping[str, int] | None
) -> None:
    started(cluster, namespace, 8 if rollout is None else 6, rollout)
    put(cluster, namespace, disaggregated_set("2", rollout, behaviour=UNPULLABLE))

    def stuck() -> bool:
        waiting = counts(cluster, namespace, ready=False)
        return set(waiting) == {("prefill", "2"), ("decode", "2")}

    cluster.wait(stuck, WAIT, lambda: str(counts(cluster, namespace, ready=False)))
    time.sleep(STILL)
    down = 0 if rollout is None else 1
    ready = counts(cluster, namespace)
    assert {role: ready[role, "1"] for role in FULL} == {
        role: count - down for role, count in FULL.items()
    }
    (pair,) = cluster.list(KIND, namespace)
    assert not pair.get("status", {}).get("conditions")
    put(cluster, namespace, disaggregated_set("3", rollout))
    await_image(cluster, namespace, "3")


def parked(service: Object) -> Object:
    """The service without pods of its own: its router stays."""
    changed = copy.deepcopy(service)
    for role in changed["spec"]["roles"]:
        if role["componentType"] != "router":
            role["replicas"] = 0
    return changed


@pytest.mark.proves(
    "DisaggregatedSet: its pods join the InferencePool of a service with replicas 0"
)
def test_a_pool_selects_pods_of_a_disaggregated_set(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(2)
    service = disaggregated(namespace)
    rendered = [each for each in objects_of(service) if each["kind"] == "LeaderWorkerSet"]
    roles = {each["metadata"]["labels"]["fusioninfer.io/role-name"]: each for each in rendered}
    pair = {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": "pair"},
        "spec": {
            "roles": [
                {
                    "name": name,
                    "spec": {
                        "replicas": 2,
                        "leaderWorkerTemplate": lws["spec"]["leaderWorkerTemplate"],
                    },
                }
                for name, lws in roles.items()
            ]
        },
    }
    objects = objects_of(parked(service))
    assert not any(each["kind"] == "LeaderWorkerSet" for each in objects)
    # A service without decode pods has no account for their sidecar.
    account = [each for each in objects_of(service) if each["metadata"]["name"] == "svc-sidecar"]
    assert {each["kind"] for each in account} == {"ServiceAccount", "Role", "RoleBinding"}
    cluster.apply([*objects, *account])
    cluster.apply([pair], namespace=namespace)
    (pool,) = cluster.list("inference.networking.k8s.io/v1/InferencePool", namespace)
    labels = pool["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())

    def selected() -> Counter[str]:
        pods = cluster.pods(namespace, selector)
        return Counter(pod["metadata"]["labels"][f"{LABEL}/role"] for pod in pods if is_ready(pod))

    cluster.wait(lambda: selected() == {"prefill": 2, "decode": 2}, WAIT, lambda: str(selected()))
    assert len(cluster.pods(namespace, LEADERS)) == 4
