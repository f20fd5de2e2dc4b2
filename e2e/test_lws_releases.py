"""What works with older releases of LeaderWorkerSet, and what its API refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e import checks, inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, ApiError, Cluster, Object
from e2e.harness import LWS as MANAGER
from fusioninfer_pulumi.component.status import is_available

pytestmark = pytest.mark.long

NEEDS = "these releases are built"
WAIT = 120.0
SECOND = "registry.example.com/engine:2"


@pytest.fixture(scope="module", params=["lws-0.7", "lws-0.8"])
def older(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with an older LeaderWorkerSet and Kubernetes' own scheduler."""
    if not tool(request.param).is_built:
        pytest.skip(f"not built: python -m e2e.build_tools --only {request.param}")
    with Cluster({MANAGER, KUBE_SCHEDULER, KWOK}, lws=request.param) as cluster:
        cluster.add_nodes(6, 8)
        yield cluster


def put(cluster: Cluster, namespace: str, service: Object) -> None:
    """Apply a service, and remove the sets that it has no more."""
    objects = inputs.objects_of(inputs.plan_of(service))
    cluster.apply(inputs.with_namespace(objects, namespace))
    names = {
        manifest["metadata"]["name"]
        for manifest in objects
        if manifest["kind"] == "LeaderWorkerSet"
    }
    for lws in cluster.list("LeaderWorkerSet", namespace):
        if lws["metadata"]["name"] not in names:
            cluster.delete("LeaderWorkerSet", lws["metadata"]["name"], namespace)


def serves(cluster: Cluster, namespace: str, images: dict[str, str], pods: int) -> None:
    """Wait until exactly these sets are available, with pods of these images alone."""

    def done() -> bool:
        stored = {
            lws["metadata"]["name"]: lws for lws in cluster.list("LeaderWorkerSet", namespace)
        }
        ready = cluster.ready(namespace)
        running = {(checks.replica_of(pod), pod["spec"]["containers"][0]["image"]) for pod in ready}
        return (
            stored.keys() == images.keys()
            and running == set(images.items())
            and len(cluster.pods(namespace)) == len(ready) == pods
            and all(is_available(lws) for lws in stored.values())
        )

    cluster.wait(done, WAIT, lambda: str([p["status"] for p in cluster.pods(namespace)]))


def with_image(service: Object, image: str) -> Object:
    changed = copy.deepcopy(service)
    for role in changed["spec"]["roles"]:
        role["template"]["spec"]["containers"][0]["image"] = image
    return changed


@pytest.mark.proves(
    "with LeaderWorkerSet 0.7 and 0.8 services of single pods are created, updated and scaled, and "
    "those of several nodes with a `restartPolicy` of those releases",
    needs=NEEDS,
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_what_works_with_older_releases(older: Cluster, nodes: int) -> None:
    namespace = older.new_namespace()
    policy: Object = {"restartPolicy": "RecreateGroupOnPodRestart"} if nodes > 1 else {}
    service = inputs.service(
        "svc",
        inputs.role("inference", "worker", 2, nodes, **policy),
        gangPolicy={"mode": "Off"},
    )
    first = "registry.example.com/engine:1"
    names = [f"svc-inference-{index}" for index in range(3)]
    put(older, namespace, service)
    serves(older, namespace, dict.fromkeys(names[:2], first), 2 * nodes)
    service = with_image(service, SECOND)
    put(older, namespace, service)
    serves(older, namespace, dict.fromkeys(names[:2], SECOND), 2 * nodes)
    service["spec"]["roles"][0]["replicas"] = 3
    put(older, namespace, service)
    serves(older, namespace, dict.fromkeys(names, SECOND), 3 * nodes)
    service["spec"]["roles"][0]["replicas"] = 1
    put(older, namespace, service)
    serves(older, namespace, {names[0]: SECOND}, nodes)
    older.delete_namespace(namespace)


@pytest.mark.proves(
    "LeaderWorkerSet 0.7 and 0.8 refuse the default `restartPolicy` of services of several nodes, "
    "and say in no field which generation their status is about",
    needs=NEEDS,
)
def test_what_older_releases_lack(older: Cluster) -> None:
    namespace = older.new_namespace()
    several = inputs.service("svc", inputs.role("inference", "worker", 1, 2))
    several["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    with pytest.raises(ApiError, match="RecreateGroupAfterStart"):
        put(older, namespace, several)
    single = inputs.service("svc", inputs.role("inference", "worker", 1))
    put(older, namespace, single)
    serves(older, namespace, {"svc-inference-0": "registry.example.com/engine:1"}, 1)
    (lws,) = older.list("LeaderWorkerSet", namespace)
    assert "observedGeneration" not in lws["status"]
    assert not any("observedGeneration" in condition for condition in lws["status"]["conditions"])
    older.delete_namespace(namespace)
